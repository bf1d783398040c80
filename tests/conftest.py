"""One browser and one JupyterLab for all tests that drive them."""

from tests.browser.fixtures import browser, notebooks, server

__all__ = ["browser", "notebooks", "server"]
