"""Check of layers that are recomputed in segments."""

import random
from typing import Any

from torch import nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
LOOP = "for start in range(0, len(layers), layers_per_segment):\n"
BEGIN, END = "layers[start :", "start + layers_per_segment]"
SEGMENT = "segment = nn.Sequential(*layers[start : start + layers_per_segment])"
CALL = "checkpoint(segment, x)"

LENGTHS = ("kept_bytes", "layers_in_first_segment", "layers_in_last_segment", "odd_segments")
AS_NUMBER = (
    "The number of segments is not right. Is `layers_per_segment` how many segments there are, or "
    "how long each is?"
)
EVENLY = (
    "There are as many segments as there should be, and the layers are shared out evenly among "
    "them. Which segment alone may have fewer than `layers_per_segment`?"
)


def _of_lengths(hint: str, *lengths: str) -> list[Edit]:
    """Segments of other lengths, of n layers, where k is `layers_per_segment`."""
    return [
        Edit(
            hint,
            {
                LOOP: f"n, k = len(layers), layers_per_segment\n    lengths = {each}\n"
                "    for number, length in enumerate(lengths):\n"
                "        start = sum(lengths[:number])\n",
                END: "start + length]",
            },
            shows=LENGTHS,
        )
        for each in lengths
    ]


EDITS = (
    Edit(
        "Forward is right, and backward runs no layer: by then your segments are empty. Which list "
        "does the function of a segment read, and what have you done to it since?",
        {
            SEGMENT: "part = list(layers[start : start + layers_per_segment])\n\n"
            "        def segment(x):\n"
            "            for layer in part:\n"
            "                x = layer(x)\n"
            "            return x\n",
            f"x = {CALL}": f"x = {CALL}\n        part.clear()",
        },
    ),
    Edit(
        "Every layer runs once: nothing is recomputed. What does each segment have to go through?",
        {CALL: "segment(x)"},
        shows=("calls_in_backward",),
    ),
    Edit(
        "The layers of the last segment run once and keep everything. Backward begins with that "
        "segment; what does the exercise want of it?",
        {CALL: f"{CALL} if start + layers_per_segment < len(layers) else segment(x)"},
        shows=("calls_in_backward",),
    ),
    Edit(
        "The layers of the first segment run once and keep everything. Is their input not there to "
        "begin with?",
        {CALL: f"{CALL} if start else segment(x)"},
        shows=("calls_in_backward",),
    ),
    Edit(
        "Only some layers go through a checkpoint, and the others keep all of theirs. How many "
        "layers does one checkpoint hold?",
        {
            END: "start + 1]",
            f"x = {CALL}": f"x = {CALL}\n"
            "        x = nn.Sequential(*layers[start + 1 : start + layers_per_segment])(x)",
        },
        shows=("calls_in_backward",),
    ),
    Edit(
        "In backward each layer runs twice: a checkpoint runs a function that contains another "
        "checkpoint. How many checkpoints is each layer inside?",
        {
            SEGMENT: "def segment(x, start=start):\n"
            "            for layer in layers[start : start + layers_per_segment]:\n"
            "                x = checkpoint(layer, x)\n"
            "            return x"
        },
        shows=("calls_in_backward",),
    ),
    Edit(
        "Some layers never run. What becomes of those that are left when the length of a segment "
        "does not divide their number?",
        {"len(layers),": "len(layers) - layers_per_segment + 1,"},
        shows=("calls_in_forward",),
    ),
    Edit(
        "The first layer never runs. Which index has it?",
        {"range(0,": "range(1,"},
        shows=("calls_in_forward",),
    ),
    Edit(
        "The forward pass runs every layer twice. Which of your lines calls a segment, beside its "
        "checkpoint?",
        {CALL: f"(segment(x), {CALL})[1]"},
        shows=("calls_in_forward",),
    ),
    Edit(
        "Neighboring segments share a layer. Which is the last one that a slice takes?",
        {END: "start + layers_per_segment + 1]"},
        shows=("calls_in_forward",),
    ),
    Edit(
        "The forward pass calls layers more than once. Where does each of your segments begin, and "
        "what comes into it?",
        {BEGIN: "layers[:"},
        shows=("calls_in_forward",),
    ),
    Edit(
        "The result is right, and in backward every segment runs the layers of the last one. When "
        "does your function look up its variables, and what do they hold by then?",
        {
            SEGMENT: "def segment(x):\n"
            "            return nn.Sequential(*layers[start : start + layers_per_segment])(x)"
        },
        shows=("calls_in_backward", "layers_called_twice"),
    ),
    Edit(
        "The result is right, and in backward the last segment runs alone. What have you cut off "
        "between two segments?",
        {CALL: "checkpoint(segment, x.detach().requires_grad_())"},
        shows=("calls_in_backward", "wrong_gradients"),
    ),
    Edit(
        "The result is wrong, and in backward the last segment runs alone. What comes into it?",
        {f"x = {CALL}": f"out = {CALL}", "return x": "return out"},
        shows=("calls_in_backward", "wrong_results"),
    ),
    *_of_lengths(
        "One tensor is kept, however many segments there should be. How many layers stand between "
        "two tensors that you keep?",
        "[n]",
    ),
    *_of_lengths(
        "The input of every layer is kept. Which of them can be computed again from the input of "
        "its segment?",
        "n * [1]",
    ),
    *_of_lengths(
        "Your first segment is the short one. Which of them does the exercise let be shorter?",
        "[min(k, n - s) for s in range(0, n, k)][::-1]",
    ),
    *_of_lengths(
        EVENLY,
        "[-(-(n - i) // -(-n // k)) for i in range(-(-n // k))]",
        "[(n + i) // -(-n // k) for i in range(-(-n // k))]",
    ),
    *_of_lengths(
        AS_NUMBER,
        "[min(-(-n // k), n - s) for s in range(0, n, -(-n // k))]",
        "[min(max(1, n // k), n - s) for s in range(0, n, max(1, n // k))]",
        "[-(-(n - i) // k) for i in range(k)]",
        "[-(-(n - i) // min(n, k)) for i in range(min(n, k))]",
        "[n // k] * (k - 1) + [n - n // k * (k - 1)]",
    ),
    *_of_lengths(
        "You choose the length of your segments yourself. Which length is given?",
        "[min(m, n - s) for m in [max(1, round(n**0.5))] for s in range(0, n, m)]",
    ),
    Edit(
        "Tensors live on where autograd does not see them. Who still holds them, and does backward "
        "need them?",
        {
            f"x = {CALL}": f"x = {CALL}\n"
            "        vars(run_in_segments).setdefault('kept', []).append(x.detach().clone())"
        },
        shows=("unseen_bytes",),
    ),
    Edit(
        "Results of layers are noted and live on where autograd does not see them. Which list of "
        "yours holds them, and does backward need it?",
        {
            LOOP: f"noted = []\n    {LOOP}",
            SEGMENT: "def segment(x, start=start):\n"
            "            for layer in layers[start : start + layers_per_segment]:\n"
            "                x = layer(x)\n"
            "                noted.append(x)\n"
            "            return x",
        },
        shows=("unseen_bytes", "peak_bytes"),
    ),
    Edit(
        "Calls and bytes are right, and the result is not. In which order do the layers run?",
        {BEGIN: "layers[::-1][start :"},
        shows=("wrong_results",),
    ),
    Edit(
        "All numbers are right, and the list of layers has changed afterwards. Whose list is "
        "it, and how else could you get to the next layers?",
        {
            LOOP: "while layers:\n",
            SEGMENT: "segment = nn.Sequential(*layers[:layers_per_segment])\n"
            "        del layers[:layers_per_segment]",
        },
        shows=("changed_list",),
    ),
)

CHECK = Check(
    cases=segment_cases,
    observe=segments.observe,
    judge=Behaviour(
        measured,
        *edited("u05-segments", EDITS, observe=segments.observe),
        Symptom(
            "Segments run again, and none went through the `checkpoint` that is given. Where does "
            "the one that you call come from?",
            lambda *_: {"layers_in_first_segment": 0, "layers_in_last_segment": 0},
        ),
        summarise=segments.summarise,
        questions={
            "kept_bytes": "Which tensors lie between the segments, and is anything else kept?",
            "layers_in_first_segment": "How many layers has the first segment, and how are those "
            "that are left over dealt out?",
            "layers_in_last_segment": "How many layers are left for the last segment?",
            "layers_called_twice": "Which layers run again, and which segment need not?",
            "calls_in_backward": "Which layers run again, and which segment need not?",
            "peak_bytes": "The kept bytes are right, the peak is not. What is alive while one "
            "segment runs again?",
        },
        labels=segments.LABELS,
    ),
    fallback="course_utils.reference.recomputation.run_in_segments",
    answers=("course_utils.reference.recomputation",),
    forbidden_modules=("torch.utils.checkpoint",),
)
