"""The built book: no answer in it, every link leads somewhere, nothing comes from elsewhere."""

import csv
import re
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from autograder import catalogue
from tests.autograder.book.pages import pages_of
from tests.autograder.secrets import RECORDED, model_trees, said_of, secrets_of, syntax_trees, words
from tests.notebooks.filling import ROOT, UNITS, WITH_EXERCISES


@pytest.fixture(scope="module")
def pages(book):
    return pages_of(book)


@pytest.fixture(scope="module")
def trees(book, pages):
    """The syntax trees of all functions in code on the pages and in notebooks to download."""
    blocks = [block for page in pages.values() for block in page.blocks]
    for path in book.rglob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        blocks += [cell.source for cell in cells if cell.cell_type == "code"]
    return {tree for block in blocks for tree in _trees(block)}


def _trees(block):
    try:
        return set(syntax_trees(block))
    except SyntaxError:  # what a cell printed
        return set()


def unit_page(book, pages, folder):
    return pages[book / "units" / f"{folder}.html"]


@pytest.mark.parametrize("exercise", RECORDED)
def test_no_model_answer_is_in_it(trees, exercise):
    assert not model_trees(exercise) & trees


def test_functions_on_pages_are_among_those_that_are_searched(trees):
    assert any(tree.startswith("[['rows', 'inner', 'columns']") for tree in trees)


@pytest.mark.parametrize("unit", WITH_EXERCISES)
def test_no_solution_and_no_hidden_test_is_in_any_page(pages, unit):
    said = {each for secret in secrets_of(unit) for each in said_of(secret)}
    assert said
    for page in pages.values():
        text = words(page.text)
        assert [each for each in said if each in text] == []
        assert "SOLUTION" not in page.text


def test_every_file_of_the_book_is_a_page_or_what_a_page_needs(book):
    kinds = {path.suffix for path in book.rglob("*") if path.is_file()}
    assert not kinds & {".py", ".json", ".zip", ".csv", ".md"}
    notebooks = sorted(path.stem for path in book.rglob("*.ipynb"))
    assert notebooks == UNITS


def test_every_internal_link_leads_somewhere(pages):
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[file].ids if file in pages else set()
            if not file.is_file() or (parts.fragment and unquote(parts.fragment) not in known):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_a_page_loads_only_files_of_the_book(book, pages):
    for path, page in pages.items():
        for link in page.fetched:
            parts = urlsplit(link)
            if parts.scheme != "data":
                assert not parts.netloc, f"{path.name} loads {link}"
                assert (path.parent / unquote(parts.path)).resolve().is_relative_to(book.resolve())


@pytest.mark.parametrize("unit", catalogue.units(), ids=lambda unit: unit.folder)
def test_every_exercise_has_a_place_to_link_to(book, pages, unit):
    page = unit_page(book, pages, unit.folder)
    assert {item.id for item in unit.exercises} <= page.ids
    for item in unit.exercises:
        assert words(item.title) in words(page.text)


def test_lectures_lead_to_units_and_exercises_of_the_coverage_map(book, pages):
    links = set(pages[book / "lectures.html"].links)
    with (ROOT / "tests" / "coverage_map.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if "-" not in row["item"]]
    folders = {unit.number: unit.folder for unit in catalogue.units()}
    assert rows
    for row in rows:
        assert f"lecture-{row['item'].lower()}" in pages[book / "lectures.html"].ids
        assert f"units/{folders[row['unit']]}.html" in links
    exercises = {urlsplit(link).fragment for link in links} & set(RECORDED)
    assert len(exercises) > len(UNITS)


def test_units_lead_to_other_units_to_lectures_and_to_words(book, pages):
    for unit in catalogue.units()[1:]:
        folder, links = unit.folder, unit_page(book, pages, unit.folder).links
        assert any(re.match(r"\.\./glossary\.html#term-", link) for link in links), folder
        to_lectures = any(link.startswith("../lectures.html#lecture-") for link in links)
        assert to_lectures == bool(unit.lecture), folder
    inside = [
        link
        for folder in UNITS
        for link in re.findall(
            r'href="(\d\d_\w+\.html)"', (book / "units" / f"{folder}.html").read_text("utf-8")
        )
    ]
    assert set(inside) == {f"{folder}.html" for folder in UNITS}


def test_the_unit_that_a_word_names_uses_it(book, pages):
    glossary = (ROOT / "docs" / "book" / "glossary.md").read_text("utf-8")
    terms = re.findall(r"^(\S.*)\n  .*Unit (\d\d)\.$", glossary, flags=re.MULTILINE)
    used = {unit.number: unit_page(book, pages, unit.folder).links for unit in catalogue.units()}
    assert len(terms) > 40
    missing = [
        (term, number)
        for term, number in terms
        if f"../glossary.html#term-{re.sub(r'[^A-Za-z0-9]+', '-', term)}" not in used[number]
    ]
    assert missing == []
