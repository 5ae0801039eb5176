"""What a bundle says of itself: the metadata of an RO-Crate, which follow from its tables."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from kvbench.cell.bindings import full_name
from kvbench.common.messages import BadInput

METADATA = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/crate/"
LICENCE = "https://spdx.org/licenses/MIT"
MACHINE = ("cpu", "cores", "memory_bytes", "kernel", "file_system", "mount_options")
Entities = dict[str, dict[str, Any]]  # by @id, without it


def described(tables: Mapping[str, pa.Table], contents: Mapping[str, bytes]) -> dict[str, Any]:
    """The metadata of the tables of a folder whose files have these contents, by name: when and on
    which machines they were measured, the version of each engine, and the SHA-256 of each file."""
    from rocrate.model.contextentity import ContextEntity  # noqa: PLC0415 - slow to import
    from rocrate.rocrate import ROCrate  # noqa: PLC0415

    crate = ROCrate()
    started = tables["cells"]["started"].drop_null().to_pylist()
    cells, machines = (tables[name].to_pandas() for name in ("cells", "machines"))
    root = crate.root_dataset
    crate.name = "Results of kvbench"
    crate.description = f"{len(cells):,} cells that kvbench measured, as tables"
    crate.license = LICENCE
    crate.datePublished = max(started, default="")[:10]
    root["temporalCoverage"] = f"{min(started, default='')}/{max(started, default='')}"
    for name, content in contents.items():
        about = {
            "name": f"The table {name.partition('.')[0]}",
            "encodingFormat": "application/vnd.apache.parquet",
            "contentSize": str(len(content)),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        crate.add_file(dest_path=name, properties=about)
    known = {
        "instrument": map(_machine, machines.to_dict("records")), "mentions": _engines(cells)
    }  # fmt: skip
    for key, entities in known.items():
        for name, properties in entities:
            root.append_to(key, crate.add(ContextEntity(crate, name, properties=properties)))
    found: dict[str, Any] = crate.metadata.generate()
    return found


def _machine(row: Mapping[Any, Any]) -> tuple[str, dict[str, Any]]:
    facts = {name: row[name] for name in MACHINE if row[name] is not None}
    text = ", ".join(f"{name}: {value}" for name, value in facts.items())
    about = {"@type": "IndividualProduct", "name": f"Machine {row['machine']}", "description": text}
    return f"#machine-{row['machine']}", about


def _engines(cells: pd.DataFrame) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each store that was measured, with the versions of its engine."""
    cells = cells[cells.status == "ok"]
    names = pd.Series(map(full_name, cells.store, cells.binding.fillna("")), cells.index, dtype=str)
    for name, own in cells.groupby(names):
        versions = ", ".join(sorted(own.engine_version.dropna().unique()))
        about = {"@type": "SoftwareApplication", "name": name, "softwareVersion": versions}
        yield f"#store-{str(name).replace('/', '-')}", about


def encoded(metadata: Mapping[str, Any]) -> bytes:
    """The metadata as the text of a file."""
    return json.dumps(metadata, indent=1, sort_keys=True).encode() + b"\n"


def check(given: bytes, wanted: Mapping[str, Any]) -> None:
    """Raise BadInput if metadata, as a file has them, do not say what follows from the tables."""
    try:
        found = _entities(json.loads(given))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadInput(f"{METADATA}: not readable; allowed: that of `kvbench submit`") from None
    ours = _entities(wanted)
    for name in found:
        if name not in ours:
            raise BadInput(f"{METADATA}: {name!r:.60} is not in the tables; allowed: what is")
    for name, about in ours.items():
        theirs = found.get(name, {})
        for key in sorted({*about, *theirs}):
            if theirs.get(key) != about.get(key) and not _profile(name, key, theirs.get(key)):
                raise BadInput(
                    f"{METADATA}: {name:.40}: {key:.40}: {theirs.get(key)!r:.40} is not allowed; "
                    f"allowed: {about.get(key)!r:.40}, as in the tables"
                )


def _profile(name: str, key: str, value: Any) -> bool:
    """Whether a value names another version of the profile, as other versions of rocrate write."""
    named = isinstance(value, dict) and str(value.get("@id")).startswith(PROFILE)
    return named and (name, key) == (METADATA, "conformsTo")


def _entities(metadata: Any) -> Entities:
    """The entities of a crate by name. Raises ValueError, KeyError or TypeError if it is none."""
    found: Entities = {}
    for entity in metadata["@graph"]:
        rest = dict(entity)
        name = rest.pop("@id")
        if not isinstance(name, str) or name in found:
            raise ValueError
        found[name] = rest
    return found
