"""What each cell of a student's notebook is: the one answer for practice files, hand-in and grade.

An exercise's answer in code is the last cell that defines the function that is asked for, wherever
it stands and whatever its name; a cell with the exercise's name counts where none does. Only what
differs from the stub is an answer. A text is what stands in the cells with its name. Where these
are empty or gone, prose of the student's own answers it: moved into its cell if it stands beside
that, and for the eyes of a reader alone if it stands elsewhere. Given cells are known by their
text, then by their name, then by most of their words.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import accumulate

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from autograder.cell_code import defined, python_of, tree_of, without
from autograder.cells import cell_key, is_solution, nbgrader_metadata
from autograder.notebook_reader import Cell

MAX_ADDED_CELLS = 200
MAX_CHARACTERS = 200_000
MAX_COMPARED = 1_000  # cells without a name whose words are compared
ADDED = "added-"
UNIT = re.compile(r"^u(\d\d)-")
ENOUGH = 0.75  # of a given cell's words, for a cell without a name to be that cell
NEW_CELL: dict[str, Callable[[str], NotebookNode]] = {
    "code": new_code_cell,
    "markdown": new_markdown_cell,
    "raw": new_raw_cell,
}


class StudentNotebook:
    """A student's cells beside those of the release that they came from.

    Attributes:
        cells: The student's cells; of two pieces of one function the first has both.
        stubs: The stubs of all answers by key.
        asked: For each answer in code the function that is asked for.
        names: For each the key of the course's cell that it is, or was copied from; '' if none.
        answers: The texts of the answers by the key of their cell, of those that are written.
        found: For each of these the indices of the cells that it was found in.
        for_readers: For each text that its cell does not hold, the indices of prose elsewhere.
    """

    def __init__(self, cells: Sequence[Cell], fresh: NotebookNode) -> None:
        self.fresh = fresh
        self.known = {cell_key(cell): cell for cell in fresh.cells}
        self._order = {name: number for number, name in enumerate(self.known)}
        self.stubs = {
            name: plain(cell.source) for name, cell in self.known.items() if is_solution(cell)
        }
        self.asked = {
            name: (*defined(cell.source), "")[0]
            for name, cell in self.known.items()
            if is_solution(cell) and cell.cell_type == "code"
        }
        self._functions = [function for function in self.asked.values() if function]
        self.cells = list(cells)
        self.names = self._names()
        self._join_pieces()
        self.answers: dict[str, str] = {}
        self.found: dict[str, tuple[int, ...]] = {}
        self.for_readers: dict[str, list[int]] = defaultdict(list)
        self._moved: set[int] = set()
        self._find_code()
        self._find_texts()

    def release(self, spare: Mapping[str, str] | None = None, *, to_read: bool) -> NotebookNode:
        """The release with the answers in it, and the student's own cells where they stood.

        Args:
            spare: Answers by key, for exercises to which the notebook has none.
            to_read: Whether prose elsewhere is put into the cell of the text that it may answer.
        """
        texts = dict(spare or {}) | self.answers
        for name, indices in self.for_readers.items() if to_read else ():
            there = self.answers.get(name, "")
            texts[name] = f"{there}\n\n{self._prose(indices)}".strip()
        return filled_in(self.fresh, texts, self._added())

    def is_of_this_unit(self) -> bool:
        """Whether a cell has an exercise's name, or defines its function, or three are given.

        The stub of a text is the same in every unit, and prose may be anybody's.
        """
        marked = {name for name, cell in self.known.items() if nbgrader_metadata(cell)}
        if self.other_unit():
            return False
        has_name = any(marked.intersection(cell.claims) for cell in self.cells)
        num_given = len({*self.names} - {"", *self.stubs})
        return has_name or bool(self.asked.keys() & self.found.keys()) or num_given > 2

    def other_unit(self) -> str:
        """Number of the unit to which the cells belong, if it is another one; else ''."""
        own = {number for name in self.known for number in UNIT.findall(name)}
        claims = [claim for cell in self.cells for claim in cell.claims]
        numbers: list[str] = [number for claim in claims for number in UNIT.findall(claim)]
        if not numbers or own & set(numbers):
            return ""
        return max(sorted(set(numbers)), key=numbers.count)

    @cached_property
    def counting(self) -> dict[str, int]:
        """For each name, the index of the cell that counts for it."""
        places: dict[str, int] = {}
        for index, name in enumerate(self.names):
            places.setdefault(name, index)
        places.pop("", None)
        return places | {name: indices[-1] for name, indices in self.found.items()}

    @cached_property
    def own(self) -> list[int]:
        """Indices of the cells that a student added, copied or divided, without empty ones."""
        gone = self._moved | {index for indices in self.found.values() for index in indices}
        kept = {index for name, index in self.counting.items() if name not in self.found}
        return [
            index
            for index, cell in enumerate(self.cells)
            if index not in gone | kept
            and not (self.names[index] in self.stubs and not self._is_written(index))
            and cell.source != ""
        ]

    def is_text(self, index: int) -> bool:
        """Whether the source of a cell is a text of a bearable length."""
        source = self.cells[index].source
        return source is not None and len(source) <= MAX_CHARACTERS

    # Names

    def _names(self) -> list[str]:
        """A name for each cell: by its text, then by what it claims, then by most of its words."""
        by_text = defaultdict(list)
        for name, cell in self.known.items():
            by_text[plain(cell.source)].append(name)
        names: list[str] = []
        used: set[str] = set()
        last = -1
        for cell in self.cells:
            claim = next((each for each in cell.claims if each in self.known), "")
            same = by_text.get(plain(cell.source or ""), []) if cell.source else []
            name = self._nearest(same, claim, used, last) or self._fitting(cell, claim)
            last = self._order.get(name, last)
            names.append(name)
            used.add(name)
        return self._by_words(names)

    def _nearest(self, same: Sequence[str], claim: str, used: set[str], last: int) -> str:
        """Of cells with the same text that which is claimed, or comes next, or is there at all."""
        if claim in same:
            return claim
        free = [name for name in same if name not in used] or list(same)
        return next((name for name in free if self._order[name] > last), (*free, "")[0])

    def _fitting(self, cell: Cell, claim: str) -> str:
        """What a cell with another text claims to be, unless it cannot be that."""
        if not claim or claim in self.stubs:
            return claim
        given = self.known[claim]
        if cell.kind != given.cell_type:
            return ""
        is_code = cell.kind == "code"
        return (
            ""
            if is_code and set(defined(cell.source or "")) - set(defined(given.source))
            else claim
        )

    def _by_words(self, names: list[str]) -> list[str]:
        """The names, completed by given cells of which most words are there."""
        missing = {
            name: words
            for name, cell in self.known.items()
            if name not in names and name not in self.stubs
            if (words := _words(cell.source)).total() > 2
        }
        unnamed = [n for n, cell in enumerate(self.cells) if not names[n] and self.is_text(n)]
        for index in unnamed[: MAX_COMPARED if missing else 0]:
            kind, source = self.cells[index].kind, self.cells[index].source or ""
            words = _words(source)
            # A student writes below a text, and changes the numbers in code.
            more = 0 if kind == "markdown" else words.total()
            shares = {
                name: (given & words).total() / max(given.total(), more)
                for name, given in missing.items()
                if self.known[name].cell_type == kind
            }
            best = max(shares, key=lambda name: shares[name], default="")
            if best and shares[best] >= ENOUGH and not self._asked_in(source):
                names[index] = best
                del missing[best]
        return names

    def _asked_in(self, source: str) -> set[str]:
        """The exercises whose function a source defines."""
        functions = set(defined(source)) if any(each in source for each in self._functions) else ()
        return {name for name, function in self.asked.items() if function in functions}

    def _join_pieces(self) -> None:
        """Make one cell of two with one name, if only together they are Python."""
        for index in range(len(self.cells) - 1, 0, -1):
            name, one, other = self.names[index], self.cells[index - 1], self.cells[index]
            if name in self.asked and name == self.names[index - 1] and one.source and other.source:
                whole = f"{one.source}\n{other.source}"
                if not tree_of(other.source) and tree_of(python_of(whole)):
                    self.cells[index - 1] = one.with_source(whole)
                    self.cells[index] = other.with_source("")

    # Answers

    def _is_written(self, index: int) -> bool:
        """Whether a cell with an exercise's name holds more than its stub."""
        if not self.is_text(index):
            return False
        text = plain(self.cells[index].source or "")
        return text not in self.stubs.values() and bool(text or self.names[index] in self.asked)

    def _find_code(self) -> None:
        """The last cell that defines what is asked, else the last one that has the name."""
        chosen: dict[str, dict[int, int]] = {name: {} for name in self.asked}
        for index, cell in enumerate(self.cells):
            name = self.names[index]
            if (name and name not in self.stubs) or not self.is_text(index):
                continue
            for each, rank in self._ranks(index, cell):
                chosen[each][rank] = index
        for name, by_rank in chosen.items():
            if by_rank:
                index = by_rank[max(by_rank)]
                self.found[name] = (index,)
        for name, (index,) in self.found.items():
            source = self.cells[index].source or ""
            elsewhere = {
                each for each in self._asked_in(source) if self.found.get(each) != (index,)
            }
            functions = {self.asked[each] for each in elsewhere & self.found.keys()}
            self.answers[name] = without(source, functions) if functions else source

    def _ranks(self, index: int, cell: Cell) -> Iterator[tuple[str, int]]:
        """The exercises that a cell may answer, and how well: 4 by a definition in code."""
        source, name = cell.source or "", self.names[index]
        asked = {each for each in self._asked_in(source) if self._is_more_than_stub(each, source)}
        for each in asked:
            if cell.kind == "code" or each == name:
                yield each, 4
            elif tree_of(python_of(source)):
                yield each, 3
        if name in self.asked and name not in asked and self._is_written(index):
            yield name, 4 if _assigns(source, self.asked[name]) else 2 if not asked else 0
        elif not name and cell.kind == "code":
            yield from (
                (e, 1) for e, f in self.asked.items() if e not in asked and _assigns(source, f)
            )

    def _is_more_than_stub(self, name: str, source: str) -> bool:
        stub = self.stubs[name]
        text = plain(source)
        return stub not in text or self.asked[name] in defined(text.replace(stub, ""))

    def _find_texts(self) -> None:
        """Texts in cells with their names, and for the empty ones prose of the student's own."""
        texts = [name for name in self.stubs if name not in self.asked]
        taken = {index for indices in self.found.values() for index in indices}
        for name in texts:
            places = [
                index
                for index, each in enumerate(self.names)
                if each == name and index not in taken and self._is_written(index)
            ]
            if places:
                self.found[name] = tuple(places)
                self.answers[name] = "\n\n".join(self.cells[n].source or "" for n in places)
        empty = {name: self._place_of(name) for name in texts if name not in self.answers}
        marked = [bool(each) and bool(nbgrader_metadata(self.known[each])) for each in self.names]
        num_marked = [0, *accumulate(marked)]
        beside: dict[str, list[int]] = defaultdict(list)
        for index in range(len(self.cells)) if empty else ():
            if index not in taken and self._prose([index]):
                name = min(empty, key=lambda each: abs(empty[each] - index))
                low, high = sorted((empty[name], index))
                between = num_marked[math.ceil(high)] - num_marked[math.floor(low) + 1]
                (self.for_readers if between > 0 else beside)[name].append(index)
        for name, indices in beside.items():
            self.answers[name] = self._prose(indices)
            self._moved |= {index for index in indices if not self.names[index]}

    def _place_of(self, name: str) -> float:
        """Where the cell of a text stands, or would stand: behind the cell before it."""
        if name in self.names:
            return self.names.index(name)
        before = [each for each in self.known if self._order[each] < self._order[name]]
        there = [self.names.index(each) for each in before[-3:] if each in self.names]
        if there:
            return there[-1] + 0.5
        return len(self.cells) * self._order[name] / len(self._order)

    def _prose(self, indices: Sequence[int]) -> str:
        """What cells say in words of the student's own."""
        return "\n\n".join(filter(None, map(self._prose_of, indices)))

    def _prose_of(self, index: int) -> str:
        cell, name = self.cells[index], self.names[index]
        source = cell.source or ""
        if name in self.asked and cell.kind != "code":
            name = ""
        if not self.is_text(index) or plain(source) in self.stubs.values():
            return ""
        if name:
            given = self.known[name]
            if given.cell_type != "markdown" or cell.kind == "code":
                return ""
            lines = {line.strip() for line in given.source.split("\n")}
            lines |= set(self.stubs.values())
            more = [line for line in source.split("\n") if line.strip() not in lines]
            return "\n".join(more).strip()
        if cell.kind != "code":
            return source.strip()
        tree = tree_of(python_of(source))
        is_said = not defined(source) and (tree is None or not tree.body)
        return source.strip() if is_said else ""

    # Cells of one's own

    def _added(self) -> dict[str, list[NotebookNode]]:
        """The student's own cells, by the key of the course's cell before them."""
        added: dict[str, list[NotebookNode]] = {}
        taken = set(self.own[:MAX_ADDED_CELLS])
        at = {index: name for name, index in self.counting.items()}
        last = ""
        for index, cell in enumerate(self.cells):
            name = at.get(index, last)
            is_moved = name in self.stubs and self._order[name] < self._order.get(last, -1)
            last = last if is_moved else name
            if index in taken and self.is_text(index):
                is_copy = self.names[index] not in ("", *self.stubs)
                added.setdefault(last, []).append(_own_cell(cell, index, is_copy=is_copy))
        return added


def filled_in(
    fresh: NotebookNode, texts: Mapping[str, str], added: Mapping[str, list[NotebookNode]]
) -> NotebookNode:
    """A copy of a release with texts in its solution cells, and cells behind those of some keys."""
    notebook = deepcopy(fresh)
    cells = list(added.get("", []))
    for cell in notebook.cells:
        if is_solution(cell):
            cell.source = texts.get(cell_key(cell), cell.source)
        cells += [cell, *added.get(cell_key(cell), [])]
    notebook.cells = cells
    return notebook


def is_added(cell: NotebookNode) -> bool:
    """Whether a cell of a notebook with answers is one that the student added."""
    return str(cell.get("id", "")).startswith(ADDED)


def _own_cell(cell: Cell, index: int, *, is_copy: bool) -> NotebookNode:
    """A cell of the student's without its metadata; a copy of a given one does not run again."""
    node = NEW_CELL["raw" if is_copy else cell.kind](cell.source or "")
    node.id = f"{ADDED}{index}"
    return node


def _assigns(source: str, function: str) -> bool:
    return bool(function) and bool(re.search(rf"^{function} *(?::[^=\n]*)?=(?!=)", source, re.M))


def plain(source: str) -> str:
    """A text without what editors change at the ends of lines."""
    return "\n".join(line.rstrip() for line in source.strip().split("\n"))


def _words(source: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", source[:20_000]))
