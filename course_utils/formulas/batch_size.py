"""How is a batch split, how noisy is its gradient, and what does a larger batch buy?

Conventions: G is the gradient over all data, Σ the covariance of the gradients of single examples.
The gradient of a batch of B examples, drawn with replacement, has a mean squared distance of
``tr(Σ) / B`` from G; the simple noise scale ``tr(Σ) / |G|**2`` is the B at which noise and gradient
are equally large. Steps S and examples E = B S reach the same loss, each batch size at its best
learning rate.

    >>> estimate_noise(5.0, 3.0, 2, 4)["noise_scale"]
    8.0
    >>> steps_and_examples(100.0, 32.0, 32)
    {'steps': 200.0, 'examples': 6400.0}
    >>> num_steps([(0, 16), (40, 32)], 100)
    5

Sources: McCandlish et al. 2018, An Empirical Model of Large-Batch Training, sections 2.2 and 2.3,
appendix A.1; MiniMax 2025, MiniMax-01, batch size schedule.
"""

import math
from collections.abc import Sequence


def token_weights(lengths: Sequence[int], micro_batch_size: int) -> list[float]:
    """Weight of one token of each sequence in the mean of the micro-batches' means.

    ``1 / (tokens of its micro-batch * number of micro-batches)``.

    Args:
        lengths: Tokens of each sequence, none of them zero.
        micro_batch_size: Sequences b of a micro-batch; the last may be smaller.
    """
    starts = range(0, len(lengths), micro_batch_size)
    groups = [lengths[start : start + micro_batch_size] for start in starts]
    return [1 / (sum(group) * len(groups)) for group in groups for _ in group]


def configuration(
    global_batch_tokens: int, seq_len: int, num_devices: int, max_micro_batch: int
) -> dict[str, int]:
    """Micro-batch, accumulation and tokens of a step: B = b m d sequences, with the largest b.

    Every device gets the same number of sequences, as many as the tokens allow; b is the largest
    divisor of that number that fits.

    Args:
        global_batch_tokens: Most tokens of a step; at least one sequence for each device.
        seq_len: Tokens s of a sequence.
        num_devices: Devices d that share the batch.
        max_micro_batch: Sequences that fit on one device.

    Returns:
        ``micro_batch_size`` b, ``num_micro_batches`` m and ``tokens_per_step``.
    """
    per_device = global_batch_tokens // (seq_len * num_devices)
    sizes = range(min(max_micro_batch, per_device), 0, -1)
    b = next(size for size in sizes if per_device % size == 0)
    return {
        "micro_batch_size": b,
        "num_micro_batches": per_device // b,
        "tokens_per_step": num_devices * per_device * seq_len,
    }


def estimate_noise(
    small_squared_norm: float,
    big_squared_norm: float,
    small_batch_size: int,
    big_batch_size: int,
) -> dict[str, float]:
    """Unbiased estimates from the squared norms of two batches' gradients.

    On average ``|G_B|**2 = |G|**2 + tr(Σ) / B``: two batch sizes are two equations.

    Args:
        small_squared_norm: Of the gradient of a small batch, or a mean over several batches.
        big_squared_norm: Of the gradient of a large batch.
        small_batch_size: Examples b of the small batch.
        big_batch_size: Examples B of the large one.

    Returns:
        ``squared_norm`` of G, ``trace`` of Σ, and their ratio ``noise_scale``, which is infinite
        if the estimate of ``|G|**2`` is not positive. The ratio itself is biased.

    Source:
        McCandlish et al. 2018, appendix A.1.
    """
    b, big_b = small_batch_size, big_batch_size
    squared_norm = (big_b * big_squared_norm - b * small_squared_norm) / (big_b - b)
    trace = (small_squared_norm - big_squared_norm) * b * big_b / (big_b - b)
    noise_scale = trace / squared_norm if squared_norm > 0 else math.inf
    return {"squared_norm": squared_norm, "trace": trace, "noise_scale": noise_scale}


def steps_and_examples(
    min_steps: float, critical_batch_size: float, batch_size: float
) -> dict[str, float]:
    """Steps ``S = S_min (1 + B_c / B)`` to a loss, and examples ``E = B S``.

    They lie on the hyperbola ``(S / S_min - 1) (E / E_min - 1) = 1`` with ``E_min = B_c S_min``.

    Args:
        min_steps: Steps S_min that even the largest batch needs.
        critical_batch_size: B_c, in examples.
        batch_size: B, in examples.

    Source:
        McCandlish et al. 2018, section 2.3.
    """
    steps = min_steps * (1 + critical_batch_size / batch_size)
    return {"steps": steps, "examples": batch_size * steps}


def fit_tradeoff(batch_sizes: Sequence[float], steps: Sequence[float]) -> tuple[float, float]:
    """S_min and B_c of measured runs: fits the line ``S = S_min + E_min / B`` over 1 / B.

    Least squares of the *relative* deviations, so the many steps of small batches do not dominate.

    Args:
        batch_sizes: B of each run, at least two different ones.
        steps: S of each run.
    """
    # Divided by S, the line is 1 = S_min (1 / S) + E_min (1 / B S): solve the normal equations.
    rows = [(1 / s, 1 / (b * s)) for b, s in zip(batch_sizes, steps, strict=True)]
    ones, mixed, inverse = (
        math.fsum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1))
    )
    one, other = (math.fsum(row[i] for row in rows) for i in (0, 1))
    determinant = ones * inverse - mixed * mixed
    min_steps = (one * inverse - other * mixed) / determinant
    min_examples = (ones * other - mixed * one) / determinant
    return min_steps, min_examples / min_steps


def num_steps(schedule: Sequence[tuple[int, int]], total_tokens: int) -> int:
    """Optimizer steps of a run whose batch grows with the tokens seen.

    A step uses the batch of the stage in which it begins, even if it crosses into the next stage
    or beyond the end.

    Args:
        schedule: For each stage the tokens seen when it begins, 0 for the first, and its batch in
            tokens.
        total_tokens: The run ends once it has seen this many.
    """
    ends = [start for start, _ in schedule[1:]] + [total_tokens]
    seen = steps = 0
    for (_, batch_tokens), end in zip(schedule, ends, strict=True):
        count = max(0, -(-(min(end, total_tokens) - seen) // batch_tokens))
        steps += count
        seen += count * batch_tokens
    return steps
