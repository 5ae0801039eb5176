"""Builds releases of engines that had a crash bug, and the releases that fixed it."""

import csv
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import msgspec
from kvbench.common.messages import BadInput
from kvbench.faults.explorer import UNMOUNTED
from kvbench.faults.scenario import KINDS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILT = ROOT / "build/recall"
RUST = ROOT / "harness/shims/rust"

sys.path.insert(0, str(HERE.parent / "liars"))
import planted  # noqa: E402 - not part of the package

MANIFEST = """
[package]
name = "{store}"
version = "0.0.0"
edition = "2024"
publish = false

[lib]
crate-type = ["cdylib"]
path = "{source}"

[dependencies]
{dependencies}

[profile.release]
opt-level = 1

[workspace]
"""


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An entry of recall.toml, which explains the keys."""

    source: str
    engine: str
    bug: str
    fix: str
    level: str
    report: str
    says: str
    needs: tuple[str, ...] = ()


def pairs() -> dict[str, Pair]:
    """All pairs by name."""
    return msgspec.convert(tomllib.loads((HERE / "recall.toml").read_text()), dict[str, Pair])


def _layout() -> Path:
    """The layout of kv.h in Rust, which kv.rs includes."""
    program, text = BUILT / "layout", BUILT / "kv_layout.rs"
    subprocess.run(["cc", "-D_GNU_SOURCE", RUST / "layout.c", "-o", program], check=True)
    text.write_bytes(subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout)
    return text


def _rust(store: str, pair: Pair, version: str, folder: Path) -> None:
    own = BUILT / store
    dependencies = "\n".join([f'{pair.engine} = "={version}"', *pair.needs])
    text = MANIFEST.format(store=store, source=HERE / pair.source, dependencies=dependencies)
    (own / "Cargo.toml").write_text(text)
    environment = {
        **os.environ,
        "KV_LAYOUT": str(_layout()),
        "KV_VERSION": version,
        "CARGO_TARGET_DIR": str(BUILT / "target"),
    }
    command = ["cargo", "build", "--release", "--quiet"]
    subprocess.run(command, cwd=own, env=environment, check=True)
    built = BUILT / "target/release" / f"lib{store.replace('-', '_')}.so"
    (folder / f"{store}.so").write_bytes(built.read_bytes())


def _go(store: str, pair: Pair, version: str, folder: Path) -> None:
    own = BUILT / store
    (own / "go.mod").write_text(f"module recall\n\nrequire {pair.engine} {version}\n")
    (own / "store.go").write_bytes((HERE / pair.source).read_bytes())
    library = f"{store}.library"  # no name of a shim
    for command in (
        ["go", "mod", "tidy"],
        ["go", "build", "-buildmode=c-shared", "-o", str((folder / library).absolute())],
    ):
        subprocess.run(command, cwd=own, check=True)
    (folder / f"{store}.h").unlink()  # go writes it beside the library
    defined = {"KV_NAME": store, "VERSION": version, "LIBRARY": library}
    flags = [f'-D{name}="{text}"' for name, text in defined.items()]
    shim = ["cc", *planted.FLAGS, *flags, HERE / "go.c", "-o", folder / f"{store}.so"]
    subprocess.run(shim, check=True)


def _build(store: str, pair: Pair, version: str, folder: Path) -> None:
    """Compile one release into a store. Raises CalledProcessError, and OSError without a
    compiler."""
    (BUILT / store).mkdir(parents=True, exist_ok=True)
    (_go if pair.source.endswith(".go") else _rust)(store, pair, version, folder)


def _built(folder: Path, names: Sequence[str]) -> list[str]:
    """Build pairs into a folder of shims. Returns the names of those whose two releases compile;
    says why the others do not."""
    planted.shims_for(folder)
    found = []
    for name in names:
        pair = pairs()[name]
        try:
            for which, version in (("bug", pair.bug), ("fix", pair.fix)):
                _build(f"{name}-{which}", pair, version, folder)
            found.append(name)
            click.echo(f"{name}: {pair.engine} {pair.bug} and {pair.fix}")
        except (OSError, subprocess.CalledProcessError) as error:
            click.echo(f"{name}: not built: {error}", err=True)
    return found


def _explored(folder: Path, names: Sequence[str], level: str, out: Path, states: int) -> None:
    """Explore both releases of pairs of a level, and write the table."""
    stores = [f"{name}-{which}" for name in names for which in ("bug", "fix")]
    options = "--durability", level, "--states", str(states), "--out", str(out)
    command = ["kvbench", "crash", "--explore", *stores, *options]
    environment = os.environ | {"KVBENCH_SHIMS": str(folder.absolute())}
    subprocess.run(command, env=environment, check=True)


def judged(name: str, rows: Mapping[str, Mapping[str, str]]) -> dict[str, str | int]:
    """What the explorer found in the two releases of a pair. A state is wrong if it violates what
    its level promises, or, where it promises nothing, the level `recoverable`. States whose file
    system could not be mounted are not counted."""
    pair = pairs()[name]
    found: dict[str, str | int] = {"pair": name, "engine": pair.engine, "level": pair.level}
    for which, version in (("bug", pair.bug), ("fix", pair.fix)):
        row = rows[f"{name}-{which}"]
        states = int(row["states"]) - int(row[UNMOUNTED.replace(" ", "_")])
        kinds = [kind for kind in KINDS if int(row[kind.replace(" ", "_")])]
        wrong = row["violations"] or states - int(row["recoverable"])
        found |= {which: version, f"{which}_states": states, f"{which}_wrong": int(wrong)}
        found[f"{which}_kinds"] = "; ".join(kinds)
    return found | {"report": pair.report, "says": pair.says}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1, type=click.Choice(list(pairs())), metavar="[PAIR]...")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Explore; write this.")
@click.option("--states", default=2000, show_default=True, help="States to try of each release.")
def main(folder: Path, names: Sequence[str], out: Path | None, states: int) -> None:
    """Build these pairs, or all, into FOLDER. With --out, explore them, and write a table."""
    try:
        built = _built(folder, names or list(pairs()))
    except BadInput as error:
        raise click.UsageError(str(error)) from None
    if out is None:
        return
    rows: dict[str, dict[str, str]] = {}
    for level in dict.fromkeys(pairs()[name].level for name in built):
        own = [name for name in built if pairs()[name].level == level]
        table = out.with_name(f"{out.stem}-{level}.csv")
        _explored(folder, own, level, table, states)
        rows |= {row["store"]: row for row in csv.DictReader(table.read_text().splitlines())}
    lines = [judged(name, rows) for name in built if {f"{name}-bug", f"{name}-fix"} <= rows.keys()]
    with open(out, "w", newline="") as file:
        writer = csv.DictWriter(file, lines[0] if lines else ["pair"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
