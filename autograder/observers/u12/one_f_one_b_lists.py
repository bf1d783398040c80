"""The lists of 1F1B: every action once, how long they take, and what each stage holds."""

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.u12 import lists

observe = lists.observe


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What is wrong with the lists, how long they take, and what each stage holds."""
    run = lists.follow(case, observed)
    of_run = lists.facts_of_run(
        observed,
        run,
        ask_unknown="What are the three parts of an action, and how many micro-batches are there?",
        ask_repeated="An action occurs twice. With which micro-batch do F and B go on after the "
        "first passes?",
        ask_missing="Every stage makes F and B of every micro-batch. Which ones are left when F "
        "and B no longer alternate?",
        ask_seconds="The step takes longer than with GPipe. Which stage has a gap that GPipe does "
        "not have, and what does it wait for there?",
    )
    ask_held = (
        "A stage holds more than it must. How many forward passes does it take until the "
        "first gradient comes back?"
    )
    return [
        *of_run,
        *(lists.held(run, stage, right, ask_held) for stage in run.stages),
    ]
