"""Check of the bytes live at the three moments where a training step can peak."""

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from course_utils.configs import ModelConfig, RunConfig, precision
from course_utils.formulas.activations import model_saved_bytes
from course_utils.formulas.parameters import parameters
from course_utils.instruments import MemoryTrace, Phase, trace_memory
from course_utils.reference import Training
from course_utils.reference.training import ADAMW

ID_BYTES = 8
TOKEN_COUNT_BYTES = 4

Peaks = dict[str, int]


def peak_cases(seed: int) -> list[Case]:
    """Tied and untied, MHA and GQA, one sequence and two, every way to compute AdamW."""
    rng = random.Random(seed)
    worked = {"num_layers": 1, "hidden_size": 4, "num_heads": 1, "ffn_size": 3, "vocab_size": 5}
    smallest = worked | {"is_tied": True}
    runs = [
        (smallest | {"vocab_size": rng.randint(5, 30)}, 2),
        (_random_sizes(rng, 2, False), rng.randint(2, 9)),
    ]
    for is_tied in (True, False):
        for group in (1, rng.randint(2, 3)):
            num_tokens = rng.randrange(3, 40, 2) if group == 1 else rng.randrange(4, 40, 2)
            runs.append((_random_sizes(rng, group, is_tied), num_tokens))
    runs.append((_random_sizes(rng, 1, True), rng.randint(40, 60)))
    cases = [_case(sizes, num_tokens, adamw) for sizes, num_tokens in runs for adamw in ADAMW]
    return [_case(smallest, 2, ADAMW[0]), *cases[1:]]


def _random_sizes(rng: random.Random, group: int, is_tied: bool) -> dict[str, Any]:
    """Sizes of a model of one layer, whose embedding is its largest matrix."""
    num_kv_heads, head_dim = rng.randint(1, 2), rng.choice((2, 4))
    return {
        "num_layers": 1,
        "hidden_size": num_kv_heads * group * head_dim,
        "num_heads": num_kv_heads * group,
        "num_kv_heads": num_kv_heads,
        "ffn_size": rng.randrange(5, 40, 2),
        "vocab_size": rng.randrange(61, 120, 2),
        "is_tied": is_tied,
    }


def _case(sizes: dict[str, Any], num_tokens: int, adamw: str) -> Case:
    model = model_of(sizes)
    num_params = sum(parameters(model).values())
    saved = sum(model_saved_bytes(model, _run(num_tokens)).values())
    of_adamw = {"for-loop": 8 * _largest(model), "foreach": 4 * num_params, "fused": 0}
    return {
        "model": sizes,
        "num_params": num_params,
        # ids and targets are there before the forward pass; the loss keeps how many there were
        "kept_bytes": saved - 2 * ID_BYTES * num_tokens - TOKEN_COUNT_BYTES,
        "num_tokens": num_tokens,
        "temporary_bytes": of_adamw[adamw],
    }


def _run(num_tokens: int) -> RunConfig:
    """One sequence, or two where the tokens can be halved."""
    num_sequences = 1 + (num_tokens % 2 == 0)
    return RunConfig(
        micro_batch_size=num_sequences,
        seq_len=num_tokens // num_sequences,
        precision=precision("fp32"),
        is_loss_fp32=True,
    )


def _largest(model: ModelConfig) -> int:
    """Numbers in the largest weight tensor."""
    width = max(model.vocab_size, model.ffn_size, model.num_heads * model.head_dim)
    return model.hidden_size * width


def measured_peaks(
    model: dict[str, Any],
    num_params: int,
    kept_bytes: int,
    num_tokens: int,
    temporary_bytes: int,
) -> Peaks:
    """What a trace of real training shows, without tensors of a single number."""
    adamw = {0: "fused", 4 * num_params: "foreach"}.get(temporary_bytes, "for-loop")
    return _traced(model_of(model), num_tokens)[adamw]


@lru_cache
def _traced(model: ModelConfig, num_tokens: int) -> dict[str, Peaks]:
    """One step of three equal trainings, one for each way to compute AdamW, under one trace.

    All have their optimizer states; what the other two hold is subtracted.
    """
    trainings = [Training(model, _run(num_tokens), adamw=adamw) for adamw in ADAMW]
    for training in trainings:
        training.step()
    remaining = iter(trainings)
    owners = [each for training in trainings for each in training.owners]
    trace = trace_memory(lambda: next(remaining).step(), *owners, num_steps=len(trainings))
    trace = replace(trace, storages=tuple(each for each in trace.storages if each.shape))
    of_others = trace.total_bytes[0] // len(ADAMW) * (len(ADAMW) - 1)
    return {
        adamw: {
            moment: live - of_others
            for moment, live in _moments(trace, *trace.phases[3 * number + 1 :][:2]).items()
        }
        for number, adamw in enumerate(ADAMW)
    }


def _moments(trace: MemoryTrace, backward: Phase, step: Phase) -> Peaks:
    """Live bytes at the logits' gradient, at backward's last allocation, at the step's peak."""
    made = [each for each in trace.storages if backward.start <= each.born < backward.stop]
    logits = next(each for each in made if each.operation == "_log_softmax_backward_data")
    return {
        "loss": trace.total_bytes[logits.born],
        "backward": trace.total_bytes[max(each.born for each in made)],
        "step": max(trace.total_bytes[step.start : step.stop]),
    }


# Places of the model answer.
STATES = "12 * num_params, 16 * num_params"
LOGITS, TIED, UNTIED = " + logits_bytes + logits_bytes", "2 * matrix_bytes if", "else hidden_bytes"
BESIDE = f"{TIED} model.is_tied {UNTIED}"
LOSS, BACKWARD = "without_gradients + kept_bytes", "with_gradients + beside_gradients"
STEP = "with_gradients + temporary_bytes"
TENSORS = ("logits", "hidden", "matrix")
MISSING_GRADIENTS = "After the loss you count no gradients. Until when do they stay?"
KEPT_TO_THE_END = (
    "After the backward pass you still count what the forward pass kept. When is the last of it "
    "freed?"
)
ONE_GRADIENT = (
    "At the end of the backward pass you count one gradient of the embedding and forget the "
    "others. How many parameters have theirs by then?"
)


def _at(moments: int, hint: str, *edits: Mapping[str, str]) -> list[Edit]:
    """Edits that go wrong at some of the three moments."""
    return [Edit(hint, pieces, points=3.0 - moments) for pieces in edits]


WIDTHS = (
    *_at(
        2,
        "You add numbers to bytes. How many bytes does a number take in fp32?",
        {f"{name}_bytes = 4 * ": f"{name}_bytes = " for name in TENSORS},
    ),
)
EDITS = (
    *_at(
        3,
        "Adam's running means are missing. Since when are they there in step 2?",
        {STATES: "4 * num_params, 8 * num_params"},
    ),
    *_at(
        3,
        "Your Adam keeps one number for each parameter. How many running means does it keep?",
        {STATES: "8 * num_params, 12 * num_params"},
    ),
    *_at(2, MISSING_GRADIENTS, {"16 * num_params": "12 * num_params"}),
    *_at(
        1,
        MISSING_GRADIENTS,
        {BACKWARD: "without_gradients + beside_gradients"},
        {STEP: "without_gradients + temporary_bytes"},
    ),
    *_at(
        1,
        "At the loss you have one tensor as large as the logits beside what is kept. Which "
        "gradient is made there, and from which other one?",
        {LOGITS: " + logits_bytes"},
    ),
    *_at(
        1,
        "At the loss you have what is kept and no more. Through which two tensors does the "
        "gradient come first?",
        {LOGITS: ""},
    ),
    *_at(
        1,
        "At the loss you have three tensors as large as the logits beside what is kept. Who "
        "still needs the logits when their log-softmax is there?",
        {LOGITS: f"{LOGITS} + logits_bytes"},
    ),
    *_at(
        1,
        "At the loss you have the gradient of the hidden states, too. From which gradient is it "
        "made, and is that one there before?",
        {LOGITS: f"{LOGITS} + hidden_bytes"},
    ),
    *_at(
        1,
        "At the end of the backward pass you still count a gradient as large as the logits. Who "
        "needed it last?",
        {BACKWARD: f"{BACKWARD} + logits_bytes"},
    ),
    *_at(
        1,
        "At the loss you have the gradients of all parameters. How many of them has the "
        "backward pass made by then?",
        {LOSS: "with_gradients + kept_bytes"},
    ),
    *_at(
        1,
        "At the loss you count nothing that was kept. How far has the backward pass come?",
        {LOSS: "without_gradients"},
    ),
    *_at(
        1,
        ONE_GRADIENT,
        {
            BACKWARD: "without_gradients + "
            "(3 * matrix_bytes if model.is_tied else matrix_bytes + hidden_bytes)"
        },
        {TIED: "3 * matrix_bytes - 4 * num_params if"},
    ),
    *_at(
        1,
        "For a tied embedding you have three matrices beside all gradients. Which of the "
        "three is among the gradients already?",
        {TIED: "3 * matrix_bytes if"},
    ),
    *_at(
        1,
        "At the end of the backward pass you have three matrices beside all gradients, tied or "
        "not. Which of them is among the gradients, and what is there where nothing is added "
        "up?",
        {BESIDE: "3 * matrix_bytes"},
    ),
    *_at(
        1,
        "For a tied embedding you have one part and the hidden states' gradient beside all "
        "gradients. How many parts are there, and is that gradient still needed?",
        {TIED: "matrix_bytes + hidden_bytes if"},
    ),
    *_at(
        1,
        "For an untied embedding you have a matrix beside all gradients. Is it not one of "
        "them already?",
        {UNTIED: "else matrix_bytes"},
    ),
    *_at(
        1,
        "For an untied embedding you have a matrix and the hidden states' gradient beside "
        "all gradients. Which of the two is one of them already?",
        {UNTIED: "else matrix_bytes + hidden_bytes"},
    ),
    *_at(
        1,
        "For an untied embedding you have nothing beside the gradients. From which tensor is "
        "its gradient made?",
        {UNTIED: "else 0"},
    ),
    *_at(
        1,
        "At the end of the backward pass you have the state and the gradients and no more. "
        "What is the embedding's gradient made from?",
        {BACKWARD: "with_gradients"},
    ),
    *_at(
        1,
        "You treat a tied embedding as an untied one. In how many places does the model use "
        "that matrix, and what does each of them give to its gradient?",
        {BESIDE: "hidden_bytes"},
    ),
    *_at(
        1,
        "You treat an untied embedding as a tied one. How many gradients does it add up?",
        {BESIDE: "2 * matrix_bytes"},
    ),
    *_at(
        1,
        "Tied and untied are the wrong way round. Which of the two adds up two gradients?",
        {"if model.is_tied": "if not model.is_tied"},
    ),
    *_at(
        1,
        "For a tied embedding you have one matrix more than its gradient. Two gradients are "
        "added: how many matrices are live while their sum is written?",
        {TIED: "matrix_bytes if"},
    ),
    *_at(
        1,
        "For a tied embedding you still count the hidden states' gradient while the sum is "
        "made. What was it needed for?",
        {TIED: "2 * matrix_bytes + hidden_bytes if"},
    ),
    *_at(
        2,
        KEPT_TO_THE_END,
        {BACKWARD: f"{BACKWARD} + kept_bytes", STEP: f"{STEP} + kept_bytes"},
    ),
    *_at(1, KEPT_TO_THE_END, {BACKWARD: f"{BACKWARD} + kept_bytes"}),
    *_at(1, KEPT_TO_THE_END, {STEP: f"{STEP} + kept_bytes"}),
    *_at(
        1,
        "Your optimizer's step has no temporaries. What does the last argument say?",
        {STEP: "with_gradients"},
    ),
    *_at(
        1,
        "Your temporaries are those of one of the three ways, whatever is used. What does the "
        "last argument say?",
        {STEP: "with_gradients + 2 * matrix_bytes"},
        {STEP: "with_gradients + 4 * num_params"},
    ),
)

# After the widths, those that go wrong at fewer moments are asked about first.
CHECK = Check(
    cases=peak_cases,
    judge=EqualTo(
        measured_peaks,
        *edited("u04-peak", (*WIDTHS, *sorted(EDITS, key=lambda edit: -edit.points))),
    ),
    fallback="course_utils.formulas.memory_over_time.live_at_candidates",
)
