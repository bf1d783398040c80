"""Answer bank of unit 04: the reader of memory snapshots."""

from autograder.exercises.u04 import counted
from course_utils.reference.allocator import CachingAllocator
from tests.answer_bank import AnswerBank, Wrong


def _reader(**changes: str) -> str:
    parts = {
        "start": "sum(b['requested_size'] for b in blocks if b['state'] == 'active_allocated')",
        "is_free": "b['state'] == 'inactive'",
    } | changes
    return f"""
    def read_snapshot(snapshot):
        events = snapshot["device_traces"][0]
        blocks = [b for segment in snapshot["segments"] for b in segment["blocks"]]
        # backwards: from what is in use at the end
        live = {parts["start"]}
        peak, at = -1, -1
        for number in reversed(range(len(events))):
            event = events[number]
            if live >= peak:
                peak, at = live, number
            if event["action"] == "alloc":
                live -= event["size"]
            if event["action"] == "free_requested":
                live += event["size"]
        freed, held = set(), {{}}
        for event in reversed(events[: at + 1]):
            if event["action"] == "free_requested":
                freed.add(event["addr"])
            elif event["action"] == "alloc":
                if event["addr"] in freed:
                    freed.remove(event["addr"])
                else:
                    own = [f["name"] for f in event["frames"] if "torch/" not in f["filename"]]
                    held.setdefault((own or [None])[0], []).append(event["size"])
        held.pop(None, None)
        trapped = sum(
            b["size"]
            for segment in snapshot["segments"]
            for b in segment["blocks"]
            if {parts["is_free"]} and segment["allocated_size"] > 0
        )
        return {{
            "trapped_bytes": trapped,
            "holder_bytes": max(map(sum, held.values()), default=0),
            "peak_event": at,
            "peak_bytes": peak,
        }}
    """


SNAPSHOT = AnswerBank(
    function="read_snapshot",
    wrong=[
        Wrong(
            "nothing of the events",
            """
            def read_snapshot(snapshot):
                return {
                    "peak_bytes": sum(s["total_size"] for s in snapshot["segments"]),
                    "peak_event": -1,
                    "holder_bytes": 0,
                    "trapped_bytes": 0,
                }
            """,
            "which events change it",
        ),
        Wrong(
            "rounded sizes at the end, backwards",
            _reader(start="sum(s['allocated_size'] for s in snapshot['segments'])"),
            "size rounded up",
            1.5,
        ),
    ],
    right=[
        _reader(),
        _reader(is_free="b['state'] != 'active_allocated'"),
        """
        from collections import Counter
        from itertools import accumulate

        def read_snapshot(snapshot):
            (events,) = snapshot["device_traces"]
            signs = {"alloc": 1, "free_requested": -1}
            changes = [signs.get(e["action"], 0) * e["size"] for e in events]
            used = sum(s["requested_size"] for s in snapshot["segments"])
            line = list(accumulate(changes, initial=used - sum(changes)))
            at = max(range(1, len(line)), key=lambda n: (line[n], -n))
            holders, who = Counter(), {}
            for event, change in zip(events[:at], changes):
                if change > 0:
                    frames = event["frames"]
                    while frames and "site-packages/torch/" in frames[0]["filename"]:
                        frames = frames[1:]
                    if frames:
                        who[event["addr"]] = frames[0]["name"]
                if change and event["addr"] in who:
                    holders[who[event["addr"]]] += change
                if change < 0:
                    who.pop(event["addr"], None)
            parts = [s for s in snapshot["segments"] if s["active_size"]]
            return {
                "peak_bytes": line[at],
                "peak_event": at - 1,
                "holder_bytes": max(holders.values(), default=0),
                "trapped_bytes": sum(s["total_size"] - s["active_size"] for s in parts),
            }
        """,
    ],
    features={
        "recorded late": lambda case: case["recorded_from"] > 0,
        "recorded from the start": lambda case: case["recorded_from"] == 0,
        "a block without frames": lambda case: "" in case["functions"],
        "a peak reached twice": lambda case: (
            _line(case).count(max(_line(case)[case["recorded_from"] :])) > 1
        ),
        "a segment wholly free": lambda case: _levels(case)[0] > _levels(case)[1],
        "some bytes trapped": lambda case: counted(**case)["trapped_bytes"] > 0,
    },
)


def _line(case: dict) -> list[int]:
    """Requested bytes in use after each request."""
    sizes = [request for request in case["script"] if request > 0]
    changes = [n if n > 0 else -sizes[-n - 1] for n in case["script"]]
    return [sum(changes[: number + 1]) for number in range(len(changes))]


def _levels(case: dict) -> tuple[int, int]:
    """Free bytes at the end, and those of them in segments with a block in use."""
    levels = CachingAllocator().play_script(case["script"])[-1]
    return levels.reserved_bytes - levels.allocated_bytes, levels.inactive_split_bytes


BANKS: dict[str, AnswerBank] = {"u04-snapshot": SNAPSHOT}
