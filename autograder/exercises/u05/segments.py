"""Check of layers that are recomputed in segments."""

import random
from typing import Any

from torch import nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u05 import segments
from autograder.observing.u05.segments import Trial
from course_utils.reference.recomputation import run_in_segments

NAMES = ("num_layers", "layers_per_segment", "rows", "width")


def segment_cases(seed: int) -> list[Case]:
    """Segments of one layer, of all layers, longer than all, and with a shorter last one.

    Three equal segments could share 7 layers more evenly than segments of 3 do.
    """
    rng = random.Random(seed)
    pairs = [(5, 2), (1, 1), (3, 1), (4, 2), (6, 2), (4, 4), (3, 5), (5, 3), (7, 3)]
    while len(pairs) < 20:
        num_layers = rng.randint(3, 5)
        pairs.append((num_layers, rng.randint(2, num_layers - 1)))
    rows = [50, *(rng.randint(40, 60) for _ in pairs[1:])]
    return [
        dict(zip(NAMES, (*pair, n, 3), strict=True)) for pair, n in zip(pairs, rows, strict=True)
    ]


def measured(**case: int) -> dict[str, Any]:
    """Each layer twice, one boundary for each segment, and a step without any checkpoint."""
    layers, size, trial = case["num_layers"], case["layers_per_segment"], Trial(**case)
    result = nn.Sequential(*trial.layers)(trial.x * 1)
    trial.go_back(result)
    return {
        "calls_in_forward": layers,
        "calls_in_backward": layers,
        "layers_called_twice": layers,
        "kept_bytes": len(range(0, layers, size)) * trial.x.nbytes,
        "unseen_bytes": 0,
        "layers_in_first_segment": min(size, layers),
        "layers_in_last_segment": (layers - 1) % size + 1,
        "odd_segments": 0,
        "wrong_results": 0,
        "wrong_gradients": 0,
        "peak_bytes": segments.peak_of(run_in_segments, case),
        "changed_list": 0,
        "result": result.detach(),
        "gradients": [leaf.grad for leaf in trial.leaves],
    }


CHECK = Check(
    cases=segment_cases,
    observe=segments.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u05-segments", observe=segments.observe),
        Symptom(
            "Segments run again, and none went through the `checkpoint` that is given. Where does "
            "the one that you call come from?",
            lambda *_: {"layers_in_first_segment": 0, "layers_in_last_segment": 0},
        ),
        summarise=segments.summarise,
        questions=questions_of("u05-segments"),
        labels=segments.LABELS,
    ),
    fallback="course_utils.reference.recomputation.run_in_segments",
    answers=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)
