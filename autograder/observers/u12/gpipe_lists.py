"""The lists of GPipe: every action once, all F before all B, and how long they take."""

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.u12 import lists

observe = lists.observe


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What is wrong with the lists, how long they take, and what each stage holds."""
    run = lists.follow(case, observed)
    of_run = lists.facts_of_run(
        observed,
        run,
        ask_unknown="What are the three parts of an action, and from which number on do "
        "micro-batches count?",
        ask_repeated="How often does a stage see each micro-batch?",
        ask_missing="Which passes does every stage make, and for which micro-batches?",
        ask_seconds="The step takes longer than it must. Which stage is late, and for what?",
    )
    ask_held = (
        "A stage holds a micro-batch from its F to its B. Which F of this stage has no B "
        "of its own behind it?"
    )
    return [
        *of_run,
        Fact(
            "late_forwards",
            sum(map(_late_forwards, observed)),
            "forward passes after a backward pass, on all stages",
            "A forward pass comes after a backward pass. Is that GPipe?",
        ),
        *(lists.held(run, stage, right, ask_held) for stage in run.stages),
    ]


def _late_forwards(actions: Plain) -> int:
    """Forward passes of a stage after its first backward pass."""
    kinds = [each[0] for each in actions if isinstance(each, list | tuple) and each]
    first = next((n for n, kind in enumerate(kinds) if kind == "B"), len(kinds))
    return kinds[first:].count("F")
