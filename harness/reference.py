"""Measure the reference data again, into one folder per experiment below build/reference, and write
the tables. A sweep continues where the last one stopped.

    reference.py MINUTES              a sitting: the core fields, then experiments from where the
                                      last sitting stopped, begun within so many minutes, and the
                                      core fields again
    reference.py NAME...              these experiments, with their tables besides the cells
    reference.py --dry-run [NAME...]  print what is left

FS names the file system that is made for the stores, as root: ext4 (the reference), xfs or btrfs;
or own, for the one that holds this folder. All but ext4 have a separate folder, such as
build/reference-own, because results of two file systems must not be compared as one machine's.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from kvbench.common.messages import BadInput, say
from kvbench.experiment.listed import ELSEWHERE, OWN, Experiment, Listed, read

CORE = "core"  # the experiment that opens and closes a sitting
SIZES = ["--clean", "--records", "1000,10000,100000", "--crashes", "6", "--seconds", "0.25"]
ALSO = {
    "sharing": ["sharing"],
    "evidence": ["evidence"],
    "crashes": ["crash", "--place", "build"],
    "installed": ["installed", "--build", "build/shims"],
    "openings": ["crash", "--place", "build", *SIZES],
}
SOME_FAILED, STOPPED = 3, 130  # exit statuses of a sweep: some cells failed; the time was over
LEFT = re.compile(r"[0-9]+ trials|left|[a-z0-9]+ of their own")  # begins a line of a dry run
FILE_SYSTEM = os.environ.get("FS") or "ext4"
OUT = Path("build/reference" if FILE_SYSTEM == "ext4" else f"build/reference-{FILE_SYSTEM}")
interrupts: list[int] = []


def kvbench(*arguments: object, output: int | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the command kvbench, which stops if this process ends. After Ctrl-C, which also reaches
    the command, nothing else is started, even if the command ended successfully."""
    command = ["setpriv", "--pdeathsig", "TERM", "kvbench", *map(str, arguments)]
    if not interrupts:
        done = subprocess.run(command, stdout=output, text=True, check=False)
    if interrupts:
        sys.exit(STOPPED)
    return done


def sweep(experiment: Experiment, *options: object) -> int:
    """Measure an experiment, and collect its tables. Returns 0 if all is measured, and STOPPED if
    time is over. Any other status ends this process."""
    folder = OUT / experiment.name
    status = kvbench("sweep", *planned(experiment), *options).returncode
    if status not in (0, SOME_FAILED, STOPPED):
        sys.exit(status)
    if failed := kvbench("collect", folder).returncode:
        sys.exit(failed)
    return STOPPED if status == STOPPED else 0


def planned(experiment: Experiment) -> list[object]:
    """The arguments of an experiment's sweep."""
    kind = experiment.file_system or FILE_SYSTEM
    grid = Path("harness/grids", f"{experiment.grid}.toml")
    made = [] if kind == OWN else ["--fs", kind]
    made += ["--device", experiment.device, "--probe"] if experiment.device else []
    published = Path("data", experiment.name)
    made += ["--after", str(published)] if (published / "cells.parquet").exists() else []
    return [grid, "--scale", experiment.scale, "--out", OUT / experiment.name, *made]


def besides(experiment: Experiment) -> bool:
    """Measure the tables of an experiment that are not made from its cells, each file once. Returns
    whether all were measured."""
    files = {OUT / experiment.name / f"{name}.csv": ALSO[name] for name in experiment.also}
    left = {file: command for file, command in files.items() if not file.exists()}
    return all([kvbench(*command, "--out", file).returncode == 0 for file, command in left.items()])


def dry_run(experiment: Experiment) -> None:
    print(f"{experiment.name}:", flush=True)
    done = kvbench("sweep", *planned(experiment), "--dry-run", output=subprocess.PIPE)
    if done.returncode:
        sys.exit(done.returncode)
    for line in filter(LEFT.match, done.stdout.splitlines()):
        print(line, flush=True)


def measure(experiment: Experiment) -> None:
    """Measure all of an experiment, and print how to publish its data."""
    if status := sweep(experiment):
        sys.exit(status)
    if not besides(experiment):
        sys.exit(1)
    if experiment.serves:
        folder, data = OUT / experiment.name, f"data/{experiment.name}"
        files = sorted([*folder.glob("*.parquet"), *folder.glob("*.csv")])
        publish = f"mkdir -p {data} && cp {' '.join(map(str, files))} {data}"
        if next(folder.glob("cells/*"), None) and not any(folder.glob("cells/*_t1_*")):
            publish = f"kvbench join {data} {folder} --out {data}"  # a further sitting
        print(f"To publish it: {publish} && make figures", flush=True)


def sitting(minutes: int, core: Experiment, others: Iterable[Experiment]) -> None:
    """Measure the core fields, then as many experiments as can begin within `minutes`, then the
    core fields again."""
    end = time.time() + 60 * minutes
    sweep(core, "--again")
    for experiment in others:
        left = int(end - time.time()) // 60
        if left <= 0 or sweep(experiment, "--minutes", left) == STOPPED:
            break
        if time.time() < end and not besides(experiment):
            say(f"{experiment.name}: measure the rest by its name")
    sweep(core, "--again")


def in_sittings(known: Listed) -> tuple[Experiment, list[Experiment]]:
    """The core fields, and the other experiments in the order of a sitting. Those on a file system
    that they name belong only to sittings on the reference file system."""
    others = [one for one in known.served() if one.name != CORE]
    if FILE_SYSTEM != "ext4":
        anywhere = ("", OWN)
        others = [one for one in others if one.scale != ELSEWHERE and one.file_system in anywhere]
    return known.experiment[CORE], others


def main() -> None:
    parser = argparse.ArgumentParser(usage="reference.py MINUTES | NAME... | --dry-run [NAME...]")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("what", nargs="*")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        known = read()
        core, others = in_sittings(known)
        if given.dry_run:
            for experiment in known.named(given.what) or [core, *others]:
                dry_run(experiment)
        elif len(given.what) == 1 and given.what[0].isdecimal():
            sitting(int(given.what[0]), core, others)
        elif given.what:
            for experiment in known.named(given.what):
                measure(experiment)
        else:
            parser.error("give minutes, or names of harness/experiments.toml")
    except BadInput as error:
        say(str(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
