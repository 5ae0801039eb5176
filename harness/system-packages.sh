#!/bin/sh
# Installs the engines' libraries and the tests' tools from Debian where they are missing: as root, or with
# sudo if it asks for no password. Otherwise prints the command. A store whose library is missing is left out.
# NO_APT=1 goes on without any of them.
set -eu
[ -z "${NO_APT:-}" ] || exit 0

# Each store's file names the packages of its engine.
packages=$(sed -n 's/^debian = "\([^"]*\)".*/\1/p' "$(dirname "$0")"/shims/stores/*.toml | tr ' ' '\n' | sort -u | tr '\n' ' ')
command -v cc >/dev/null || packages="$packages gcc"
command -v c++ >/dev/null || packages="$packages g++"
[ -z "${ENGINES:-}" ] || command -v mvn >/dev/null || packages="$packages maven" # for the current RocksDB: 150 MB
command -v strace >/dev/null || packages="$packages strace" # counts syncs
command -v db_bench >/dev/null || packages="$packages rocksdb-tools" # for make bench
command -v valgrind >/dev/null || packages="$packages valgrind" # for make bench: counts instructions
command -v fio >/dev/null || packages="$packages fio" # measures the device
command -v mkfs.ext4 >/dev/null || packages="$packages e2fsprogs" # for simulated power failures, and --fs
command -v mkfs.xfs >/dev/null || packages="$packages xfsprogs" # for --fs xfs
command -v mkfs.btrfs >/dev/null || packages="$packages btrfs-progs" # for --fs btrfs
command -v nbdkit >/dev/null || packages="$packages nbdkit" # for the disk that records writes and fails
[ -e /usr/include/nbdkit-plugin.h ] || packages="$packages nbdkit-plugin-dev"
command -v nbdfuse >/dev/null || packages="$packages libnbd-bin"
ldconfig -p | grep -q libseccomp.so.2 || packages="$packages libseccomp2" # for system calls that fail
command -v clang >/dev/null || packages="$packages clang libclang-rt-dev" # for the fuzzer: 110 MB, 15 seconds
command -v npm >/dev/null || packages="$packages npm" # for the explorer, and LevelDB's forks
# The explorer's tests: 130 MB, 30 seconds.
command -v chromium >/dev/null || packages="$packages chromium"
command -v chromedriver >/dev/null || packages="$packages chromium-driver"
# For the stores in Rust: 460 MB. They would replace an older rustc, which is left to its owner.
command -v rustc >/dev/null || packages="$packages rustc-web cargo-web"
if [ "$(command -v python3)" = /usr/bin/python3 ]; then # of another Python it would be of no use
    python3 -c 'import dbm.gnu' 2>/dev/null || packages="$packages python3-gdbm" # for the bindings dbm.gnu and shelve
    [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ||
        packages="$packages python3-dev" # for Berkeley DB's bindings
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"

if ! command -v apt-get >/dev/null; then
    echo "apt-get is missing: install the engines by other means, such as conda with environment.yml." >&2
    exit 0
fi
missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0

known() { apt-cache show "$1" >/dev/null 2>&1; }

choose() { # the missing packages that this system has; all, if it has no lists
    for package in $missing; do
        if known "$package" || ! known base-files; then
            printf ' %s' "$package"
        else
            echo "$package is in no package source of this system: what needs it is left out." >&2
        fi
    done
}

install="apt-get install --yes --no-install-recommends"
if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "System packages are missing. Run this, then make again (or NO_APT=1 make, without what needs them):" >&2
    echo "    sudo apt-get update && sudo $install$(choose)" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root $install -qq $(choose) >/dev/null
