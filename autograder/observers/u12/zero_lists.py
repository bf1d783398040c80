"""Lists of F, I and W: every action once, how long they take, and what each stage holds."""

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.u12 import lists

observe = lists.observe


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What is wrong with the lists, how long they take, and what each stage holds."""
    run = lists.follow(case, observed)
    of_run = lists.facts_of_run(
        observed,
        run,
        ask_unknown="What are the three parts of an action, and which micro-batches are there if "
        "they are fewer than the stages?",
        ask_repeated="An action occurs twice, or as B beside I or W. How often is each half done?",
        ask_missing="Every stage makes F, I and W of every micro-batch. Which ones are left at "
        "the end?",
        ask_seconds="The step takes longer than it must. Which stage has a gap after its first I, "
        "and which W of its own could lie there?",
    )
    return [
        *of_run,
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
