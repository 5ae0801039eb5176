"""Execute notebooks in place, so that the same data give the same bytes.

python notebooks/execute.py notebooks/best-option.ipynb ...
"""

import sys
from pathlib import Path

import matplotlib.font_manager  # noqa: F401 - lists fonts; a slow kernel would say so
import nbformat
from nbclient import NotebookClient


def execute(path: Path) -> None:
    """Run every cell in the notebook's own folder; a failing cell leaves the file as it was."""
    notebook = nbformat.read(path, 4)
    folder = {"metadata": {"path": str(path.parent)}}
    options = {"kernel_name": "python3", "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources=folder, **options).execute()
    notebook.metadata.language_info = {"name": "python"}  # not this machine's patch version
    nbformat.write(notebook, path)


for name in sys.argv[1:]:
    execute(Path(name))
