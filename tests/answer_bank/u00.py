"""Answer banks of unit 00."""

import math
from typing import Any

from autograder.exercises.u00 import counted_memories
from tests.answer_bank import AnswerBank, Wrong


def _num_bytes(case: dict[str, Any]) -> int:
    return math.prod(case["shape"]) * int(case["element_bytes"])


TENSOR_BYTES = AnswerBank(
    function="tensor_bytes",
    wrong=[
        Wrong(
            "expects three axes",
            """
            def tensor_bytes(shape, element_bytes):
                return shape[0] * shape[1] * shape[2] * element_bytes
            """,
            "How many elements are there in this case, and which one does that line ask for?",
        ),
        Wrong(
            "prints instead of returning",
            """
            import math

            def tensor_bytes(shape, element_bytes):
                print(math.prod(shape) * element_bytes)
            """,
            "Does it also return it?",
        ),
        Wrong(
            "a constant: the worked case",
            """
            def tensor_bytes(shape, element_bytes):
                return 24
            """,
            "Which of them should it depend on?",
        ),
        Wrong(
            "a product in 32 bits",
            """
            import numpy

            def tensor_bytes(shape, element_bytes):
                return numpy.prod((*shape, element_bytes), dtype=numpy.int32)
            """,
            "a multiple of 2^32",
        ),
        Wrong(
            "elements in 32 bits",
            """
            import numpy

            def tensor_bytes(shape, element_bytes):
                return int(numpy.prod(shape, dtype=numpy.int32)) * element_bytes
            """,
            "a multiple of 2^32",
        ),
        Wrong(
            "a product of floats",
            """
            import numpy

            def tensor_bytes(shape, element_bytes):
                return float(numpy.prod(shape)) * element_bytes
            """,
            "Where does your whole number become a float?",
        ),
        Wrong(
            "a whole number that was a float",
            """
            def tensor_bytes(shape, element_bytes):
                num_bytes = 1.0
                for size in shape:
                    num_bytes *= size
                return int(num_bytes * element_bytes)
            """,
            "Where does your whole number become a float?",
        ),
        Wrong(
            "returns a tensor",
            """
            import torch

            def tensor_bytes(shape, element_bytes):
                return torch.tensor(shape).prod() * element_bytes
            """,
            "What type does the exercise ask for",
        ),
        Wrong(
            "remembers shapes, and not their elements",
            """
            import math

            KNOWN = {}

            def tensor_bytes(shape, element_bytes):
                return KNOWN.setdefault(shape, math.prod(shape) * element_bytes)
            """,
            "What does it remember from the calls before?",
        ),
        Wrong(
            "two axes only",
            """
            def tensor_bytes(shape, element_bytes):
                rows, columns = shape
                return rows * columns * element_bytes
            """,
            "how many names take them?",
        ),
        Wrong(
            "branches for up to three axes",
            """
            def tensor_bytes(shape, element_bytes):
                if len(shape) == 1:
                    return shape[0] * element_bytes
                if len(shape) == 2:
                    return shape[0] * shape[1] * element_bytes
                if len(shape) == 3:
                    return shape[0] * shape[1] * shape[2] * element_bytes
                return element_bytes
            """,
            "How many does your code expect?",
        ),
    ],
    right=[
        """
        import math

        def tensor_bytes(shape, element_bytes):
            return math.prod(shape) * element_bytes
        """,
        """
        from functools import reduce

        def tensor_bytes(shape, element_bytes):
            return reduce(lambda product, size: product * size, shape, element_bytes)
        """,
        """
        def tensor_bytes(shape, element_bytes):
            if not shape:
                return element_bytes
            return shape[0] * tensor_bytes(shape[1:], element_bytes)
        """,
        """
        import numpy

        def tensor_bytes(shape, element_bytes):
            return numpy.prod(shape, dtype=numpy.int64) * element_bytes
        """,
    ],
    features={
        "no axis": lambda case: case["shape"] == (),
        "one axis": lambda case: len(case["shape"]) == 1,
        "four axes": lambda case: len(case["shape"]) == 4,
        "an empty axis": lambda case: 0 in case["shape"],
        "more than 32 bits hold": lambda case: 2**32 < _num_bytes(case) < 2**53,
        "more than a float holds": lambda case: int(float(_num_bytes(case))) != _num_bytes(case),
        "two equal axes": lambda case: len(set(case["shape"])) < len(case["shape"]),
        "a size of one": lambda case: 1 in case["shape"] and len(case["shape"]) > 1,
        **{
            f"{size} bytes an element": lambda case, size=size: case["element_bytes"] == size
            for size in (1, 2, 4, 8)
        },
    },
)

STATE_GIB = AnswerBank(
    function="state_gib",
    wrong=[
        Wrong(
            "three significant digits",
            """
            def state_gib(num_params, bytes_per_param):
                return float(f"{num_params * bytes_per_param / 2**30:.3g}")
            """,
            "Is it a rounding of yours or a rounded constant?",
        ),
        Wrong(
            "remembers models, and not their bytes",
            """
            KNOWN = {}

            def state_gib(num_params, bytes_per_param):
                return KNOWN.setdefault(num_params, num_params * bytes_per_param / 2**30)
            """,
            "What does it remember from the calls before?",
        ),
        Wrong(
            "a caret for the power of a quotient",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params * bytes_per_param / 2 ^ 30
            """,
            "how do you write a power?",
        ),
        Wrong(
            "a text with a unit",
            """
            def state_gib(num_params, bytes_per_param):
                return f"{num_params * bytes_per_param / 2**30:.1f} GiB"
            """,
            "What type does the exercise ask for",
        ),
    ],
    right=[
        """
        GIB = 1 << 30

        def state_gib(num_params, bytes_per_param):
            return bytes_per_param * (num_params / GIB)
        """,
        """
        def state_gib(num_params, bytes_per_param):
            return float(f"{num_params * bytes_per_param / 2**30:.10g}")
        """,
        """
        from fractions import Fraction

        def state_gib(num_params, bytes_per_param):
            return float(Fraction(num_params * bytes_per_param, 1024**3))
        """,
    ],
    features={
        "less than one GiB": lambda case: case["num_params"] * case["bytes_per_param"] < 2**30,
        "more than a TiB": lambda case: case["num_params"] * case["bytes_per_param"] > 2**40,
        "bf16 weights": lambda case: case["bytes_per_param"] == 2,
        "training state": lambda case: case["bytes_per_param"] == 16,
    },
)

STEP_SECONDS = AnswerBank(
    function="step_seconds",
    wrong=[
        Wrong(
            "a product in 64 bits",
            """
            import numpy

            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                sizes = (num_sequences, seq_len, flops_per_token)
                return float(numpy.prod(sizes, dtype=numpy.int64) / flops_per_second)
            """,
            "Which of your objects has fixed-size integers?",
        ),
        *(
            Wrong(
                f"remembers results, and looks at all but {missing}",
                f"""
                KNOWN = {{}}

                def step_seconds(*sizes):
                    num_sequences, seq_len, flops_per_token, flops_per_second = sizes
                    seconds = num_sequences * seq_len * flops_per_token / flops_per_second
                    return KNOWN.setdefault(sizes[:{place}] + sizes[{place} + 1 :], seconds)
                """,
                "What does it remember from the calls before?",
            )
            for place, missing in enumerate(("batch", "length", "FLOPs", "FLOP/s"))
        ),
    ],
    right=[
        """
        def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
            tokens_per_second = flops_per_second / flops_per_token
            return num_sequences * seq_len / tokens_per_second
        """,
        """
        def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
            seconds = flops_per_token / flops_per_second
            for factor in (num_sequences, seq_len):
                seconds *= factor
            return seconds
        """,
    ],
    features={
        "one sequence": lambda case: case["num_sequences"] == 1,
        "many sequences": lambda case: case["num_sequences"] > 64,
        "an odd length": lambda case: case["seq_len"] % 2 == 1,
        "a laptop": lambda case: case["flops_per_second"] <= 10**11,
        "more than 64 bits hold": lambda case: (
            case["num_sequences"] * case["seq_len"] * case["flops_per_token"] >= 2**63
        ),
        "a cluster": lambda case: case["flops_per_second"] > 10**17,
    },
)

_FOUR = "def four_memories(live_bytes, cached_bytes, outside_bytes):"

FOUR_MEMORIES = AnswerBank(
    function="four_memories",
    wrong=[
        *(
            Wrong(
                f"saved tensors twice, from {first} on",
                f"""
                {_FOUR}
                    saved, live = live_bytes["saved_for_backward"], sum(live_bytes.values())
                    sums = [live, live + cached_bytes, live + cached_bytes + outside_bytes]
                    sums = [each + saved * (n >= {n}) for n, each in enumerate(sums)]
                    return dict(saved_bytes=saved, allocated_bytes=sums[0],
                                reserved_bytes=sums[1], driver_bytes=sums[2])
                """,
                "already one of the categories",
                points=0.5 + 0.5 * n,
            )
            for n, first in enumerate(("allocated", "reserved", "driver"))
        ),
        Wrong(
            "takes the saved tensors out of what it is given",
            f"""
            {_FOUR}
                saved = live_bytes.pop("saved_for_backward")
                live = saved + sum(live_bytes.values())
                return dict(saved_bytes=saved, allocated_bytes=live,
                            reserved_bytes=live + cached_bytes,
                            driver_bytes=live + cached_bytes + outside_bytes)
            """,
            "Who else may still need that object",
        ),
        Wrong(
            "a sum of floats",
            f"""
            {_FOUR}
                live = float(sum(live_bytes.values()))
                return dict(saved_bytes=live_bytes["saved_for_backward"],
                            allocated_bytes=int(live), reserved_bytes=int(live + cached_bytes),
                            driver_bytes=int(live + cached_bytes + outside_bytes))
            """,
            "Where does your whole number become a float?",
            points=0.5,
        ),
        *(
            Wrong(
                f"remembers results, and looks at all but {missing}",
                f"""
                KNOWN = {{}}

                {_FOUR}
                    sizes = (tuple(live_bytes.items()), cached_bytes, outside_bytes)
                    live, cached, outside = KNOWN.setdefault(
                        sizes[:{place}] + sizes[{place} + 1 :],
                        (sum(live_bytes.values()), cached_bytes, outside_bytes),
                    )
                    return dict(saved_bytes=live_bytes["saved_for_backward"],
                                allocated_bytes=live, reserved_bytes=live + cached,
                                driver_bytes=live + cached + outside)
                """,
                "What does it remember from the calls before?",
                points=0.5 + 0.5 * place,
            )
            for place, missing in enumerate(("live", "cached", "outside"))
        ),
        Wrong(
            "short names for the keys",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved=live_bytes["saved_for_backward"], allocated=live,
                            reserved=live + cached_bytes,
                            driver=live + cached_bytes + outside_bytes)
            """,
            "Which line of yours should set the key 'saved_bytes'?",
        ),
        Wrong(
            "unpacks the categories by position",
            f"""
            {_FOUR}
                parameters, saved = live_bytes.values()
                live = parameters + saved
                return dict(saved_bytes=saved, allocated_bytes=live,
                            reserved_bytes=live + cached_bytes,
                            driver_bytes=live + cached_bytes + outside_bytes)
            """,
            "how many names take them?",
        ),
        Wrong(
            "reads a key that is not there",
            f"""
            {_FOUR}
                return dict(saved_bytes=live_bytes["saved"])
            """,
            "Which keys does the dictionary passed to you have",
        ),
        Wrong(
            "a key left out",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"], allocated_bytes=live,
                            reserved_bytes=live + cached_bytes)
            """,
            "should set the key",
        ),
        Wrong(
            "numbers without names",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return (live_bytes["saved_for_backward"], live, live + cached_bytes,
                        live + cached_bytes + outside_bytes)
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        f"""
        {_FOUR}
            report = {{"saved_bytes": live_bytes["saved_for_backward"]}}
            report["allocated_bytes"] = sum(live_bytes[name] for name in live_bytes)
            report["reserved_bytes"] = report["allocated_bytes"] + cached_bytes
            report["driver_bytes"] = report["reserved_bytes"] + outside_bytes
            return report
        """,
        f"""
        from itertools import accumulate

        {_FOUR}
            sums = accumulate([sum(live_bytes.values()), cached_bytes, outside_bytes])
            names = ["allocated_bytes", "reserved_bytes", "driver_bytes"]
            return dict(zip(names, sums)) | dict(saved_bytes=live_bytes["saved_for_backward"])
        """,
    ],
    features={
        "more than a float holds": lambda case: all(
            int(float(each)) != each for each in counted_memories(**case).values()
        ),
        "nothing saved": lambda case: not case["live_bytes"]["saved_for_backward"],
        "nothing cached": lambda case: not case["cached_bytes"],
        "nothing outside": lambda case: not case["outside_bytes"],
        "fewer categories": lambda case: len(case["live_bytes"]) < 5,
        "saved comes first": lambda case: next(iter(case["live_bytes"])) == "saved_for_backward",
        "everything": lambda case: all(case["live_bytes"].values()) and case["cached_bytes"] > 0,
        "equal categories": lambda case: (
            len(set(case["live_bytes"].values()) - {0})
            < sum(each > 0 for each in case["live_bytes"].values())
        ),
    },
)

BANKS = {
    "u00-tensor-bytes": TENSOR_BYTES,
    "u00-state-gib": STATE_GIB,
    "u00-step-seconds": STEP_SECONDS,
    "u00-four-memories": FOUR_MEMORIES,
}
