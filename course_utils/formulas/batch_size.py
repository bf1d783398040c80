"""How is a batch put together, how noisy is its gradient, and what does a larger batch buy?

Conventions: G is the gradient over all data, Σ the covariance of the gradients of single examples.
A batch of B examples, drawn with replacement, has a gradient whose squared distance from G is
``tr(Σ) / B`` on average; the simple noise scale ``tr(Σ) / |G|**2`` is the B at which noise and
gradient are equally large. Steps S and examples E = B S are those that reach one loss, each batch
size at its best learning rate.

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
    """How much one token of each sequence counts in the mean of the micro-batches' means.

    One over the tokens of its micro-batch and over the number of micro-batches.

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
    """Micro-batch, accumulation and tokens of a step: B = b m d sequences, b as large as fits.

    Every device has the same number of sequences, as many as the tokens allow; b is their largest
    divisor that fits.

    Args:
        global_batch_tokens: Tokens that a step has at most, one sequence for each device or more.
        seq_len: Tokens s of a sequence.
        num_devices: Devices d that share the batch.
        max_micro_batch: Sequences that fit on one device.

    Returns:
        ``micro_batch_size`` b, ``num_micro_batches`` m and ``tokens_per_step``.
    """
    each = global_batch_tokens // (seq_len * num_devices)
    b = next(size for size in range(min(max_micro_batch, each), 0, -1) if each % size == 0)
    tokens = num_devices * each * seq_len
    return {"micro_batch_size": b, "num_micro_batches": each // b, "tokens_per_step": tokens}


def estimate_noise(
    small_squared_norm: float,
    big_squared_norm: float,
    small_batch_size: int,
    big_batch_size: int,
) -> dict[str, float]:
    """Unbiased estimates from the squared norms of two batches' gradients.

    On average ``|G_B|**2 = |G|**2 + tr(Σ) / B``: two batch sizes are two equations.

    Args:
        small_squared_norm: Of the gradient of a small batch, or a mean over several.
        big_squared_norm: Of a large one.
        small_batch_size: Examples b of the small batch.
        big_batch_size: Examples B of the large one.

    Returns:
        ``squared_norm`` of G, ``trace`` of Σ, and their ratio ``noise_scale``, which is infinite
        where the estimate of ``|G|**2`` is not positive. The ratio itself is biased.

    Source:
        McCandlish et al. 2018, appendix A.1.
    """
    gap = big_batch_size - small_batch_size
    squared_norm = big_batch_size * big_squared_norm - small_batch_size * small_squared_norm
    trace = small_squared_norm - big_squared_norm
    squared_norm, trace = squared_norm / gap, trace * small_batch_size * big_batch_size / gap
    noise_scale = trace / squared_norm if squared_norm > 0 else math.inf
    return {"squared_norm": squared_norm, "trace": trace, "noise_scale": noise_scale}


def steps_and_examples(
    min_steps: float, critical_batch_size: float, batch_size: float
) -> dict[str, float]:
    """Steps ``S_min (1 + B_c / B)`` to a loss, and examples ``B`` times as many.

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
    """S_min and B_c of measured runs: a straight line ``S = S_min + E_min / B`` over 1 / B.

    Least squares of the *relative* deviations, so that many steps of small batches do not decide
    alone.

    Args:
        batch_sizes: B of each run, two different ones at least.
        steps: S of each run.
    """
    rows = [(1 / s, 1 / (b * s)) for b, s in zip(batch_sizes, steps, strict=True)]
    ones, mixed, inverse = (
        math.fsum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1))
    )
    one, other = (math.fsum(row[i] for row in rows) for i in (0, 1))
    determinant = ones * inverse - mixed * mixed
    min_steps = (one * inverse - other * mixed) / determinant
    min_examples = (ones * other - mixed * one) / determinant
    return min_steps, min_examples / min_steps


def power_law(losses: Sequence[float], batch_sizes: Sequence[float]) -> dict[str, float]:
    """The law ``B = batch_at_loss_1 * loss**exponent`` by least squares in the logarithms.

    Args:
        losses: Of each point; two different ones at least.
        batch_sizes: B of each point.

    Returns:
        ``exponent`` and ``batch_at_loss_1``.
    """
    xs, ys = [math.log(each) for each in losses], [math.log(each) for each in batch_sizes]
    x_mean, y_mean = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    covariance = math.fsum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    exponent = covariance / math.fsum((x - x_mean) ** 2 for x in xs)
    return {"exponent": exponent, "batch_at_loss_1": math.exp(y_mean - exponent * x_mean)}


def num_steps(schedule: Sequence[tuple[int, int]], total_tokens: int) -> int:
    """Optimizer steps of a run whose batch grows with the tokens seen.

    A step takes the batch that is due when it begins, also where it crosses into the next stage or
    beyond the end.

    Args:
        schedule: For each stage the tokens seen at its beginning, the first 0, and its batch in
            tokens.
        total_tokens: The run ends once it has seen as many.
    """
    ends = [start for start, _ in schedule[1:]] + [total_tokens]
    seen = steps = 0
    for (_, batch_tokens), end in zip(schedule, ends, strict=True):
        count = max(0, -(-(min(end, total_tokens) - seen) // batch_tokens))
        steps += count
        seen += count * batch_tokens
    return steps
