"""Execute the notebooks of the documentation, and store them with what their cells show.

    python docs/execute_notebooks.py                    # all of them, in an empty folder
    python docs/execute_notebooks.py docs/notebooks/first_steps.ipynb

It needs nbclient and ipykernel, which the tests need too. A cell that raises an error ends it, and stores nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent / "notebooks"


def executed(path: Path, folder: str | Path) -> nbformat.NotebookNode:
    """A notebook after all its cells were executed in a folder, with nothing that the next time would change."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=600,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],  # it warns that it is reached over TCP
    ).execute()
    # Times differ each time, and so may the version of Python.
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def main() -> None:
    """Execute those that are named, or all."""
    for path in [Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(path, folder)
        nbformat.validate(notebook)
        nbformat.write(notebook, path)
        print(path)


if __name__ == "__main__":
    main()
