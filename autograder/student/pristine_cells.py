"""Show a cell as it was released."""

from pathlib import Path

import nbformat

from autograder.cells import cell_key, no_such_cell

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def original(name: str) -> None:
    """Print the released text of a cell, to copy back into a damaged one.

    Args:
        name: Id of the cell; that of an exercise's cell stands in its check.
    """
    if not isinstance(name, str):
        print('Expected the id of a cell in quotes, as in original("u00-state-gib").')
        return
    if not NOTEBOOKS.is_dir():
        print(
            "The cell cannot be shown: the released notebooks are not here, only the course's "
            "code. Look for the cell in a new copy of the notebook, from where you got this one."
        )
        return
    for path in sorted(NOTEBOOKS.glob(f"{name[1:3]}_*/*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        found = [cell.source for cell in notebook.cells if cell_key(cell) == name]
        print(found[0] if found else f"In this unit {no_such_cell(name, notebook)}")
        return
    print(f"No unit has a cell {name!r}. Ids look like u00-state-gib.")
