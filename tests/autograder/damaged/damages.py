"""Solved notebooks as tools and slips of the hand leave them, and what each must still give.

A damage takes the JSON of a solved notebook and gives the bytes of a file. What tools do is done
by the tools themselves where they are libraries of the course.
"""

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jupytext
import nbformat

from tests.autograder.grading.handed_in import ANSWERS, FRESH, beside, packed

Content = dict[str, Any]
Cells = list[dict[str, Any]]
Damage = Callable[[Content], "Content | bytes | None"]

BYTES, GIB, SECONDS, MEMORIES = (
    *("u00-tensor-bytes", "u00-state-gib"),
    *("u00-step-seconds", "u00-four-memories"),
)
TEXT = "u00-view"
WORDS = ANSWERS[TEXT]
HEADING, GUESS, CARD, TRY = (beside(BYTES, steps) for steps in (-3, -2, -1, 1))
QUESTION = beside(TEXT, -1)
STUBS = {cell.id: cell.source for cell in FRESH.cells if cell.id in ANSWERS}
CODE = (BYTES, GIB, SECONDS, MEMORIES)
FULL = {BYTES: 2.0, GIB: 1.0, SECONDS: 1.0, MEMORIES: 2.0}
WRONG = "def tensor_bytes(shape, element_bytes):\n    return 0"
HELPER = "def product(sizes):\n    result = 1\n    for size in sizes:\n        result *= size\n"
HELPER += "    return result"
USES_IT = "def tensor_bytes(shape, element_bytes):\n    return product(shape) * element_bytes"


@dataclass(frozen=True)
class Damaged:
    """A damaged notebook.

    Attributes:
        damage: What happens to the solved one.
        lost: Exercises whose answer is in the file no more.
        not_in_kernel: Exercises whose answer no kernel runs, since no code cell has it.
        words: What a reader must get to see.
    """

    damage: Damage
    lost: tuple[str, ...] = ()
    not_in_kernel: tuple[str, ...] = ()
    words: tuple[str, ...] = tuple(line for line in WORDS.splitlines() if line.strip())


def bytes_of(damaged: Damaged, content: Content) -> bytes:
    """The file."""
    content = copy.deepcopy(content)
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"])
    made = damaged.damage(content)
    made = content if made is None else made
    return made if isinstance(made, bytes) else packed(made)


def cell_of(content: Content, name: str) -> dict[str, Any]:
    """The cell that has this id; cells of a student's own have none here."""
    return next(cell for cell in content["cells"] if cell.get("id") == name)


def code(source: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": []} | more


def text(source: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source, "metadata": {}} | more


def place(content: Content, name: str) -> int:
    return content["cells"].index(cell_of(content, name))


def stub_again(content: Content, *names: str) -> None:
    for name in names:
        cell_of(content, name)["source"] = STUBS[name]


def without(content: Content, *names: str) -> None:
    content["cells"] = [cell for cell in content["cells"] if cell.get("id") not in names]


def each(change: Callable[[dict[str, Any]], object]) -> Damage:
    """The same change of every cell."""

    def damage(content: Content) -> None:
        for cell in content["cells"]:
            change(cell)

    return damage


def after(*damages: Damage) -> Damage:
    """One damage after the other."""

    def damage(content: Content) -> "Content | bytes | None":
        for one in damages:
            content = one(content) or content
        return content

    return damage


# What tools do


def through_jupytext(form: str, *, metadata: bool) -> Damage:
    def damage(content: Content) -> bytes:
        notebook = nbformat.from_dict(content)
        if not metadata:
            kept = {"cell_metadata_filter": "-all", "notebook_metadata_filter": "-all"}
            notebook.metadata["jupytext"] = kept
        back = jupytext.reads(jupytext.writes(notebook, fmt=form), fmt=form)
        return nbformat.writes(back).encode()

    return damage


def through_format(*versions: int) -> Damage:
    def damage(content: Content) -> bytes:
        notebook = nbformat.from_dict(content)
        for version in versions:
            notebook = nbformat.convert(notebook, version)
        return nbformat.writes(notebook, version=nbformat.NO_CONVERT).encode()

    return damage


def no_ids(content: Content) -> None:
    content["nbformat_minor"] = 4
    for cell in content["cells"]:
        del cell["id"]


def other_ids(content: Content) -> None:
    for number, cell in enumerate(content["cells"]):
        cell["id"] = f"{number:08x}"


def no_metadata(content: Content) -> None:
    content["metadata"] = {}
    for cell in content["cells"]:
        cell["metadata"] = {}


def nbstripout(content: Content) -> None:
    """As `nbstripout --extra-keys "metadata.kernelspec cell.metadata.tags"`, which counts ids."""
    for number, cell in enumerate(content["cells"]):
        cell["id"] = str(number)
        cell["metadata"].pop("tags", None)
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    content["metadata"].pop("kernelspec", None)


def colab(content: Content) -> None:
    """Colab has its own ids in the metadata, and writes format 4.0, which knows no ids."""
    content |= {"nbformat_minor": 0, "metadata": {"colab": {"provenance": []}}}
    for cell in content["cells"]:
        cell["metadata"] |= {"id": cell.pop("id"), "colab": {"base_uri": "https://localhost/"}}


def colab_without_names(content: Content) -> None:
    colab(content)
    for number, cell in enumerate(content["cells"]):
        cell["metadata"] = {"id": f"Zx{number:010}"}


def vs_code(content: Content) -> None:
    other_ids(content)
    for cell in content["cells"]:
        cell["metadata"] = {"vscode": {"languageId": "python"}}


def kaggle(content: Content) -> None:
    no_ids(content)
    for cell in content["cells"]:
        cell["metadata"] = {"execution": {"iopub.status.busy": "2026-01-01"}, "trusted": True}


def reflowed(content: Content) -> None:
    """Without names, and with blanks and blank lines at the ends of texts, as editors trim them."""
    vs_code(content)
    for cell in content["cells"]:
        cell["source"] = "\n" + "  \n".join(cell["source"].split("\n")) + "\n\n"


# Into a new notebook


def pasted_with_marks(content: Content) -> None:
    other_ids(content)
    content["metadata"] = {}


def answers_alone(content: Content) -> None:
    """Only what one wrote was copied."""
    content["cells"] = [text(WORDS), *(code(ANSWERS[name]) for name in CODE)]
    no_metadata(content)


def all_in_one_cell(content: Content) -> None:
    only_answers_and_tests(content)
    sources = [cell["source"] for cell in content["cells"] if cell["cell_type"] == "code"]
    content["cells"] = [code("\n\n".join(sources)), text(WORDS)]


# Ids


def all_the_same_id(content: Content) -> None:
    no_metadata(content)
    for cell in content["cells"]:
        cell["id"] = "u00-setup"


def each_id_twice(content: Content) -> None:
    cells: Cells = content["cells"]
    ids = [cell["id"] for cell in cells]
    for number, cell in enumerate(cells):
        cell["id"] = ids[number - number % 2]


def shifted_ids(content: Content) -> None:
    no_metadata(content)
    cells: Cells = content["cells"]
    ids = [cell["id"] for cell in cells]
    for number, cell in enumerate(cells):
        cell["id"] = ids[number - 1]


def names_exchanged(content: Content) -> None:
    """The text's mark on a function, and the function's on the text."""
    one, other = cell_of(content, BYTES), cell_of(content, TEXT)
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]
    one["id"], other["id"] = "a", "b"


# Cells


def in_place_of(name: str, *cells: dict[str, Any], named: Iterable[int] = ()) -> Damage:
    """Other cells in the place of an answer; `named` ones keep its mark."""

    def damage(content: Content) -> None:
        where, old = place(content, name), cell_of(content, name)
        new = [dict(cell) for cell in cells]
        for number in named:
            new[number] |= {"metadata": copy.deepcopy(old["metadata"]), "id": f"{name}{number}"}
        content["cells"][where : where + 1] = new

    return damage


def insert(behind: str, *cells: dict[str, Any]) -> Damage:
    def damage(content: Content) -> None:
        where = place(content, behind) + 1
        content["cells"][where:where] = [dict(cell) for cell in cells]

    return damage


def append(*cells: dict[str, Any]) -> Damage:
    def damage(content: Content) -> None:
        content["cells"] += [dict(cell) for cell in cells]

    return damage


def unwritten(*names: str) -> Damage:
    return lambda content: stub_again(content, *names)


def gone(*names: str) -> Damage:
    return lambda content: without(content, *names)


def written(name: str, source: str) -> Damage:
    return lambda content: cell_of(content, name).update(source=source)


def retyped(name: str, kind: str) -> Damage:
    return lambda content: cell_of(content, name).update(cell_type=kind)


def merged(first: str, last: str) -> Damage:
    """All cells from one to another become one, which keeps the mark of the first."""

    def damage(content: Content) -> None:
        begin, end = place(content, first), place(content, last) + 1
        one = dict(content["cells"][begin])
        one["source"] = "\n\n".join(cell["source"] for cell in content["cells"][begin:end])
        content["cells"][begin:end] = [one]

    return damage


def merged_code(*names: str) -> Damage:
    """Code cells that stand apart become one at the first one's place."""

    def damage(content: Content) -> None:
        sources = [cell_of(content, name)["source"] for name in names]
        cell_of(content, names[0])["source"] = "\n\n".join(sources)
        without(content, *names[1:])

    return damage


def moved(to: int, *names: str) -> Damage:
    def damage(content: Content) -> None:
        cells = [cell_of(content, name) for name in names]
        without(content, *names)
        where = to % (len(content["cells"]) + 1)
        content["cells"][where:where] = cells

    return damage


def backwards(content: Content) -> None:
    content["cells"].reverse()


def line_ends(ends: str) -> Damage:
    return each(lambda cell: cell.update(source=cell["source"].replace("\n", ends)))


def file_line_ends(content: Content) -> bytes:
    return json.dumps(content, indent=1).replace("\n", "\r\n").encode()


def only_answers_and_tests(content: Content) -> None:
    content["cells"] = [cell for cell in content["cells"] if "nbgrader" in cell["metadata"]]


first_half, second_half = USES_IT.split("\n")
half_of_text, rest_of_text = WORDS[: len(WORDS) // 2], WORDS[len(WORDS) // 2 :]
COMMENT = "# " + WORDS.replace("\n", "\n# ")
LAMBDA = "tensor_bytes = lambda shape, element_bytes: math.prod(shape) * element_bytes"
MAGIC = f"%%time\n{ANSWERS[BYTES]}"
PIP = f"!pip --version > /dev/null\n{ANSWERS[BYTES]}"
in_text = (TEXT,)

DAMAGED: Mapping[str, Damaged] = {
    # tools
    "jupytext percent": Damaged(through_jupytext("py:percent", metadata=True)),
    "jupytext percent, no metadata": Damaged(through_jupytext("py:percent", metadata=False)),
    "jupytext markdown": Damaged(through_jupytext("md", metadata=True)),
    "jupytext markdown, no metadata": Damaged(through_jupytext("md", metadata=False)),
    "jupytext light, no metadata": Damaged(through_jupytext("py:light", metadata=False)),
    "jupytext R Markdown, no metadata": Damaged(through_jupytext("Rmd", metadata=False)),
    "nbstripout": Damaged(nbstripout),
    "all metadata stripped": Damaged(no_metadata),
    "format 4.4, which has no ids": Damaged(no_ids),
    "format 4.4, no metadata": Damaged(after(no_metadata, no_ids)),
    "format 3 and 4 again": Damaged(through_format(3, 4)),
    "Colab": Damaged(colab),
    "Colab without names": Damaged(colab_without_names),
    "VS Code without names": Damaged(vs_code),
    "Kaggle without names": Damaged(kaggle),
    "an editor that trims": Damaged(reflowed),
    # a new notebook
    "all cells pasted": Damaged(pasted_with_marks),
    "all cells pasted as text": Damaged(after(no_metadata, other_ids)),
    "answers pasted alone": Damaged(answers_alone),
    "all in one cell": Damaged(all_in_one_cell),
    # ids
    "all the same id": Damaged(all_the_same_id),
    "each id twice": Damaged(each_id_twice),
    "shifted ids": Damaged(shifted_ids),
    "marks exchanged": Damaged(names_exchanged),
    # code
    "split before the function": Damaged(
        in_place_of(BYTES, code(HELPER), code(USES_IT), named=(0, 1))
    ),
    "split after the function": Damaged(
        in_place_of(BYTES, code(USES_IT), code(HELPER), named=(0, 1))
    ),
    "split, the function without a name": Damaged(
        in_place_of(BYTES, code(HELPER), code(USES_IT), named=(0,))
    ),
    "split within the function": Damaged(
        after(
            insert(HEADING, code(HELPER)),
            in_place_of(BYTES, code(first_half), code(second_half), named=(0, 1)),
        ),
        not_in_kernel=(BYTES,),
    ),
    "two answers merged": Damaged(merged_code(BYTES, GIB)),
    "two answers merged, below": Damaged(merged_code(GIB, BYTES)),
    "answer and check merged": Damaged(merged(BYTES, f"{BYTES}-test")),
    "given cell and answer merged": Damaged(merged_code(GUESS, BYTES)),
    "copied and improved": Damaged(
        in_place_of(BYTES, code(WRONG), code(ANSWERS[BYTES]), named=(0, 1))
    ),
    "copied without its name, improved": Damaged(
        after(written(BYTES, WRONG), insert(BYTES, code(ANSWERS[BYTES])))
    ),
    "in a new cell above the stub": Damaged(
        after(unwritten(BYTES), insert(CARD, code(ANSWERS[BYTES])))
    ),
    "in a new cell below the stub": Damaged(
        after(unwritten(BYTES), insert(BYTES, code(ANSWERS[BYTES])))
    ),
    "in a new cell below the check": Damaged(
        after(unwritten(BYTES), insert(f"{BYTES}-test", code(ANSWERS[BYTES])))
    ),
    "at the end, with what it needs": Damaged(
        after(unwritten(BYTES), append(code(HELPER), code(USES_IT)))
    ),
    "moved to the end, with what it needs": Damaged(
        after(written(BYTES, USES_IT), append(code(HELPER)), moved(-1, BYTES))
    ),
    "right answers at the end over wrong ones": Damaged(
        after(written(BYTES, WRONG), append(code(HELPER), code(USES_IT)))
    ),
    "answers first": Damaged(moved(0, *CODE, TEXT)),
    "answers last": Damaged(moved(-1, TEXT, *CODE)),
    "all backwards": Damaged(backwards),
    "a function in a text cell": Damaged(retyped(BYTES, "markdown"), not_in_kernel=(BYTES,)),
    "a function in a raw cell": Damaged(retyped(BYTES, "raw"), not_in_kernel=(BYTES,)),
    "a lambda in a new cell": Damaged(
        after(unwritten(BYTES), insert(BYTES, code(f"import math\n{LAMBDA}")))
    ),
    "below the stub in its cell": Damaged(written(BYTES, f"{STUBS[BYTES]}\n\n{ANSWERS[BYTES]}")),
    "a helper in a given cell": Damaged(after(written(TRY, HELPER), written(BYTES, USES_IT))),
    "%%time": Damaged(written(BYTES, MAGIC)),
    "!pip": Damaged(written(BYTES, PIP)),
    "magics in a cell of one's own": Damaged(
        insert(BYTES, code("%time x = 1\n!true\nlen?"), code("%%bash\necho 'a b' | wc -l"))
    ),
    "checks deleted": Damaged(gone(*(f"{name}-test" for name in CODE))),
    "given cells deleted": Damaged(only_answers_and_tests),
    "an answer deleted": Damaged(gone(GIB), lost=(GIB,)),
    # text
    "a text in a raw cell": Damaged(retyped(TEXT, "raw")),
    "a text in a code cell": Damaged(retyped(TEXT, "code")),
    "a text below its cell": Damaged(after(unwritten(TEXT), insert(TEXT, text(WORDS)))),
    "a text above its cell": Damaged(after(unwritten(TEXT), insert(QUESTION, text(WORDS)))),
    "a text at the end": Damaged(after(unwritten(TEXT), append(text(WORDS)))),
    "a text on the question": Damaged(merged(QUESTION, TEXT)),
    "a text on the question, no names": Damaged(after(merged(QUESTION, TEXT), vs_code)),
    "a text as a comment": Damaged(after(unwritten(TEXT), insert(TEXT, code(COMMENT)))),
    "a text in a new code cell": Damaged(after(unwritten(TEXT), insert(TEXT, code(WORDS)))),
    "a text split": Damaged(
        in_place_of(TEXT, text(half_of_text), text(rest_of_text), named=(0, 1)),
        words=(half_of_text.strip(), rest_of_text.strip()),
    ),
    "a text emptied, the answer below": Damaged(
        after(written(TEXT, ""), insert(TEXT, text(WORDS)))
    ),
    "a text below its cell, no names": Damaged(
        after(unwritten(TEXT), insert(TEXT, text(WORDS)), vs_code)
    ),
    # the file
    "line ends of old": Damaged(line_ends("\r")),
    "line ends of Windows": Damaged(line_ends("\r\n")),
    "a file with line ends of Windows": Damaged(file_line_ends),
    "a byte order mark": Damaged(lambda content: b"\xef\xbb\xbf" + packed(content)),
    "UTF-16": Damaged(lambda content: json.dumps(content).encode("utf-16")),
}
