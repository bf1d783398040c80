"""What notebooks say of handing in and of repairs, in the words of a hub.

Notebooks are written for `make lab`. On a hub there is no `make`: what is handed in goes through
the exchange, and commands are those of `autograder.hub`.
"""

from __future__ import annotations

import json
from pathlib import Path

# What a notebook says elsewhere, each within one line, and what it says on a hub.
WORDS = {
    "3. **Hand in**: in a terminal, in the course folder, run `make submit UNIT=00`. It checks "
    "that the notebook is saved and complete, and writes one file to `work/hand_in`. Upload that "
    "file where your instructor tells you to.": (
        "3. **Hand in**: open *Nbgrader › Assignment List* in the menu and press *Submit* beside "
        "the unit. You may do so again; the last one counts. *Fetch Feedback* appears there when "
        "your instructor has released it."
    ),
    "`make fresh UNIT=00` gives you": "`python -m autograder.hub fresh 00` gives you",
    "Add `CELL=u00-state-gib` to reset": "Add `u00-state-gib` to reset",
    "`make practice UNIT=00` gives": "`python -m autograder.hub practice 00` gives",
}


def on_hub(notebook: str) -> str:
    """The text of a notebook's file in these words; a second time changes nothing."""
    for elsewhere, here in WORDS.items():
        notebook = notebook.replace(_in_file(elsewhere), _in_file(here))
    return notebook


def rewrite(folder: Path) -> None:
    """Put the notebooks of a folder into these words."""
    for path in sorted(folder.rglob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        if text != on_hub(text):
            path.write_text(on_hub(text), encoding="utf-8")


def _in_file(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
