"""What attention in tiles moves between slow and fast memory, and which tiles a mask leaves.

One head: n queries, m keys, d numbers each, in tiles of ``block_q`` queries and ``block_k`` keys.
The unit is one number, not one byte.

Sources: Dao et al., "FlashAttention" (2022), section 3.2; Dao, "FlashAttention-2" (2023).
"""

from collections.abc import Sequence


def num_tiles(num_rows: int, block: int) -> int:
    """Tiles of so many rows; the last may be smaller."""
    return -(-num_rows // block)


def attention_traffic(
    num_queries: int, num_keys: int, head_dim: int, block_q: int, block_k: int
) -> dict[str, int]:
    """Numbers that forward attention loads and stores, by program.

    ``"materialised"``: three kernels, with scores and weights (n, m) stored and loaded again.
    ``"k_outer"``: for each tile of keys all queries come by, and results go to and fro.
    ``"q_outer"``: for each tile of queries all keys and values come by.
    """
    n, m, d = num_queries, num_keys, head_dim
    q_tiles, k_tiles = num_tiles(n, block_q), num_tiles(m, block_k)
    streamed = 2 * q_tiles * m * d  # all keys and all values for each tile of queries
    return {
        "materialised": 2 * n * d + streamed + 4 * n * m,
        "k_outer": 2 * m * d + k_tiles * n * d + (2 * k_tiles - 1) * (n * d + n),
        "q_outer": 2 * n * d + n + streamed,
    }


def backward_traffic(
    num_queries: int, num_keys: int, head_dim: int, block_q: int, block_k: int
) -> int:
    """Numbers that the backward pass loads and stores, with keys outside.

    First the sums of ``grad_out * out``; then for each tile of keys all queries, their upstream
    gradients and two numbers each, while their gradients are loaded and stored.
    """
    n, m, d = num_queries, num_keys, head_dim
    first = 2 * n * d + n
    return first + 4 * m * d + num_tiles(m, block_k) * (4 * n * d + 2 * n)


def visited_tiles(num_queries: int, num_keys: int, block_q: int, block_k: int) -> int:
    """Tiles that hold at least one pair under a causal mask; the last query sees all keys."""
    earlier = num_keys - num_queries
    ends = (min(start + block_q, num_queries) for start in range(0, num_queries, block_q))
    return sum(num_tiles(end + earlier, block_k) for end in ends)


def best_block_q(num_queries: int, head_dim: int, capacity: int, block_k: int) -> int:
    """Queries in a tile for the least traffic in a fast memory; of several numbers the smallest.

    A tile takes ``2 block_q d + block_k d + block_q block_k + 3 block_q`` numbers: queries and
    result, keys or values, scores, and three numbers a row.
    """
    largest = (capacity - block_k * head_dim) // (2 * head_dim + block_k + 3)
    return num_tiles(num_queries, num_tiles(num_queries, min(largest, num_queries)))


def document_tiles(document_lengths: Sequence[int], block: int) -> dict[str, int]:
    """Square tiles of a causal mask over packed documents: those all open, and those partly open.

    A query sees the keys of its own document up to itself.
    """
    starts = [0]
    for length in document_lengths:
        starts.append(starts[-1] + length)
    total = starts.pop()
    document = [n for n, length in enumerate(document_lengths) for _ in range(length)]
    counts = {"full": 0, "partial": 0}
    for first_query in range(0, total, block):
        last_query = min(first_query + block, total) - 1
        for first_key in range(0, first_query + 1, block):
            last_key = min(first_key + block, total) - 1
            is_empty = document[last_key] != document[first_query] and (
                last_key < starts[document[first_query]]
            )
            is_full = last_key <= first_query and document[first_key] == document[last_query]
            if not is_empty:
                counts["full" if is_full else "partial"] += 1
    return counts
