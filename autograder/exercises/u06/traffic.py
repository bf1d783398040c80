"""Check of the traffic of two programs, against the machine that runs them."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from course_utils.instruments import Machine
from course_utils.reference import tiled_attention

NAMES = ("num_queries", "num_keys", "head_dim", "block_q", "block_k")
# One tile after the other of a head that no memory holds: more numbers than a float can count.
BEYOND_A_FLOAT = (2**28 + 1, 2**30 + 3, 2**22 + 1, 2**26, 2**29)


def traffic_cases(seed: int) -> list[Case]:
    """Whole and ragged tiles, one tile for all, few and many keys; one head beyond a float."""
    rng = random.Random(seed)
    times, short = rng.randint(2, 9), rng.randint(3, 8)
    sizes = [(2, 3, 1, 1, 2), (4 * times, 4 * times, 2, 4, 2), (6 * times, 3 * times, 3, 3, 3)]
    sizes.append((short, rng.randint(3, 7), 2, 9, 8))
    while len(sizes) < 21:
        sizes.append(
            (
                rng.randint(3, 24),
                rng.randint(3, 24),
                rng.randint(1, 9),
                rng.randint(3, 8),
                rng.randint(3, 8),
            )
        )
    sizes.append((17, 13, rng.randint(5, 30), 4, 3))
    num_queries, num_keys, head_dim, block_q, block_k = BEYOND_A_FLOAT
    sizes.append((num_queries + 4 * rng.randint(0, 99), num_keys, head_dim, block_q, block_k))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured(
    num_queries: int, num_keys: int, head_dim: int, block_q: int, block_k: int
) -> dict[str, int]:
    """Loads and stores of both programs on a machine with sizes alone."""
    n, m, d = num_queries, num_keys, head_dim
    shapes = {
        "q": (n, d),
        "k": (m, d),
        "v": (m, d),
        "out": (n, d),
        "lse": (n,),
        "scores": (n, m),
        "weights": (n, m),
    }
    programs = {
        "q_outer": (tiled_attention.flash_forward, "q k v out lse"),
        "materialised": (tiled_attention.materialised_forward, "q k v scores weights out"),
    }
    moved = {}
    for name, (program, arrays) in programs.items():
        machine = Machine(device="meta")
        tensors = [torch.empty(shapes[each], device="meta") for each in arrays.split()]
        program(machine, [machine.slow(each) for each in tensors], block_q, block_k)
        moved[name] = machine.traffic_elements
    return moved


# Places of the model answer.
Q_TILES = "-(-n // block_q)"
ALL_ROWS = "n, m, d = num_queries, num_keys, head_dim"
WHOLE_TILES = (
    "n, m, d = -(-num_queries // block_q) * block_q, -(-num_keys // block_k) * block_k, head_dim"
)
BOTH, IN_AND_OUT = "keys_and_values = 2 * m * d", "queries_and_results = 2 * n * d"
FLASH = "queries_and_results + n + q_tiles * keys_and_values"
THREE = "queries_and_results + q_tiles * keys_and_values + 4 * scores"

ROUNDED_DOWN = (
    "Right where tiles divide the sequence. How many tiles cover five rows, two at a time?"
)
NOT_WHOLE = "Not every tile is whole. How many rows does the last tile have?"
EDITS = (
    Edit(
        ROUNDED_DOWN,
        {Q_TILES: "n // block_q"},
    ),
    Edit(
        "One tile too many where tiles divide the sequence. How many tiles of two cover four rows?",
        {Q_TILES: "n // block_q + 1"},
    ),
    Edit(
        "In your count, `block_k` decides how often keys and values are loaded. Does a smaller "
        "tile of keys load any key twice?",
        {Q_TILES: "-(-m // block_k)"},
    ),
    Edit(
        "What besides the keys does a tile of queries have to see?",
        {BOTH: "keys_and_values = m * d"},
    ),
    Edit(
        "In yours, `q_outer` loads keys and values once. How many tiles of queries need to see "
        "them?",
        {FLASH: "queries_and_results + n + keys_and_values"},
        points=1.5,
    ),
    Edit(
        "`q_outer` stores a result and one more number per query. Where is that number?",
        {FLASH: "queries_and_results + q_tiles * keys_and_values"},
        points=1.5,
    ),
    Edit(
        "In `q_outer`, queries stay in fast memory while keys come by. How often are they loaded?",
        {FLASH: "-(-m // block_k) * n * d + n * d + n + q_tiles * keys_and_values"},
        points=1.5,
    ),
    *(
        Edit(
            "`q_outer` makes a tile of scores and discards it. Which n · m numbers does it store?",
            {FLASH: f"{FLASH} + {times} * scores"},
            points=1.5,
        )
        for times in (2, 4)
    ),
    Edit(
        NOT_WHOLE,
        {FLASH: "2 * q_tiles * block_q * d + n + q_tiles * 2 * -(-m // block_k) * block_k * d"},
        points=1.5,
    ),
    Edit(
        NOT_WHOLE,
        {ALL_ROWS: WHOLE_TILES},
    ),
    Edit(
        "The first kernel loads each tile of queries once. How many queries are in all tiles "
        "together?",
        {THREE: "n * d + q_tiles * n * d + q_tiles * keys_and_values + 4 * scores"},
        points=1.5,
    ),
    Edit(
        "Scores are stored by the first kernel. Who loads them, who stores weights, and who loads "
        "those?",
        {THREE: THREE.replace("4 * scores", "2 * scores")},
        points=1.5,
    ),
    Edit(
        "The second kernel reads scores and writes weights. Does the third one read either?",
        {THREE: THREE.replace("4 * scores", "3 * scores")},
        points=1.5,
    ),
    Edit(
        "The three kernels keep no log-sum-exp. Which array of theirs has one number for each "
        "query?",
        {THREE: f"{THREE} + n"},
        points=1.5,
    ),
    *(
        Edit(
            "In the three kernels every tile of queries makes scores with all keys, and every tile "
            "of weights needs values. How often is each of the two loaded?",
            {THREE: THREE.replace("q_tiles * keys_and_values", some)},
            points=1.5,
        )
        for some in ("keys_and_values", "(q_tiles + 1) * m * d")
    ),
    Edit(
        "Bytes or numbers: which unit does the exercise ask for?",
        {
            f'"q_outer": {FLASH}': f'"q_outer": 2 * ({FLASH})',
            f'"materialised": {THREE}': f'"materialised": 2 * ({THREE})',
        },
    ),
)

CHECK = Check(
    cases=traffic_cases,
    judge=EqualTo(
        measured,
        *edited("u06-traffic", EDITS),
        questions={
            "q_outer": "Queries stay while keys and values come by. What moves once, and what once "
            "for each tile of queries?",
            "materialised": "Three kernels, one after the other. What does each of them load, and "
            "what does it store?",
        },
    ),
    fallback="course_utils.formulas.attention_tiles.attention_traffic",
)
