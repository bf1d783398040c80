"""Answer banks of unit 09's readings of PyTorch."""

import itertools

from tests.answer_bank import AnswerBank, Wrong


def _in_reverse(case):
    return case["arrival"] == list(range(len(case["arrival"])))[::-1]


DDP_BUCKETS = AnswerBank(
    function="ddp_buckets",
    wrong=[
        Wrong(
            "one list for all steps",
            """
            def ddp_buckets(sizes, arrival, first, limit, finds_unused):
                return [sum(sizes)]
            """,
            "?",
        ),
    ],
    right=[
        """
        def ddp_buckets(sizes, arrival, first, limit, finds_unused):
            order = range(len(sizes)) if finds_unused else arrival
            buckets = [0]
            for place in order:
                if buckets[-1] >= (first if len(buckets) == 1 else limit):
                    buckets.append(0)
                buckets[-1] += sizes[place]
            if finds_unused:
                buckets.reverse()
                return buckets, list(buckets)
            return [sum(sizes)], buckets
        """,
        """
        import itertools

        def ddp_buckets(sizes, arrival, first, limit, finds_unused):
            def cut(items):
                total, end, ends = 0, first, [0]
                for total in itertools.accumulate(items):
                    if total - ends[-1] >= end:
                        ends.append(total)
                        end = limit
                if ends[-1] < total:
                    ends.append(total)
                return tuple(b - a for a, b in itertools.pairwise(ends))

            if finds_unused:
                return (tuple(reversed(cut(sizes))),) * 2
            return (sum(sizes),), cut(map(sizes.__getitem__, arrival))
        """,
    ],
    features={
        "looks for unused parameters": lambda case: case["finds_unused"],
        "does not": lambda case: not case["finds_unused"],
        "arrives in reverse": _in_reverse,
        "arrives in another order": lambda case: not _in_reverse(case),
        "one limit": lambda case: case["first_limit_bytes"] == case["limit_bytes"],
        "one bucket": lambda case: sum(case["parameter_bytes"]) < case["first_limit_bytes"],
        "a first bucket that is exactly full": lambda case: (
            case["parameter_bytes"][0] == case["first_limit_bytes"]
        ),
        "larger than a limit": lambda case: max(case["parameter_bytes"]) > case["limit_bytes"],
    },
)


def _ordered(case, kind):
    """Events of a kind in the order of time."""
    some = [each for each in case["events"] if each["name"] == kind]
    return sorted(some, key=lambda each: each["start_ns"])


READ_STEP = AnswerBank(
    function="read_step",
    wrong=[
        Wrong(
            "the sending added up, and what is hidden left in",
            """
            def read_step(events):
                sent = [e for e in events if e["name"] == "gloo:all_reduce"]
                nodes = [e for e in events if e["name"].startswith("autograd::")]
                return {
                    "first_bytes": min(sent, key=lambda e: e["start_ns"])["bytes"],
                    "tail_ns": max(e["end_ns"] for e in sent) - max(e["end_ns"] for e in nodes),
                    "exposed_ns": sum(e["end_ns"] - e["start_ns"] for e in sent),
                }
            """,
            "You add up the time of all buckets.",
            points=1.0,
        ),
    ],
    right=[
        """
        def read_step(events):
            def union(some):
                merged = []
                for start, end in sorted((e["start_ns"], e["end_ns"]) for e in some):
                    if merged and start <= merged[-1][1]:
                        merged[-1][1] = max(merged[-1][1], end)
                    else:
                        merged.append([start, end])
                return sum(end - start for start, end in merged)

            in_order = sorted(events, key=lambda e: e["start_ns"])
            sent = [e for e in in_order if e["name"] == "gloo:all_reduce"]
            busy = [e for e in in_order if e["name"] != "gloo:all_reduce"]
            last = max(e["end_ns"] for e in busy if e["name"].startswith("autograd::"))
            return {
                "first_bytes": sent[0]["bytes"],
                "tail_ns": max(e["end_ns"] for e in sent) - last,
                "exposed_ns": union(events) - union(busy),
            }
        """,
        """
        import numpy
        import pandas

        def read_step(events):
            table = pandas.DataFrame(events).sort_values("start_ns", kind="stable")
            is_sent = table.name == "gloo:all_reduce"
            moments = numpy.unique(table[["start_ns", "end_ns"]].to_numpy())

            def runs(rows):
                starts, ends = rows.start_ns.to_numpy(), rows.end_ns.to_numpy()
                middle = moments[:-1, None]
                return ((starts <= middle) & (middle < ends)).any(axis=1)

            exposed = runs(table[is_sent]) & ~runs(table[~is_sent])
            nodes = table[table.name.str.startswith("autograd::")]
            return {
                "first_bytes": int(table[is_sent].bytes.iloc[0]),
                "tail_ns": int(table[is_sent].end_ns.max() - nodes.end_ns.max()),
                "exposed_ns": int((numpy.diff(moments) * exposed).sum()),
            }
        """,
    ],
    features={
        "the last bucket overtakes": lambda case: (
            max(each["end_ns"] for each in _ordered(case, "gloo:all_reduce"))
            > _ordered(case, "gloo:all_reduce")[-1]["end_ns"]
        ),
        "the first is not the largest": lambda case: (
            max(each["bytes"] for each in _ordered(case, "gloo:all_reduce"))
            > _ordered(case, "gloo:all_reduce")[0]["bytes"]
        ),
        "not in the order of time": lambda case: (
            case["events"] != sorted(case["events"], key=lambda each: each["start_ns"])
        ),
        "two at once": lambda case: any(
            one["end_ns"] > other["start_ns"]
            for one, other in itertools.pairwise(_ordered(case, "gloo:all_reduce"))
        ),
    },
)

BANKS = {"u09-ddp-buckets": DDP_BUCKETS, "u09-read-step": READ_STEP}
