"""Builds releases of engines that had a crash bug, and the releases that fixed it."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from kvbench.common.messages import BadInput

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


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("names", nargs=-1, type=click.Choice(list(pairs())), metavar="[PAIR]...")
def main(folder: Path, names: Sequence[str]) -> None:
    """Build these pairs, or all, into FOLDER."""
    try:
        planted.shims_for(folder)
    except BadInput as error:
        raise click.UsageError(str(error)) from None
    failed = False
    for name in names or pairs():
        pair = pairs()[name]
        for which, version in (("bug", pair.bug), ("fix", pair.fix)):
            store = f"{name}-{which}"
            try:
                _build(store, pair, version, folder)
                click.echo(f"{store}: {pair.engine} {version}")
            except (OSError, subprocess.CalledProcessError) as error:
                failed = True
                click.echo(f"{store}: {pair.engine} {version}: not built: {error}", err=True)
    raise SystemExit(1 if failed else 0)
