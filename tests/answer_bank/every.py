"""All answer banks, by the id of their exercise."""

import importlib
import pkgutil

from tests import answer_bank
from tests.answer_bank import AnswerBank

MODULES = [
    importlib.import_module(f"tests.answer_bank.{found.name}")
    for found in pkgutil.iter_modules(answer_bank.__path__)
    if found.name != "every"
]
ANSWER_BANKS: dict[str, AnswerBank] = {
    name: bank for module in MODULES for name, bank in module.BANKS.items()
}
