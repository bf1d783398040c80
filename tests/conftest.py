"""One book, browser and JupyterLab for all tests that use them; one thread for small tensors."""

import signal

import torch

from tests.autograder.book.fixtures import book
from tests.browser.fixtures import browser, notebooks, server

__all__ = ["book", "browser", "notebooks", "server"]

torch.set_num_threads(1)

# A shell that starts the tests in the background has Ctrl-C ignored, in them and all they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
