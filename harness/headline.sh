#!/bin/sh
# Measures the paper's five findings again in less than 90 minutes, and says of each whether it is
# reproduced. As another user than root, it leaves out those that need a cap on memory.
set -eu
trap "exit 130" INT # also where the sweep itself ended well
out=build/headline

sweep() { # NAME GRID...: some cells may fail, the others count
    name=$1
    shift
    kvbench sweep "$@" --out "$out/$name" || [ $? -eq 3 ]
    kvbench collect "$out/$name"
}

fs="" capped="rocksdb-2013 beyond-memory"
if [ "$(id -u)" -eq 0 ]; then
    fs="--fs ext4"
else
    echo "not root: the stores are on this file system, and $capped are left out" >&2
    capped=""
fi
# shellcheck disable=SC2086 # two words
sweep durability harness/grids/headline.toml $fs
for name in load $capped; do
    # shellcheck disable=SC2086
    sweep "$name" "harness/grids/$name.toml" --scale headline $fs
done
python -m study.verify "$out"
