#!/bin/sh
# Installs the engines' libraries, and the tools of the tests, from Debian where they are missing: as
# root, or by sudo without a password. Elsewhere says what to run. A store whose library is missing is left out.
set -eu

# The engines are those that CMakeLists.txt names.
stores="$(dirname "$0")/shims/CMakeLists.txt"
packages=$(sed -n 's/^kv_store(.* DEBIAN \([^ )]*\)).*/\1/p' "$stores" | sort -u | tr '\n' ' ')
command -v cc >/dev/null || packages="$packages gcc"
command -v c++ >/dev/null || packages="$packages g++"
command -v strace >/dev/null || packages="$packages strace" # counts syncs
command -v mkfs.ext4 >/dev/null || packages="$packages e2fsprogs" # the disk that is copied
command -v clang >/dev/null || packages="$packages clang libclang-rt-dev" # fuzzes: 110 MB, 15 seconds
python3 -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"

if ! command -v apt-get >/dev/null; then
    echo "No apt-get here: install the engines by other means (conda: environment.yml)." >&2
    exit 0
fi
missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0

install="apt-get install --yes --no-install-recommends"
if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "System packages are missing. Run this, then make again:" >&2
    echo "    sudo apt-get update && sudo $install$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
here=""
for package in $missing; do
    if apt-cache show "$package" >/dev/null 2>&1; then
        here="$here $package"
    else
        echo "$package is in no package source of this system: a store less." >&2
    fi
done
$as_root $install -qq $here >/dev/null
