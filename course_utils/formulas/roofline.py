"""How long must an operation take, by what it computes and by what it moves?

A device computes at most so many FLOP/s and moves at most so many bytes/s. An operation waits for
the slower of the two; operations that run one after the other add up. The *ridge* is the intensity,
FLOPs for each byte, at which both take the same time.

    >>> product_bytes(rows=7, inner=3, columns=5, element_bytes=2)
    142
    >>> roofline_seconds([[2e9, 4e6], [0, 5e8], [3e10, 2e8]], 1e12, 1e11)
    0.037

Conventions: each operation reads every input once and writes every output once; a table's rows only
where they are looked up. Letters: b sequences of s tokens, h hidden size, a query heads, a_kv key
and value heads, d head dimension, f feed-forward size, v vocabulary, L layers.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for
multicore architectures" (2009).
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, inf

from course_utils.configs import BF16_BYTES, Device, ModelConfig
from course_utils.configs.validation import require_positive
from course_utils.formulas.flops import forward_flops
from course_utils.formulas.parameters import parameters


def product_bytes(rows: int, inner: int, columns: int, element_bytes: int) -> int:
    """Bytes that one matrix product must move: ``e (m k + k n + m n)``.

    Args:
        rows: Rows m of the first factor; in a linear layer the number of tokens.
        inner: The size k that is summed over.
        columns: Columns n of the second factor.
        element_bytes: Bytes e of a number, the same in all three matrices.

    Returns:
        Both factors read and the result written, once each.
    """
    require_positive("product_bytes", rows=rows, inner=inner, columns=columns)
    return element_bytes * (rows * inner + inner * columns + rows * columns)


def fewest_tokens(
    inner: int, columns: int, element_bytes: int, flops_per_second: int, bytes_per_second: int
) -> int | float:
    """Fewest rows with which a product reaches the ridge R: ``R e k n / (2 k n - R e (k + n))``.

    Rounded up; infinite where the intensity stays below the ridge, however many rows there are.

    Args:
        inner: The size k that is summed over.
        columns: Columns n of the weight.
        element_bytes: Bytes e of a number.
        flops_per_second: Dense peak of the device in this format.
        bytes_per_second: Bandwidth of its memory.
    """
    ridge = Fraction(flops_per_second, bytes_per_second)
    left_over = 2 * inner * columns - ridge * element_bytes * (inner + columns)
    if left_over <= 0:
        return inf
    return ceil(ridge * element_bytes * inner * columns / left_over)


def roofline_seconds(
    operations: Sequence[Sequence[float]], flops_per_second: float, bytes_per_second: float
) -> float:
    """Seconds of operations one after the other, each at its roof.

    Args:
        operations: Pairs of FLOPs and bytes.
        flops_per_second: Peak of the device.
        bytes_per_second: Bandwidth of its memory.

    Returns:
        Of each operation the longer of its two times, added up.
    """
    return math.fsum(
        max(flops / flops_per_second, num_bytes / bytes_per_second)
        for flops, num_bytes in operations
    )


def step_bytes(model: ModelConfig, num_sequences: int, seq_len: int, phase: str) -> dict[str, int]:
    """Bytes of weights and of the cache that one step moves, in bf16.

    Weights that multiply are read once for the whole batch, in training once more for the gradient
    of the inputs; of the embedding the rows of the tokens. Untied Llamas.

    Args:
        model: Sizes.
        num_sequences: Sequences b.
        seq_len: Tokens s of each: of the prompt, in the cache before the new token, or trained on.
        phase: ``"prefill"``, ``"decode"`` (one more token of each sequence) or ``"train"``.

    Returns:
        ``weights``, ``cache_read`` and ``cache_written``.
    """
    h, cached = model.hidden_size, model.num_kv_heads * model.head_dim
    parts = parameters(model)
    read_whole = sum(parts.values()) - parts["embedding"]
    new_tokens = num_sequences * (1 if phase == "decode" else seq_len)
    times = 2 if phase == "train" else 1
    token_bytes = 2 * BF16_BYTES * model.num_layers * cached  # keys and values
    seen = num_sequences * (seq_len + 1 if phase == "decode" else seq_len)
    is_cached = phase != "train"
    return {
        "weights": BF16_BYTES * (times * read_whole + new_tokens * h),
        "cache_read": token_bytes * seen * is_cached,
        "cache_written": token_bytes * new_tokens * is_cached,
    }


def decode_tokens_per_second(
    model: ModelConfig, hardware: Device, num_sequences: int, context: int
) -> float:
    """Tokens per second of decoding that a device can reach at best, in bf16.

    A step moves weights and cache and computes its products; nothing else counts.

    Returns:
        Tokens of all sequences together; zero where parameters and cache do not fit.
    """
    if decode_memory_bytes(model, num_sequences, context) > hardware.memory_bytes:
        return 0.0
    operation = (
        decode_flops(model, num_sequences, context),
        decode_bytes(model, num_sequences, context),
    )
    seconds = roofline_seconds(
        [operation],
        hardware.dense_flops_per_second("bf16"),
        hardware.bandwidth_bytes_per_second,
    )
    return num_sequences / seconds


def decode_memory_bytes(model: ModelConfig, num_sequences: int, context: int) -> int:
    """Bytes of all parameters and of the cache with the new token, in bf16."""
    cache = step_bytes(model, num_sequences, context, "decode")["cache_read"]
    return BF16_BYTES * sum(parameters(model).values()) + cache


def decode_bytes(model: ModelConfig, num_sequences: int, context: int) -> int:
    """Bytes of weights and cache that one step of decoding reads and writes, in bf16."""
    return sum(step_bytes(model, num_sequences, context, "decode").values())


def decode_flops(model: ModelConfig, num_sequences: int, context: int) -> int:
    """FLOPs of one new token of each sequence, which attends to the context and to itself."""
    one = forward_flops(model, num_sequences, 1)
    return sum(one.values()) + context * one["attention"]


def training_products(model: ModelConfig, seq_len: int) -> Iterator[tuple[int, int, int, int]]:
    """Sizes of the matrix products of training on one sequence, and how often each runs.

    A product of forward (m, k) (k, n) is followed by two of backward, for the gradients of its
    factors. Attention is materialised.
    """
    s, h, d = seq_len, model.hidden_size, model.head_dim
    queries, keys = model.num_heads * d, model.num_kv_heads * d
    num_layers, num_cores = model.num_layers, model.num_layers * model.num_heads
    forward = (
        *((s, h, queries, num_layers), (s, h, keys, 2 * num_layers), (s, queries, h, num_layers)),
        *((s, h, model.ffn_size, 2 * num_layers), (s, model.ffn_size, h, num_layers)),
        *((s, d, s, num_cores), (s, s, d, num_cores), (s, h, model.vocab_size, 1)),
    )
    for m, k, n, times in forward:
        yield from ((m, k, n, times), (m, n, k, times), (k, m, n, times))


def epoch_seconds(
    load_seconds: float, step_seconds: float, num_workers: int, num_batches: int
) -> float:
    """Seconds of an epoch whose batches are loaded by workers in turn, ahead of the steps.

    The last wait is for some batch i, which its worker has made as its (i // w + 1)-th; all steps
    from there on follow without a wait.
    """
    return max(
        (i // num_workers + 1) * load_seconds + (num_batches - i) * step_seconds
        for i in range(num_batches)
    )
