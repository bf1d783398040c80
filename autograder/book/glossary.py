"""The terms of the glossary, `docs/book/glossary.md`, and their spellings in prose."""

import re

DIRECTIVE = re.compile(r"^:{3,}\{glossary\}\n(?P<entries>.*?)^:{3,}$", re.DOTALL | re.MULTILINE)
OTHER_SPELLINGS = re.compile(r"^% also: (?P<term>.+?) = (?P<others>.+)$", re.MULTILINE)


def terms(glossary: str) -> list[str]:
    """The terms in the order of the page: the lines that are not indented."""
    found = DIRECTIVE.search(glossary)
    lines = found["entries"].splitlines() if found else []
    return [line for line in lines if line and not line.startswith((" ", ":"))]


def spellings(glossary: str) -> dict[str, str]:
    """The term for each spelling, in lower case.

    A line `% also: term = one, another` names spellings beside the term's own; the part of a term
    in brackets, an abbreviation, is one too, and what stands before it.
    """
    found = {}
    for term in terms(glossary):
        short = re.fullmatch(r"(.+?) \((.+)\)", term)
        for spelling in short.groups() if short else (term,):
            found[spelling.lower()] = term
    for line in OTHER_SPELLINGS.finditer(glossary):
        found |= {each.strip().lower(): line["term"] for each in line["others"].split(",")}
    return found
