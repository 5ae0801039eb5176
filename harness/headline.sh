#!/bin/sh
# Measures the paper's findings 1 to 4 again in about 40 minutes, and says of each whether it is reproduced:
# exit status 1 if one differs. Where no loop device can be had, the stores are on this folder's file
# system; where memory cannot be capped, findings that need it are left out. An interrupted run goes on
# with the same command.
set -eu
trap "exit 130" INT # also where the sweep itself ended well

kvbench() { setpriv --pdeathsig TERM kvbench "$@"; } # a command stops if this script is ended

sweep() { # NAME GRID...: some cells may fail, the others count
    name=$1
    shift
    kvbench sweep "$@" --out "$out/$name" || [ $? -eq 3 ]
    kvbench collect "$out/$name"
}

fs="" out=build/headline-own
if python -c 'from pathlib import Path; from kvbench.machine.loopback import check; check("ext4", Path("build"))' 2>/dev/null; then
    fs="--fs ext4" out=build/headline
else
    echo "no loop devices: the stores are on this folder's file system" >&2
fi
why=$(python -c 'from kvbench.machine.control_group import refused; print(refused())')
runs=$(python -m kvbench.experiment.listed --headline)
while read -r name grid scale memory; do
    if [ "$memory" = capped ] && [ -n "$why" ]; then
        echo "memory cannot be capped: $name is left out; $why" >&2
        continue
    fi
    # shellcheck disable=SC2086 # two words
    sweep "$name" "harness/grids/$grid.toml" --scale "$scale" $fs </dev/null
done <<END
$runs
END
[ -e "$out/durability/evidence.csv" ] || kvbench evidence sqlite --out "$out/durability/evidence.csv"
python -m study.answers.verify "$out"
