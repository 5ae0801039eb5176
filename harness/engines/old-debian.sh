#!/bin/sh
# Gets the engines that only an older Debian has, into build/engines: apt fetches its packages with lists of our
# own and checks their signatures; nothing of the system changes. An engine that cannot be had is left out.
#
#   tokudb     PerconaFT, from the source of MariaDB 10.5: compiled into static libraries (a minute)
#   rocksdb-6  the library and the headers that python-rocksdb compiles against
set -eu
here=$(cd "$(dirname "$0")" && pwd)
engines=$(cd "$here/../.." && pwd)/build/engines
suite=bullseye mariadb=1:10.5.23-0+deb11u1 rocksdb=6.11.4-3+deb11u1
own=$engines/apt

leave() { # why nothing more can be had
    echo "The engines of Debian 11 are left out: $1" >&2
    exit 0
}

old_apt() {
    apt-get -qq -o Dir::State="$own" -o Dir::State::Lists="$own/lists" -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Cache="$own/cache" -o Dir::Etc::sourcelist="$own/old.sources" -o Dir::Etc::sourceparts=/dev/null \
        -o APT::Sandbox::User="$(id -un)" "$@"
}

# Where this system's own packages come from, and the keys that sign them.
value() { grep -hs "^$1:" /etc/apt/sources.list.d/debian.sources | head -n 1 | cut -d ' ' -f 2; }

fetch_lists() {
    mkdir -p "$own/lists/partial" "$own/cache/archives/partial"
    mirror=$(value URIs) keys=$(value Signed-By)
    [ -n "$mirror" ] || leave "this system names no Debian mirror in /etc/apt/sources.list.d/debian.sources"
    printf 'Types: deb deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
        "$mirror" "$suite" "$keys" >"$own/old.sources"
    old_apt update >&2 || leave "the mirror does not have its lists"
}

build_tokudb() {
    work=$engines/tokudb-build
    case $work in *[[:space:]]*) work=$(mktemp -d) ;; esac # the library xz inside it refuses blanks
    echo "TokuDB is compiled in $work" >&2
    rm -rf "$work" && mkdir -p "$work/build" && cd "$work"
    old_apt source --download-only "mariadb-10.5=$mariadb"
    archive=$(ls mariadb-10.5_*.orig.tar.gz)
    top=$(tar tzf "$archive" 2>/dev/null | head -n 1 | cut -d / -f 1)
    tar xzf "$archive" "$top/storage/tokudb/PerconaFT" "$top/cmake/check_compiler_flag.cmake"
    # PerconaFT expects these two of MariaDB's own CMake files.
    printf 'include("%s")\nfunction(INSTALL_DOCUMENTATION)\nendfunction()\n' \
        "$work/$top/cmake/check_compiler_flag.cmake" >project.cmake
    glibc="-DHAVE_PTHREAD_YIELD=1 -DPTHREAD_YIELD_RETURNS_INT=1 -Dpthread_yield=sched_yield -include sched.h"
    export CMAKE_POLICY_VERSION_MINIMUM=3.5 # for the libraries inside it
    export CPATH="$here" # not among the flags, where it must not have blanks
    cmake -S "$top/storage/tokudb/PerconaFT" -B build -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        -DUSE_VALGRIND=OFF -DCMAKE_PROJECT_TokuDB_INCLUDE="$work/project.cmake" -DCMAKE_C_FLAGS="-fPIC -w" \
        -DCMAKE_CXX_FLAGS="-fPIC -w $glibc" >cmake.log 2>&1
    make -C build -j"$(nproc)" tokufractaltree_static tokuportability_static >make.log 2>&1
    mkdir -p made/include made/lib
    cp build/buildheader/db.h made/include/tokudb.h
    cp build/src/libtokufractaltree_static.a build/portability/libtokuportability_static.a \
        build/xz/lib/liblzma.a build/snappy/lib/libsnappy.a made/lib
    echo "$top" | cut -d - -f 2 >made/version
    rm -rf "$engines/tokudb" && mv made "$engines/tokudb" && cd / && rm -rf "$work"
}

unpack_rocksdb() {
    work=$engines/rocksdb-build
    echo "RocksDB 6 is unpacked in $work" >&2
    rm -rf "$work" && mkdir -p "$work" && cd "$work"
    old_apt download "librocksdb-dev=$rocksdb" "librocksdb6.11=$rocksdb"
    for package in *.deb; do dpkg -x "$package" made; done
    rm -rf "$engines/rocksdb-6" && mv made "$engines/rocksdb-6" && cd / && rm -rf "$work"
}

if [ $# -eq 1 ]; then # one step, by a shell of its own, which ends at the first error
    "$1"
    exit
fi
command -v apt-get >/dev/null || leave "apt-get is missing"
[ -d "$engines/tokudb" ] && [ -d "$engines/rocksdb-6" ] && exit 0
fetch_lists
for step in build_tokudb unpack_rocksdb; do
    sh "$here/old-debian.sh" "$step" || echo "$step failed; its files are kept" >&2
done
