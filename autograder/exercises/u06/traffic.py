"""Check of the traffic of two programs, against the machine that runs them."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=traffic_cases,
    judge=EqualTo(
        measured,
        *mistakes_of("u06-traffic"),
        questions=questions_of("u06-traffic"),
    ),
    fallback="course_utils.formulas.attention_tiles.attention_traffic",
)
