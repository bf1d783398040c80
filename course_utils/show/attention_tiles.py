"""Attention in tiles: where a program stands between slow and fast memory, and what blocks cost."""

from typing import Any

from matplotlib.patches import Rectangle

from course_utils import colours
from course_utils.formulas.attention_tiles import attention_traffic
from course_utils.instruments import Move, TwoLevelMemory
from course_utils.show.picture import Picture, axes_beside, log_ticks

NOW, BEFORE = colours.ACTIVATIONS, colours.COMPUTED
STRIP = 0.09  # thickness of an array beside the scores, as a share of their side
GAP = 0.035

KINDS = {"load": colours.COMPUTE, "store": colours.COMMUNICATION}
PAST = {"load": "loaded", "store": "stored"}

Span = tuple[int, int]

MOST_GAINED = 18  # a little above 1 + 2 * 512 / 64, the largest of the explorer
BLOCK_SIZES = (16, 32, 64, 128, 256, 512)  # queries in a tile, along the axis
H100_SHARED_KIB = 227  # of one multiprocessor, that a block of threads can have
BITS_16 = 2  # bytes
ORDERS = {"q_outer": ("queries outside", "o-"), "k_outer": ("keys outside", "s:")}


def tile_walk(machine: TwoLevelMemory, step: int) -> Picture:
    """Where a program of attention stands after so many loads and stores.

    Args:
        machine: After a run on arrays named q, k, v, out and lse.
        step: Moves that are done, from 1.

    Raises:
        ValueError: If there is no such move.
    """
    if not 1 <= step <= len(machine.moves):
        raise ValueError(f"tile_walk: wants a step from 1 to {len(machine.moves)}, got {step}")
    done = machine.moves[:step]
    figure, (scores, fast) = axes_beside(3.7, (3, 2))
    _draw_slow_memory(scores, done, machine.moves)
    _draw_fast_memory(fast, machine, done)
    now = done[-1]
    room = "" if machine.capacity is None else f" of {machine.capacity:,}"
    caption = (
        f"Move {step}: {PAST[now.kind]} {now.array}, rows {now.rows[0]} to {now.rows[1] - 1}. "
        f"Tiles of scores begun: {len(_tiles(done, machine.moves))}, none of them stored; "
        f"{now.live_elements:,}{room} numbers in fast memory."
    )
    return Picture(figure, caption)


def _rows_of(moves: list[Move]) -> dict[str, int]:
    """Rows of each array."""
    rows: dict[str, int] = {}
    for each in moves:
        rows[each.array] = max(rows.get(each.array, 0), each.rows[1])
    return rows


def _tiles(done: list[Move], moves: list[Move]) -> list[tuple[Span, Span]]:
    """Tiles of scores that are made: one whenever the array of the inner loop is loaded.

    A tile counts when its keys and queries are there, though a program may make it a move later.
    """
    loads = [each.array for each in moves if each.kind == "load"]
    inner = "k" if loads.count("k") >= loads.count("q") else "q"
    current: dict[str, Span] = {}
    tiles = []
    for each in done:
        if each.kind == "load":
            current[each.array] = each.rows
            if each.array == inner and {"q", "k"} <= current.keys():
                tiles.append((current["q"], current["k"]))
    return tiles


def _draw_slow_memory(ax: Any, done: list[Move], moves: list[Move]) -> None:
    """The five arrays around the scores, which lie nowhere."""
    rows = _rows_of(moves)
    n, m = rows["q"], rows["k"]
    thick_x, thick_y, gap_x, gap_y = STRIP * m, STRIP * n, GAP * m, GAP * n
    at = {
        "q": (-gap_x - thick_x, 0.0, thick_x, n),
        "k": (0.0, -gap_y - thick_y, m, thick_y),
        "v": (0.0, -2 * (gap_y + thick_y), m, thick_y),
        "out": (m + gap_x, 0.0, thick_x, n),
        "lse": (m + 2 * gap_x + thick_x, 0.0, thick_x / 3, n),
    }
    for name, (x, y, width, height) in at.items():
        ax.add_patch(_box((x, y), width, height, facecolor="none", edgecolor=colours.NEUTRAL))
        is_flat = name in ("k", "v")
        for each in done:
            if each.array == name:
                first, length = each.rows[0], each.rows[1] - each.rows[0]
                place = (first, y) if is_flat else (x, first)
                size = (length, height) if is_flat else (width, length)
                colour = NOW if each is done[-1] else BEFORE
                ax.add_patch(_box(place, *size, facecolor=colour, edgecolor=colours.NEUTRAL))
        if is_flat:
            ax.text(-gap_x, y + height / 2, name, ha="right", va="center")
        else:
            ax.text(x + width / 2, n + gap_y, name, ha="center", va="top")
    tiles = _tiles(done, moves)
    in_work = len(tiles) if done[-1].kind == "load" else None
    for number, (queries, keys) in enumerate(tiles, 1):
        size = (keys[1] - keys[0], queries[1] - queries[0])
        colour = NOW if number == in_work else colours.IDLE
        look: Any = {"facecolor": colour, "alpha": 0.6, "edgecolor": colours.NEUTRAL}
        ax.add_patch(_box((keys[0], queries[0]), *size, **look))
    frame = {"facecolor": "none", "edgecolor": colours.NEUTRAL, "linestyle": ":"}
    ax.add_patch(_box((0, 0), m, n, **frame))
    ax.text(m / 2, n + gap_y, "scores are never stored here", ha="center", va="top")
    ax.set_xlim(-3 * gap_x - thick_x, m + 4 * gap_x + 2 * thick_x)
    ax.set_ylim(n + 4 * gap_y, -3 * (gap_y + thick_y))
    ax.set_title("slow memory: five arrays", fontsize=11)
    ax.set_axis_off()


def _box(place: tuple[float, float], width: float, height: float, **style: Any) -> Rectangle:
    return Rectangle(place, width, height, **{"linewidth": 1.0, **style})


def _draw_fast_memory(ax: Any, machine: TwoLevelMemory, done: list[Move]) -> None:
    """How full fast memory is, and what went in and out so far."""
    capacity = machine.capacity or machine.peak_elements
    live = done[-1].live_elements
    ax.barh([0], [live], height=0.5, color=NOW, alpha=0.8)
    ax.add_patch(_box((0, -0.25), capacity, 0.5, facecolor="none", edgecolor=colours.NEUTRAL))
    ax.text(capacity, 0.32, f"{capacity:,} fit", ha="right", va="bottom")
    sums = {kind: sum(_elements(each) for each in done if each.kind == kind) for kind in KINDS}
    for row, (kind, color) in enumerate(KINDS.items(), 1):
        total = machine.loaded_elements if kind == "load" else machine.stored_elements
        ax.barh([-row], [capacity * sums[kind] / machine.traffic_elements], height=0.4, color=color)
        ax.text(0, -row + 0.26, f"{PAST[kind]} {sums[kind]:,} of {total:,}", va="bottom")
    ax.text(0, 0.32, f"{live:,} numbers here", va="bottom")
    ax.set(xlim=(0, capacity * 1.02), ylim=(-2.4, 0.75))
    ax.set_title("fast memory: a few tiles", fontsize=11)
    ax.set_axis_off()


def _elements(move: Move) -> int:
    (first_row, end_row), (first_column, end_column) = move.rows, move.columns
    return (end_row - first_row) * (end_column - first_column)


def blocks_and_traffic(*, block_q: int, block_k: int, head_dim: int, seq_len: int) -> Picture:
    """What a tile takes of fast memory, and what one head moves in both orders, in 16-bit numbers.

    Args:
        block_q: Queries in a tile.
        block_k: Keys in a tile.
        head_dim: Numbers of a query.
        seq_len: Queries, and keys.
    """
    needed = 2 * block_q * head_dim + 2 * block_k * head_dim + block_q * block_k + 3 * block_q
    needed_kib = BITS_16 * needed / 2**10
    here = _times_less("q_outer", seq_len, head_dim, block_q, block_k)
    figure, (room, gain) = axes_beside(3.3, (2, 3))
    fits = needed_kib <= H100_SHARED_KIB
    colour = colours.ACTIVATIONS if fits else colours.WRONG
    room.barh([0], [min(needed_kib, 2 * H100_SHARED_KIB)], color=colour, height=0.5)
    room.plot([H100_SHARED_KIB] * 2, [-0.35, 0.75], color=colours.MEASURED, linestyle="--")
    room.text(H100_SHARED_KIB + 8, 0.6, f"{H100_SHARED_KIB} KiB there", va="center")
    room.text(0, -0.42, f"{needed_kib:,.0f} KiB needed{'' if fits else ': does not fit'}", va="top")
    room.set(xlim=(0, 2 * H100_SHARED_KIB), ylim=(-0.9, 0.9), yticks=[])
    room.set_xlabel("KiB of fast memory (one multiprocessor of an H100)")
    room.spines["left"].set_visible(False)
    for order, (name, line) in ORDERS.items():
        less = [_times_less(order, seq_len, head_dim, each, block_k) for each in BLOCK_SIZES]
        gain.plot(BLOCK_SIZES, less, line, color=colours.COMPUTED, label=name)
    gain.plot([block_q], [here], "o", color=colour, markersize=11)
    gain.axhline(1, color=colours.NEUTRAL)
    gain.set_ylim(0, MOST_GAINED)
    gain.legend(frameon=False, loc="upper center")
    log_ticks(gain, BLOCK_SIZES)
    gain.set_xlabel("queries in a tile (log scale)")
    gain.set_ylabel("times less than with scores in memory")
    moved = attention_traffic(seq_len, seq_len, head_dim, block_q, block_k)
    other = moved["k_outer"] / moved["q_outer"]
    caption = (
        f"Tiles of {block_q} queries and {block_k} keys take {needed_kib:,.0f} KiB and move "
        f"{BITS_16 * moved['q_outer'] / 1e6:,.1f} MB a head, {here:.1f} times less than with "
        f"scores in slow memory; with keys in the outer loop {other:.2f} times as much."
    )
    return Picture(figure, caption)


def _times_less(order: str, seq_len: int, head_dim: int, block_q: int, block_k: int) -> float:
    moved = attention_traffic(seq_len, seq_len, head_dim, block_q, block_k)
    return moved["materialised"] / moved[order]
