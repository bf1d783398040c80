"""Check of the traffic of the backward pass, against the machine that runs it."""

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u06 import traffic
from course_utils.instruments import Machine
from course_utils.reference.tiled_attention import flash_backward


def backward_cases(seed: int) -> list[Case]:
    """As those of the forward pass."""
    return traffic.traffic_cases(seed)


def measured(num_queries: int, num_keys: int, head_dim: int, block_q: int, block_k: int) -> int:
    """Loads and stores of the backward pass on a machine with sizes alone."""
    queries, keys, rows = (num_queries, head_dim), (num_keys, head_dim), (num_queries,)
    # q, k, v, out, lse, gradient of out, delta, gradients of q, k and v
    shapes = [queries, keys, keys, queries, rows, queries, rows, queries, keys, keys]
    machine = Machine(device="meta")
    arrays = [machine.slow(torch.empty(each, device="meta")) for each in shapes]
    flash_backward(machine, arrays, block_q, block_k)
    return machine.traffic_elements


# Places of the model answer.
FIRST, STAY = "2 * n * d + n", "4 * m * d"
STREAM, TILES = "4 * n * d + 2 * n", "-(-m // block_k)"

EDITS = (
    Edit(
        "The first kernel is missing. What does it load, and what does it store, to get one "
        "number for each row?",
        {FIRST: "0"},
    ),
    Edit(
        "The first kernel loads two arrays and stores one number for each row. Which part of that "
        "is not in your sum?",
        {FIRST: "2 * n * d"},
    ),
    Edit(
        "Keys and values are loaded. Which two arrays of their shape are stored?",
        {STAY: "2 * m * d"},
    ),
    Edit(
        "The gradient of the queries grows with each tile of keys. Is it there when the next tile "
        "comes, or has it to be loaded first?",
        {STREAM: "3 * n * d + 2 * n"},
    ),
    Edit(
        "At the first tile of keys the gradient of the queries is zero. Where are these zeros, and "
        "does the program know that they are?",
        {"return delta": "return -n * d + delta"},
    ),
    Edit(
        "Two numbers for each query come by with every tile of keys. Which two?",
        {STREAM: "4 * n * d"},
    ),
    Edit(
        "One of the two numbers that come by with each query is missing. Which two does a tile "
        "of dS need?",
        {STREAM: "4 * n * d + n"},
    ),
    Edit(
        "For each tile of keys, four arrays with a row for each query move. Which ones?",
        {STREAM: "2 * n * d + 2 * n"},
    ),
    Edit(
        "Right where tiles divide the keys. How many tiles cover five keys, two at a time?",
        {TILES: "m // block_k"},
    ),
    Edit(
        "One tile too many where tiles divide the keys. How many tiles of two cover four keys?",
        {TILES: "m // block_k + 1"},
    ),
    Edit(
        "The outer loop goes over keys here. Whose block size says how many turns it makes?",
        {TILES: "-(-n // block_q)"},
    ),
)

CHECK = Check(
    cases=backward_cases,
    judge=EqualTo(measured, *edited("u06-backward-traffic", EDITS)),
    fallback="course_utils.formulas.attention_tiles.backward_traffic",
)
