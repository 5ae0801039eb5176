"""The files by which archives and catalogues of software describe this work, from CITATION.cff.

python -m study.answers.citation     # writes .zenodo.json and codemeta.json
"""

import json
from pathlib import Path
from typing import Any

import yaml
from kvbench.common.files import write_whole

from study.common.notebook import root

SOURCE = "CITATION.cff"


def zenodo(cited: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a deposit, with the keys of Zenodo's interface."""
    return {
        "upload_type": cited["type"],
        "title": cited["title"],
        "description": cited["abstract"],
        "creators": [{"name": one["name"]} for one in cited["authors"]],
        "version": cited["version"],
        "publication_date": str(cited["date-released"]),
        "license": cited["license"],
        "access_right": "open",
        "keywords": cited["keywords"],
    }


def codemeta(cited: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a program, in the terms of CodeMeta 3.0."""
    return {
        "@context": "https://w3id.org/codemeta/3.0",
        "@type": "SoftwareSourceCode",
        "name": cited["title"],
        "description": cited["abstract"],
        "author": [{"@type": "Organization", "name": one["name"]} for one in cited["authors"]],
        "version": cited["version"],
        "datePublished": str(cited["date-released"]),
        "license": f"https://spdx.org/licenses/{cited['license']}",
        "keywords": cited["keywords"],
        "programmingLanguage": ["C", "Python"],
        "operatingSystem": "Linux",
    }


WRITTEN = {".zenodo.json": zenodo, "codemeta.json": codemeta}


def texts(at: Path) -> dict[str, str]:
    """Return what each file of the repository at `at` should hold, by its name."""
    cited = yaml.safe_load((at / SOURCE).read_text())
    return {
        name: json.dumps(describe(cited), indent=2, ensure_ascii=False) + "\n"
        for name, describe in WRITTEN.items()
    }


def main() -> None:
    for name, text in texts(root()).items():
        write_whole(root() / name, text.encode())


if __name__ == "__main__":
    main()
