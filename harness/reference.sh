#!/bin/sh
# One sitting of the reference run, as root: the core fields, then the experiments from where the last
# sitting stopped, then the core fields again. A sitting goes on where one was interrupted.
# usage: reference.sh MINUTES          measure, and begin nothing after so many minutes
#        reference.sh --dry-run        print what is left
set -eu
trap "exit 130" INT # also where the sweep itself ended well

# The main grid, one factor each, the sources, and what stores are like later.
experiments="reference
    bindings bindings-mebibyte python durability memory-budget compression cold-cache space
    files-or-store sqlite-35 leveldb-2011 lmdb-2014 rocksdb-2013 ycsb redb-2026 claims-2026
    load threads age beyond-memory"
# The core fields elsewhere: on this machine's own file system, and on two others.
elsewhere="core-own core-xfs core-btrfs"
out=build/reference

plan() { # NAME: the grid, its scale and the file system of an experiment
    case $1 in
    core) echo core.toml --scale 1 --fs ext4 ;;
    core-own) echo core.toml --scale elsewhere ;;
    core-*) echo core.toml --scale elsewhere --fs "${1#core-}" ;;
    *)
        scale=1 # a grid of one scale is measured as it is
        ! grep -q '^\[scale.reference\]' "harness/grids/$1.toml" || scale=reference
        echo "$1.toml --scale $scale --fs ext4"
        ;;
    esac
}

sweep() { # NAME PLAN...: exit status 0 when all is measured, 130 when time is over
    name=$1 grid=$2
    shift 2
    kvbench sweep "harness/grids/$grid" --out "$out/$name" "$@" && return
    status=$?
    [ $status -eq 3 ] || return $status # 3: some cells failed, the others count
}

if [ "$1" = --dry-run ]; then
    for name in core $experiments $elsewhere; do
        echo "$name:"
        # shellcheck disable=SC2046 # a plan is several words
        sweep "$name" $(plan "$name") --dry-run | grep -E '^([0-9]+ trials|left|[a-z0-9]+ of their own)'
    done
    exit
fi

end=$(($(date +%s) + 60 * $1))
# shellcheck disable=SC2046
sweep core $(plan core) --again
for name in $experiments $elsewhere; do
    left=$(((end - $(date +%s)) / 60))
    [ $left -gt 0 ] || break
    # shellcheck disable=SC2046
    sweep "$name" $(plan "$name") --minutes $left || { [ $? -eq 130 ] && break || exit; }
done
# shellcheck disable=SC2046
sweep core $(plan core) --again
