"""Check of the traffic of the backward pass, against the machine that runs it."""

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
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


CHECK = Check(
    cases=backward_cases,
    judge=EqualTo(measured, *mistakes_of("u06-backward-traffic")),
    fallback="course_utils.formulas.attention_tiles.backward_traffic",
)
