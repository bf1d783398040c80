"""Kinds of cases that the exercises of unit 04 have for every seed."""

from autograder.exercises.u04.recorded import (
    is_higher_between,
    is_highest_at_the_end,
    is_kept,
    is_moved,
    is_untouched,
)
from autograder.exercises.u04.snapshot import counted
from course_utils.reference.allocator import CachingAllocator


def _between(case: dict) -> list[int]:
    """Live bytes after each change, though others of its moment follow."""
    live, lines = {}, []
    for _, category, num_bytes in case["changes"]:
        live[category] = num_bytes
        lines.append(sum(live.values()))
    return lines


def _wholes(case: dict) -> list[int]:
    """Live bytes after each moment."""
    return [
        *{at: n for (at, _, _), n in zip(case["changes"], _between(case), strict=True)}.values()
    ]


def _numbers(case: dict) -> list[int]:
    return [0] if isinstance(case["script"], str) else case["script"]


MIB = 2**20


def _requested(case: dict) -> list[int]:
    """Requested bytes in use after each request."""
    sizes = [request for request in case["script"] if request > 0]
    changes = [n if n > 0 else -sizes[-n - 1] for n in case["script"]]
    return [sum(changes[: number + 1]) for number in range(len(changes))]


def _levels(case: dict) -> tuple[int, int]:
    """Free bytes at the end, and those of them in segments with a block in use."""
    levels = CachingAllocator().play_script(case["script"])[-1]
    return levels.reserved_bytes - levels.allocated_bytes, levels.inactive_split_bytes


FEATURES = {
    "u04-timeline": {
        "a fix moves the peak": is_moved,
        "a fix lowers the peak where it is": is_kept,
        "a fix that is not live at the peak": is_untouched,
        "highest twice": lambda case: _wholes(case).count(max(_wholes(case))) > 1,
        "highest at the end": is_highest_at_the_end,
        "higher between two changes of a moment": is_higher_between,
        "two categories avoided": lambda case: len(case["avoided"]) > 1,
    },
    "u04-oom": {
        "step 1": lambda case: case["run"]["step"] == 1,
        "step 2": lambda case: case["run"]["step"] == 2,
        "a later step": lambda case: case["run"]["step"] > 2,
        "one layer checkpointed": lambda case: case["run"]["num_checkpointed"] == 1,
        "all layers checkpointed": lambda case: not case["live"]["layers"],
        "not half of the layers checkpointed": lambda case: (
            2 * case["run"]["num_checkpointed"] != case["run"]["num_layers"]
        ),
    },
    "u04-moments": {
        "first step, gradients freed": lambda case: case["step"] == 1 and case["is_grad_freed"],
        "first step, zeros": lambda case: case["step"] == 1 and not case["is_grad_freed"],
        "later step, gradients freed": lambda case: case["step"] > 2 and case["is_grad_freed"],
        "later step, zeros": lambda case: case["step"] > 1 and not case["is_grad_freed"],
        "one tensor": lambda case: case["num_tensors"] == 1,
        "many tensors": lambda case: case["num_tensors"] > 2,
    },
    "u04-peak": {
        "tied": lambda case: case["model"]["is_tied"],
        "untied": lambda case: not case["model"]["is_tied"],
        "grouped-query": lambda case: (
            case["model"].get("num_kv_heads", 1) < case["model"]["num_heads"]
        ),
        "two sequences": lambda case: case["num_tokens"] % 2 == 0,
        "odd length": lambda case: case["num_tokens"] % 2 == 1,
        "fused": lambda case: case["temporary_bytes"] == 0,
        "foreach": lambda case: case["temporary_bytes"] == 4 * case["num_params"],
    },
    "u04-repair-training": {
        f"{name}, {number}": lambda case, name=name, has=has: case["scenario"] == name and has(case)
        for name in ("loss", "confidence", "states")
        for number, has in {
            "one sequence": lambda case: case["num_sequences"] == 1,
            "several sequences": lambda case: case["num_sequences"] > 1,
            "training mode": lambda case: case["is_training"],
            "evaluation mode": lambda case: not case["is_training"],
            "a frozen head": lambda case: case["is_head_frozen"],
        }.items()
    }
    | {
        "a small first batch": lambda case: case["is_first_batch_small"],
        "gradients there before": lambda case: case["has_gradients"],
        "gradients there before a training": lambda case: (
            case["has_gradients"] and case["num_batches"]
        ),
        "another precision": lambda case: (
            case["scenario"] == "states" and case["precision"] == "float32"
        ),
        "a caller without recording": lambda case: not case["is_recording"],
        "an evaluation after training": lambda case: (
            case["scenario"] == "loss" and case["num_batches"]
        ),
        "more than three batches": lambda case: case["num_batches"] > 3,
    },
    "u04-allocator": {
        "segments side by side": lambda case: case["segments"] == "upwards",
        "segments from above": lambda case: case["segments"] == "downwards",
        "a traced training": lambda case: isinstance(case["script"], str),
        "exactly one MiB": lambda case: 2**20 in _numbers(case),
        "larger than a segment": lambda case: max(_numbers(case)) > 20 * 2**20,
    },
    "u04-snapshot": {
        "recorded late": lambda case: case["recorded_from"] > 0,
        "recorded from the start": lambda case: case["recorded_from"] == 0,
        "a block without frames": lambda case: "" in case["functions"],
        "a peak reached twice": lambda case: (
            _requested(case).count(max(_requested(case)[case["recorded_from"] :])) > 1
        ),
        "a segment wholly free": lambda case: _levels(case)[0] > _levels(case)[1],
        "some bytes trapped": lambda case: counted(**case)["trapped_bytes"] > 0,
    },
}
