"""All answer banks, by the id of their exercise."""

from autograder import catalogue
from tests.answer_bank import AnswerBank, bank_of

ANSWER_BANKS: dict[str, AnswerBank] = {
    item.id: bank_of(item.id)
    for unit in catalogue.units()
    for item in unit.exercises
    if not item.manual
}
