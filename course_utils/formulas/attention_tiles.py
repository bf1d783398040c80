"""What attention in tiles moves between slow and fast memory, and which tiles a mask leaves.

One head: n queries, m keys, d numbers each, in tiles of ``block_q`` queries and ``block_k`` keys.
The unit is one number, not one byte.

Sources: Dao et al., "FlashAttention" (2022), section 3.2; Dao, "FlashAttention-2" (2023).
"""

from collections.abc import Mapping, Sequence

from course_utils.configs import BF16_BYTES

NAMES = ("dram_bytes", "l2_bytes", "dram_rate", "l2_rate")


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


def visited_tiles(num_queries: int, num_keys: int, block_q: int, block_k: int) -> int:
    """Tiles that hold at least one pair under a causal mask; the last query sees all keys."""
    earlier = num_keys - num_queries
    ends = (min(start + block_q, num_queries) for start in range(0, num_queries, block_q))
    return sum(num_tiles(end + earlier, block_k) for end in ends)


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


def attention_bounds(
    shape: Mapping[str, int], block_q: int, gpu: Mapping[str, int]
) -> dict[str, float]:
    """Bytes that attention in 16 bits moves, and the most FLOP/s, with an L2 cache and without.

    Without a cache keys and values come from device memory once for each tile of queries. With one
    they come once, where those of all heads in flight fit into it: tiles go out head by head, one
    to each multiprocessor. Products and bytes overlap; no pair is masked.

    Args:
        shape: ``batch``, ``heads``, ``kv_heads``, ``seq`` and ``head_dim``.
        block_q: Queries in a tile.
        gpu: ``peak`` in FLOP/s, ``bandwidth`` in bytes a second, ``l2_bytes`` and ``processors``.

    Returns:
        ``dram_bytes``, ``l2_bytes``, ``dram_rate`` and ``l2_rate``.

    Source:
        The order of tiles is that of FlashAttention-2's grid, with tiles of a head side by side.
    """
    heads, group = shape["batch"] * shape["heads"], shape["heads"] // shape["kv_heads"]
    tiles = num_tiles(shape["seq"], block_q)
    one_array = BF16_BYTES * shape["seq"] * shape["head_dim"]
    queries_and_results = 2 * heads * one_array
    dram = queries_and_results + 2 * heads * tiles * one_array
    in_flight = num_tiles(min(heads, num_tiles(gpu["processors"], tiles)), group)
    once = queries_and_results + 2 * heads // group * one_array
    cached = once if 2 * in_flight * one_array <= gpu["l2_bytes"] else dram
    flops = 4 * heads * shape["seq"] ** 2 * shape["head_dim"]
    rates = (min(gpu["peak"], flops / (moved / gpu["bandwidth"])) for moved in (dram, cached))
    return dict(zip(NAMES, (dram, cached, *rates), strict=True))
