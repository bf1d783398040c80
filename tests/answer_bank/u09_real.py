"""Answer banks of unit 09's readings of PyTorch."""

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

BANKS = {"u09-ddp-buckets": DDP_BUCKETS}
