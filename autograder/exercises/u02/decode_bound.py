"""Check of the tokens per second that decoding can reach."""

import random
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, each_also, edited
from autograder.exercises.u02.shared.sizes import COUNTERS, LLAMA_8B
from autograder.exercises.u02.step_bytes import WORKED, moved_by
from course_utils.configs import device
from course_utils.formulas.parameters import parameters
from course_utils.instruments import fake_tensors

FOUR_LAYERS = LLAMA_8B | {"num_layers": 4}
NARROW = {
    **{"num_layers": 3, "hidden_size": 2048, "num_heads": 32, "num_kv_heads": 8},
    **{"ffn_size": 8192, "vocab_size": 128256},
}
MULTI_HEAD = NARROW | {"num_kv_heads": 32, "head_dim": 80}
MODELS = (FOUR_LAYERS, NARROW, MULTI_HEAD)
DEVICES = ("A100-80", "H100-SXM", "H200", "A100-40")


def bound_cases(seed: int) -> list[Case]:
    """Memory-bound and compute-bound; short and long contexts; caches that do not fit.

    Batches on both sides of what memory holds: one sequence more and two, which is what the
    embedding's room would take.
    """
    rng = random.Random(seed)
    cases = [_case(WORKED, "A100-80", 2, 3), _case(LLAMA_8B, "A100-80", 1, rng.randint(200, 300))]
    for model, name in ((FOUR_LAYERS, rng.choice(DEVICES)), (MULTI_HEAD, "A100-80")):
        context = _telling_context(rng, model, name)
        most = _most_sequences(model, name, context)
        cases += [_case(model, name, n, context) for n in (most, most + 1, most + 2, most + 14)]
    cases += [_case(NARROW, each, 1024, rng.randint(50, 70)) for each in DEVICES]
    for number in range(12):
        batch = (1, rng.randint(2, 16), rng.randint(17, 64))[number // 3 % 3]
        context = rng.choice((1, 255, 1000)) * rng.randint(1, 4)
        cases.append(_case(MODELS[number % 3], DEVICES[number % 4], batch, context))
    return [*cases, _case(MULTI_HEAD, "H100-SXM", rng.randint(300, 500), 32768)]


def _most_sequences(model: dict[str, Any], hardware: str, context: int) -> int:
    """How many sequences fit, each with its cache of the context and of the new token."""
    sizes = model_of(model)
    of_parameters = 2 * sum(parameters(sizes).values())
    cached = sizes.num_layers * sizes.num_kv_heads * sizes.head_dim * (context + 1)
    return (device(hardware).memory_bytes - of_parameters) // (2 * 2 * cached)


def _telling_context(rng: random.Random, model: dict[str, Any], hardware: str) -> int:
    """One that leaves no room for the new token of one sequence more."""
    while True:
        context = rng.randint(7000, 8192)
        if _most_sequences(model, hardware, context) < _most_sequences(
            model, hardware, context - 1
        ):
            return context


def _case(model: dict[str, Any], hardware: str, num_sequences: int, context: int) -> Case:
    return {
        **{"model": model, "hardware": hardware},
        **{"num_sequences": num_sequences, "context": context},
    }


def counted_rate(model: dict[str, Any], hardware: str, num_sequences: int, context: int) -> float:
    """From bytes and FLOPs that are counted while one step of decoding runs on fake tensors."""
    chip = device(hardware)
    with fake_tensors():
        moved, held_bytes = moved_by(model, num_sequences, context, "decode")
    if held_bytes > chip.memory_bytes:
        return 0.0
    num_bytes = sum(sum(moved.of(owner)) for owner in ("weights", "cache"))
    seconds = max(
        moved.flops / chip.dense_flops_per_second("bf16"),
        num_bytes / chip.bandwidth_bytes_per_second,
    )
    return num_sequences / seconds


FITS = "if held > hardware.memory_bytes:"
WEIGHTS, CACHE = "2 * (read + num_sequences * h)", "4 * layers * cached * num_sequences"
FLOPS = "flops = 2 * num_sequences * products + core"
RATE = "num_sequences / max(computing, moving)"
BANDWIDTH = "hardware.bandwidth_bytes_per_second"
HELD, MOVED = "held += cache * (context + 1)", "moved += cache * (context + 2)"
NEW_TOKEN = "The new token is missing somewhere. What does a step write, read and multiply for it?"
ONE_MOVE, NO_MOVE = (
    {MOVED: f"moved += cache * {tokens}"} for tokens in ("(context + 1)", "context")
)
NO_PRODUCTS = {"heads * (context + 1)": "heads * context"}
NO_ROOM = {HELD: "held += cache * context"}
EDITS = (
    Edit(
        "That is the rate of steps. How many tokens does one step give?",
        {RATE: "1 / max(computing, moving)"},
    ),
    Edit("Those are seconds. What does the exercise ask for?", {RATE: "max(computing, moving)"}),
    Edit(
        "You add both times. Does a step compute only when everything has been read?",
        {RATE: "num_sequences / (computing + moving)"},
    ),
    Edit(
        "Your step waits for its arithmetic alone. How long does the memory take for it?",
        {RATE: "num_sequences / computing"},
    ),
    Edit(
        "Your step waits for the memory alone. With many short sequences, what takes longer?",
        {RATE: "num_sequences / moving"},
    ),
    Edit(
        "Your weights are read once for each sequence. How many sequences share one read?",
        {f"moved = {WEIGHTS}": "moved = 2 * num_sequences * (read + h)"},
    ),
    Edit(
        "You read the whole embedding in each step. Which of its rows are looked up?",
        {f"moved = {WEIGHTS}": "moved = 2 * (read + model.vocab_size * h)"},
    ),
    Edit(
        "Your cache is that of one sequence. Whose keys does each of the others read?",
        {f"cache = {CACHE}": "cache = 4 * layers * cached"},
    ),
    Edit(
        "You let in sequences that do not fit. Which table lies in memory though a step reads few "
        "of its rows?",
        {"held = 2 * (read + model.vocab_size * h)": "held = 2 * read"},
    ),
    Edit(
        "You let in one sequence too many. Where do the keys and values of the new token go?",
        NO_ROOM,
    ),
    *each_also(
        (
            Edit(NEW_TOKEN, NO_PRODUCTS),
            *each_also((Edit(NEW_TOKEN, ONE_MOVE), Edit(NEW_TOKEN, NO_MOVE)), NO_PRODUCTS),
        ),
        NO_ROOM,
    ),
    Edit(
        "Your peak is the one with sparsity. Which half of these weights is zero?",
        {"hardware.dense_flops": "hardware.sparse_flops"},
    ),
    *(
        Edit(
            "You count two FLOPs per parameter. Which of them are looked up, and which only "
            "scale a number?",
            {FLOPS: f"flops = 2 * num_sequences * {parameters} + core"},
        )
        for parameters in ("(read + model.vocab_size * h)", "read")
    ),
    Edit(
        "The products with the cache are too few. How many heads look at each cached key?",
        {"core = 4 * layers * heads": "core = 4 * layers * cached"},
    ),
    Edit(
        "A multiply-and-add is one operation in your count. How many does the peak take it for?",
        {FLOPS: "flops = num_sequences * products + core"},
    ),
    Edit(
        "Your device has more memory than its data sheet says. Are its bytes counted in powers of "
        "two or of ten?",
        {FITS: "if held > hardware.memory_bytes * 2**30 / 10**9:"},
    ),
    *(
        Edit(
            "Your bandwidth is off by 7 per cent. Are a data sheet's GB/s counted in powers of two "
            "or of ten?",
            {BANDWIDTH: f"({BANDWIDTH} {factor})"},
        )
        for factor in ("/ 10**9 * 2**30", "/ 2**30 * 10**9")
    ),
    Edit(
        "Somewhere nothing fits, and you decode all the same. Where do all these caches lie?",
        {FITS: "if False:"},
    ),
)

CHECK = Check(
    cases=bound_cases,
    judge=EqualTo(counted_rate, *edited("u02-decode-bound", EDITS), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.roofline.decode_tokens_per_second",
    answers=COUNTERS,
)
