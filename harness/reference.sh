#!/bin/sh
# Measures the reference data again into build/reference, a folder an experiment, and writes their
# tables. A sweep goes on where the last one stopped.
# usage: reference.sh MINUTES         a sitting: the core fields, then experiments from where the last
#                                     sitting stopped, begun within so many minutes, and the core fields
#        reference.sh NAME...         these experiments, and what belongs to them
#        reference.sh --dry-run [NAME...]   print what is left
# FS names the file system that is made for the stores, as root: ext4 (the reference), xfs, btrfs; or own,
# for the one that this folder is on. Those but ext4 have a folder of their own, as build/reference-own:
# results of two file systems are never compared as one machine's.
set -eu
trap "exit 130" INT # also where the sweep itself ended well

kvbench() { setpriv --pdeathsig TERM kvbench "$@"; } # a command stops if this script is ended

# The main grid, one factor each, the sources, and what stores are like later.
experiments="reference
    bindings python durability memory-budget compression cold-cache builds space
    files-or-store sqlite-35 leveldb-2011 lmdb-2014 rocksdb-2013 ycsb redb-2026 claims-2026
    load threads age beyond-memory"
# The core fields elsewhere: on this machine's own file system, and on two others.
elsewhere="core-own core-xfs core-btrfs"
out=build/reference
if [ "${FS:-ext4}" != ext4 ]; then
    out=build/reference-$FS elsewhere="" # which stand beside the reference's core fields alone
fi

sweep() { # NAME OPTION...: exit status 0 when all is measured, 130 when time is over
    folder=$out/$1 grid=$1 scale=1 fs=${FS:-ext4} # a grid of one scale is measured as it is
    case $1 in
    core-*) grid=core scale=elsewhere fs=${1#core-} ;;
    builds) fs=own ;;
    *) ! grep -qs '^\[scale.reference\]' "harness/grids/$1.toml" || scale=reference ;;
    esac
    shift
    [ "$fs" = own ] || set -- --fs "$fs" "$@"
    status=0
    kvbench sweep "harness/grids/$grid.toml" --scale $scale --out "$folder" "$@" || status=$?
    case "$status $*" in
    *--dry-run*) ;;
    0\ * | 3\ * | 130\ *) kvbench collect "$folder" ;; # 3: some cells failed, the others count
    esac
    [ $status -eq 3 ] || return $status
}

beside() { # NAME: what belongs to an experiment besides its cells, each file measured once
    case $1 in
    durability)
        [ -e "$out/durability/sharing.csv" ] || kvbench sharing --out "$out/durability/sharing.csv"
        [ -e "$out/durability/evidence.csv" ] || kvbench evidence --out "$out/durability/evidence.csv"
        ;;
    age) [ -e "$out/age/crashes.csv" ] || kvbench crash --place build --out "$out/age/crashes.csv" ;;
    esac
}

if [ "$1" = --dry-run ]; then
    shift
    [ $# -gt 0 ] || set -- core $experiments $elsewhere
    for name; do
        echo "$name:"
        sweep "$name" --dry-run | grep -E '^([0-9]+ trials|left|[a-z0-9]+ of their own)'
    done
    exit
fi

case $1 in
*[!0-9]*)
    for name; do
        sweep "$name"
        beside "$name"
        files=$(find "$out/$name" -maxdepth 1 -name '*.parquet' -o -maxdepth 1 -name '*.csv' | tr '\n' ' ')
        echo "To publish it: mkdir -p data/$name && cp ${files}data/$name && make figures"
    done
    exit
    ;;
esac

end=$(($(date +%s) + 60 * $1))
sweep core --again
for name in $experiments $elsewhere; do
    left=$(((end - $(date +%s)) / 60))
    [ $left -gt 0 ] || break
    sweep "$name" --minutes $left || { [ $? -eq 130 ] && break || exit; }
    [ "$(date +%s)" -ge $end ] || beside "$name" || echo "$name: measure the rest by its name" >&2
done
sweep core --again
