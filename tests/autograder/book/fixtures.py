"""The book, built once for all tests of it; they are skipped where Sphinx cannot be had."""

from pathlib import Path

import pytest

from autograder.book.__main__ import build
from autograder.book.tools import sphinx_python
from autograder.commands import CommandError
from tests.notebooks.filling import ROOT


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the built pages."""
    try:
        sphinx_python(ROOT)
    except CommandError as error:
        pytest.skip(f"Sphinx cannot be installed here: {error}")
    return build(ROOT, tmp_path_factory.mktemp("book") / "pages").parent
