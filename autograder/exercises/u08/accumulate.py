"""Check of accumulation: gradients of the whole batch, with the memory of one micro-batch."""

import random
from typing import Any

from autograder.checking import borrowed_code
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u08.shared.ragged_batches import (
    kept_bytes,
    losses_of,
    num_targets,
    ragged,
)
from autograder.observing.observation import length_of
from autograder.observing.u08 import accumulate
from autograder.observing.u08.accumulate import prepared
from course_utils.instruments import trace_memory
from course_utils.reference import accumulation

SCENARIOS = (
    "equal",
    "ragged",
    "remainder",
    "empty micro-batch",
    "no targets",
    "existing gradients",
    "memory",
)
FIELDS = ("scenario", "lengths", "micro_batch_size", "width", "vocab_size")

FEW_TOKENS = 2  # so that weights take more memory than activations


def accumulate_cases(seed: int) -> list[Case]:
    """Every scenario three times; for memory, large activations and large weights."""
    rng = random.Random(seed)
    cases = []
    for number in range(3):
        length = rng.randint(4, 7)
        lengths_of: dict[str, tuple[list[int], int]] = {
            "equal": ([length] * 4, number % 2 + 1),
            "ragged": (ragged(rng, 6), number % 2 + 1),
            "remainder": (ragged(rng, 5), number + 2),  # at last 4 and 1, not 3 and 2
            "empty micro-batch": (_with_empty(rng, number % 2 + 1), number % 2 + 1),
            "no targets": ([0] * (number + 2), number % 2 + 1),
            "existing gradients": ([length] * 4, number % 2 + 1),
        }
        for scenario, (lengths, size) in lengths_of.items():
            cases.append(_case(scenario, lengths, size, rng.randint(3, 5), rng.randint(7, 11)))
    for length, size in ((300, 1), (150, 2)):
        num_micro_batches = rng.randint(3, 5)
        cases.append(_case("memory", [length] * (num_micro_batches * size), size, 16, 5))
    cases.append(_case("memory", [FEW_TOKENS] * rng.randint(3, 5), 1, 48, 48))
    cases.sort(key=lambda case: case["scenario"] == "no targets")  # other trouble is told first
    return [_case("remainder", [3, 1, 2], 2, 3, 5), *cases]


def _with_empty(rng: random.Random, size: int) -> list[int]:
    """Lengths of three micro-batches; the middle one has no targets."""
    lengths = ragged(rng, 2 * size)
    return [*lengths[:size], *[0] * size, *lengths[size:]]


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """Loss and gradients of the whole batch at once, added to those from before; nothing else.

    Of memory, the peak of a right loop, and the bytes of a micro-batch and of all gradients.
    """
    model, ids, targets = prepared(case)
    before = [each.grad for each in model.parameters()]
    losses = losses_of(model, ids, targets)
    mean = losses.sum() / max(1, len(losses))
    mean.backward()  # adds to what is there
    gradients = [each.grad for each in model.parameters()]
    parts = targets.split(case["micro_batch_size"])
    return {
        "changed_batch": 0,
        "not_numbers": 0,
        "loss": mean.item(),
        "gradient_length": length_of(gradients),
        "wrong_gradients": 0,
        "new_gradients": 0,
        "sequences_too_many": 0,
        "passes_missing": 0,
        "passes_too_many": 0,
        "other_sizes": 0,
        "micro_batches_held": 0,
        "gradients_held": 0,
        "gradients": gradients,
        "before": before,
        "passes": [sum(num_targets(part) > 0 for part in parts), len(parts)],
        "sizes": [len(part) for part in parts],
        "bytes": _bytes_of(case) if case["scenario"] == "memory" else [],
    }


def _bytes_of(case: Case) -> list[int]:
    """At the peak of a right loop, kept by one micro-batch, and of all gradients."""
    size, (model, ids, targets) = case["micro_batch_size"], prepared(case)
    trace = trace_memory(lambda: accumulation.accumulate(model, ids, targets, size), model)
    kept = kept_bytes(model, ids[:size], targets[:size])
    return [trace.peak_bytes, kept, sum(each.nbytes for each in model.parameters())]


def _gradients_of_each_held(more: int) -> Symptom:
    return Symptom(
        "A set of all gradients is held for each micro-batch. Who adds new gradients to those that "
        "are there, if you let it?",
        lambda scenario, lengths, size, *_: {"gradients_held": -(-len(lengths) // size) + more},
    )


CHECK = Check(
    cases=accumulate_cases,
    observe=accumulate.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u08-accumulate", observe=accumulate.observe),
        *(_gradients_of_each_held(more) for more in (0, -1, 1)),
        summarise=accumulate.summarise,
        scenarios=SCENARIOS,
        questions=questions_of("u08-accumulate"),
        labels={
            "changed_batch": "changes to ids or targets (0 no, 1 yes)",
            "not_numbers": "nan or inf in the loss or a gradient (0 no, 1 yes)",
            "loss": "the loss that is returned",
            "gradient_length": "the norm of what is in grad",
            "wrong_gradients": "parameters with a wrong gradient in grad",
            "new_gradients": "gradients that are made without any target",
            "sequences_too_many": "sequences too many in a pass",
            "passes_missing": "missing forward passes",
            "passes_too_many": "forward passes too many",
            "other_sizes": "passes of other sizes than full micro-batches and the remainder",
            "micro_batches_held": "micro-batches whose activations are kept needlessly",
            "gradients_held": "sets of gradients that are kept needlessly",
        },
    ),
    fallback="course_utils.reference.accumulation.accumulate",
    answers=("course_utils.reference.accumulation.accumulate",),
    allowed_names=borrowed_code.TOKEN_LOSS,
)
