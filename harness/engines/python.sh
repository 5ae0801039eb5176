#!/bin/sh
# Installs into .venv the bindings that set-up cannot install alone. One that cannot be had is left out.
#
#   python-rocksdb  compiled against the RocksDB 6 of old-debian.sh, by compilers of its time in a folder of their own
#   dbm.gnu         for an interpreter that was built without it: the module of Debian's Python, if that is as new
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
engines=$root/build/engines
python=$root/.venv/bin/python

pip() { # by one of the two environments
    by=$1 && shift
    "$by" -m pip --quiet --disable-pip-version-check "$@"
}

build_rocksdb() {
    old=$engines/rocksdb-6/usr
    [ -d "$old" ] || { echo "python-rocksdb: RocksDB 6 could not be had" >&2; return 1; }
    "$python" -m venv "$engines/compilers"
    compilers=$engines/compilers/bin/python
    pip "$compilers" install --require-hashes --no-deps -r "$root/requirements-compilers.lock"
    # Variables of the compiler and the linker, since flags must not have blanks in their paths.
    CPATH=$old/include LIBRARY_PATH=$old/lib LD_RUN_PATH=$old/lib CFLAGS="-std=c++14 -w" \
        pip "$compilers" wheel --require-hashes --no-build-isolation --no-deps --wheel-dir "$engines/wheels" \
        -r "$root/requirements-rocksdb.lock"
    pip "$python" install --no-deps --force-reinstall "$engines"/wheels/python_rocksdb-*.whl
    rm -rf "$engines/compilers"
}

borrow_gdbm() {
    "$python" -c 'import dbm.gnu' 2>/dev/null && return
    mkdir -p "$engines/gdbm" && cd "$engines/gdbm"
    apt-get -qq -o APT::Sandbox::User="$(id -un)" download python3-gdbm
    dpkg -x python3-gdbm_*.deb .
    suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
    module=$(find . -name "_gdbm$suffix")
    [ -n "$module" ] || { echo "dbm.gnu: Debian's python3-gdbm is for another release of Python" >&2; return 1; }
    cp "$module" "$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
    "$python" -c 'import dbm.gnu'
}

if [ $# -eq 1 ]; then # one step, by a shell of its own, which ends at the first error
    "$1"
    exit
fi
for step in build_rocksdb borrow_gdbm; do
    sh "$root/harness/engines/python.sh" "$step" || echo "$step failed: kvbench stores names what is left out" >&2
done
