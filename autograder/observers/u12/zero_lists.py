"""Lists of F, I and W: every action once, how long they take, and what each stage holds."""

from autograder.checking.exercise_check import Case
from autograder.checking.fact import Fact
from autograder.checking.plain_data import Plain
from autograder.observers.u12 import lists

observe = lists.observe


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What is wrong with the lists, how long they take, and what each stage holds."""
    run = lists.follow(case, observed)
    return [
        lists.num_lists(observed),
        lists.unknown(
            run,
            "What are the three parts of an action, and which micro-batches are there if they are "
            "fewer than the stages?",
        ),
        lists.repeated(
            run,
            "An action occurs twice, or as B beside I or W. How often is each half done?",
        ),
        lists.missing(
            run,
            "Every stage makes F, I and W of every micro-batch. Which ones are left at the end?",
        ),
        lists.waiting(run),
        lists.step_seconds(
            run,
            "The step takes longer than it must. Which stage has a gap after its first I, and "
            "which W of its own could lie there?",
        ),
        *(
            lists.held(
                run,
                stage,
                right,
                f"{'A stage' if stage else 'Stage 0'} holds too many micro-batches. How many F "
                "come ahead of its first W?",
            )
            for stage in run.stages
        ),
    ]
