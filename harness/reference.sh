#!/bin/sh
# One sitting of the reference run, as root: the core fields, then the experiments from where the last
# sitting stopped, then the core fields again. A sitting goes on where one was interrupted.
# usage: reference.sh MINUTES          measure, and begin nothing after so many minutes
#        reference.sh --dry-run        print what is left
set -eu
trap "exit 130" INT # also where the sweep itself ended well

# The main grid, one factor each, the sources, and what stores are like later.
experiments="reference
    bindings bindings-mebibyte python durability memory-budget compression cold-cache
    files-or-store sqlite-35 leveldb-2011 lmdb-2014 rocksdb-2013 ycsb redb-2026 claims-2026
    load threads age beyond-memory"
out=build/reference

scale_of() { # NAME: a grid of one scale is measured as it is
    grep -q '^\[scale.reference\]' "harness/grids/$1.toml" && echo reference || echo 1
}

sweep() { # NAME OPTION...: exit status 0 when all is measured, 130 when time is over
    name=$1
    shift
    kvbench sweep "harness/grids/$name.toml" --out "$out/$name" --fs ext4 "$@" && return
    status=$?
    [ $status -eq 3 ] || return $status # 3: some cells failed, the others count
}

if [ "$1" = --dry-run ]; then
    for name in $experiments; do
        echo "$name:"
        kvbench sweep "harness/grids/$name.toml" --scale "$(scale_of "$name")" --out "$out/$name" --fs ext4 --dry-run |
            grep -E '^([0-9]+ trials|left|ext4)'
    done
    exit
fi

end=$(($(date +%s) + 60 * $1))
sweep core --again
for name in $experiments; do
    left=$(((end - $(date +%s)) / 60))
    [ $left -gt 0 ] || break
    sweep "$name" --scale "$(scale_of "$name")" --minutes $left || { [ $? -eq 130 ] && break || exit; }
done
sweep core --again
