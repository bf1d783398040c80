"""All that is tried here runs students' code in a sandbox."""

import pytest

from tests.needs import SANDBOX, require


@pytest.fixture(autouse=True, scope="session")
def sandbox() -> None:
    """Skip everything where no sandbox can be made."""
    require(SANDBOX)
