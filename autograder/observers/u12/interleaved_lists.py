"""The lists of interleaved 1F1B: every action once, the time with and without messages."""

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.u12 import lists
from course_utils.instruments import PassSeconds

# In tenths of a second: passes of one second, messages of a tenth.
WITH_MESSAGES = PassSeconds(forward=10, input_gradient=10, weight_gradient=10, message=1)

observe = lists.observe


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What is wrong with the lists, how long they take, and what each stage holds.

    With messages fewer tenths are right.
    """
    run = lists.follow(case, observed)
    tenths = int(lists.follow(case, observed, WITH_MESSAGES).seconds)
    of_run = lists.facts_of_run(
        observed,
        run,
        ask_unknown="What are the three parts of an action, and which chunks has a stage?",
        ask_repeated="An action occurs twice. Where do the orders go on after the first passes?",
        ask_missing="Every stage makes F and B of every micro-batch in every chunk. Which ones "
        "are left when F and B no longer alternate?",
        ask_waiting="Your stages wait for each other. How many F must, and may, a stage run "
        "before the first gradient can reach it?",
        ask_seconds="The step takes longer than it must. Which stage has a gap in the middle, and "
        "what does it wait for there?",
    )
    return [
        *of_run,
        Fact(
            "tenths",
            max(tenths, right["tenths"]),
            "tenths of a second of the step, with messages of a tenth",
            "Right while messages take no time. How many F would a stage have to run ahead so that "
            "it need not wait for them?",
        ),
        *(
            lists.held(
                run,
                stage,
                right,
                f"Stage {stage} holds more than it must. How many F does it take until the first "
                f"gradient comes back{' to it' if stage else ''}?",
            )
            for stage in run.stages
        ),
    ]
