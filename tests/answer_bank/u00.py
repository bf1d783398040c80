"""Answer banks of unit 00."""

from tests.answer_bank import AnswerBank, Wrong

TENSOR_BYTES = AnswerBank(
    function="tensor_bytes",
    wrong=[
        Wrong(
            "counts the numbers, not their bytes",
            """
            import math

            def tensor_bytes(shape, element_bytes):
                return math.prod(shape)
            """,
            "How many bytes does each of them take?",
        ),
        Wrong(
            "counts bits",
            """
            import math

            def tensor_bytes(shape, element_bytes):
                return math.prod(shape) * element_bytes * 8
            """,
            "How many bits make one byte?",
        ),
        Wrong(
            "adds the sizes",
            """
            def tensor_bytes(shape, element_bytes):
                return sum(shape) * element_bytes
            """,
            "How many numbers do 2 rows of 3 hold?",
        ),
        Wrong(
            "counts 4 bytes for every element",
            """
            import math

            def tensor_bytes(shape, element_bytes):
                return 4 * math.prod(shape)
            """,
            "Is every element 4 bytes large?",
        ),
        Wrong(
            "expects three axes",
            """
            def tensor_bytes(shape, element_bytes):
                return shape[0] * shape[1] * shape[2] * element_bytes
            """,
            "How many parts are there in this case, and which one does that line ask for?",
        ),
        Wrong(
            "starts the product at zero",
            """
            def tensor_bytes(shape, element_bytes):
                count = 0
                for size in shape:
                    count *= size
                return count * element_bytes
            """,
            "What do you multiply the first size with?",
        ),
        Wrong(
            "returns 0 for no axis",
            """
            import math

            def tensor_bytes(shape, element_bytes):
                if len(shape) == 0:
                    return 0
                return math.prod(shape) * element_bytes
            """,
            "A tensor without axes still holds something.",
        ),
        Wrong(
            "returns 1 byte for no axis",
            """
            import math

            def tensor_bytes(shape, element_bytes):
                if not shape:
                    return 1
                return math.prod(shape) * element_bytes
            """,
            "How many bytes does that number take?",
        ),
        Wrong(
            "multiplies by the bytes at every axis",
            """
            def tensor_bytes(shape, element_bytes):
                num_bytes = 1
                for size in shape:
                    num_bytes *= size * element_bytes
                return num_bytes
            """,
            "How often should they?",
        ),
        Wrong(
            "skips an empty axis",
            """
            def tensor_bytes(shape, element_bytes):
                num_bytes = element_bytes
                for size in shape:
                    if size > 0:
                        num_bytes *= size
                return num_bytes
            """,
            "How many numbers do 0 rows of 5 hold?",
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
            "Which of the sizes should it depend on?",
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
            return float(numpy.prod(shape)) * element_bytes
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
            "GB for GiB",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params * bytes_per_param / 1e9
            """,
            "How many bytes has a GiB?",
        ),
        Wrong(
            "bytes",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params * bytes_per_param
            """,
            "Which step takes bytes to GiB?",
        ),
        Wrong(
            "MiB",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params * bytes_per_param / 1024**2
            """,
            "How many MiB make one GiB?",
        ),
        Wrong(
            "forgets the bytes of a parameter",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params / 2**30
            """,
            "What does each parameter carry?",
        ),
        Wrong(
            "divides without a remainder",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params * bytes_per_param // 2**30
            """,
            "Is half a GiB nothing?",
        ),
        Wrong(
            "rounds to two places",
            """
            def state_gib(num_params, bytes_per_param):
                return round(num_params * bytes_per_param / 2**30, 2)
            """,
            "What is lost for a model of a million?",
        ),
        Wrong(
            "rounds to three places",
            """
            def state_gib(num_params, bytes_per_param):
                return round(num_params * bytes_per_param / 2**30, 3)
            """,
            "Your answer is rounded to three places.",
        ),
        Wrong(
            "rounds to one place",
            """
            def state_gib(num_params, bytes_per_param):
                return round(num_params * bytes_per_param / 2**30, 1)
            """,
            "Your answer is rounded to one place.",
        ),
        Wrong(
            "a constant in place of 2**30",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params * bytes_per_param / 1e9 / 1.074
            """,
            "loses the digits?",
        ),
        Wrong(
            "bits",
            """
            def state_gib(num_params, bytes_per_param):
                return 8 * num_params * bytes_per_param / 2**30
            """,
            "Do you count bits where bytes are meant?",
        ),
        Wrong(
            "TiB",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params * bytes_per_param / 2**40
            """,
            "Which step between KiB, MiB and GiB is one too many?",
        ),
        Wrong(
            "a caret for a power",
            """
            def state_gib(num_params, bytes_per_param):
                return num_params * bytes_per_param / (2 ^ 30)
            """,
            "How does it write a power?",
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
            "sequences for tokens",
            """
            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                return num_sequences * flops_per_token / flops_per_second
            """,
            "How many tokens has one sequence?",
        ),
        Wrong(
            "one sequence",
            """
            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                return seq_len * flops_per_token / flops_per_second
            """,
            "How many are in the batch?",
        ),
        Wrong(
            "a count for a time",
            """
            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                return float(num_sequences * seq_len * flops_per_token)
            """,
            "what does a count divided by a rate give?",
        ),
        Wrong(
            "steps per second",
            """
            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                return flops_per_second / (num_sequences * seq_len * flops_per_token)
            """,
            "How long does one step take?",
        ),
        Wrong(
            "multiplies by the rate",
            """
            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                return num_sequences * seq_len * flops_per_token * flops_per_second
            """,
            "What must stand below the line?",
        ),
        Wrong(
            "one token",
            """
            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                return flops_per_token / flops_per_second
            """,
            "How many tokens are in the batch?",
        ),
        Wrong(
            "milliseconds",
            """
            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                return 1000 * num_sequences * seq_len * flops_per_token / flops_per_second
            """,
            "Which constant factor is that?",
        ),
        Wrong(
            "whole seconds",
            """
            def step_seconds(num_sequences, seq_len, flops_per_token, flops_per_second):
                return num_sequences * seq_len * flops_per_token // flops_per_second
            """,
            "Is a quarter of a second nothing?",
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
        "a cluster": lambda case: case["flops_per_second"] > 10**17,
    },
)

_FOUR = "def four_memories(live_bytes, cached_bytes, outside_bytes):"

FOUR_MEMORIES = AnswerBank(
    function="four_memories",
    wrong=[
        Wrong(
            "saved is all that is live",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live, allocated_bytes=live,
                            reserved_bytes=live + cached_bytes,
                            driver_bytes=live + cached_bytes + outside_bytes)
            """,
            "Which category does it keep?",
            points=1.5,
        ),
        Wrong(
            "allocated without what is saved",
            f"""
            {_FOUR}
                saved = live_bytes["saved_for_backward"]
                live = sum(live_bytes.values()) - saved
                return dict(saved_bytes=saved, allocated_bytes=live,
                            reserved_bytes=live + cached_bytes,
                            driver_bytes=live + cached_bytes + outside_bytes)
            """,
            "Is a saved tensor not live?",
            points=0.5,
        ),
        Wrong(
            "reserved is only the cache",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"], allocated_bytes=live,
                            reserved_bytes=cached_bytes,
                            driver_bytes=cached_bytes + outside_bytes)
            """,
            "Which of them is missing?",
            points=1.0,
        ),
        Wrong(
            "the driver does not see the cache",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"], allocated_bytes=live,
                            reserved_bytes=live + cached_bytes,
                            driver_bytes=live + outside_bytes)
            """,
            "Does the driver see them?",
            points=1.5,
        ),
        Wrong(
            "forgets the context",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"], allocated_bytes=live,
                            reserved_bytes=live + cached_bytes, driver_bytes=live + cached_bytes)
            """,
            "Which of the four numbers shows it?",
            points=1.5,
        ),
        Wrong(
            "the allocator reserves the context",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"], allocated_bytes=live,
                            reserved_bytes=live + cached_bytes + outside_bytes,
                            driver_bytes=live + cached_bytes + outside_bytes)
            """,
            "Does the allocator reserve it?",
            points=1.5,
        ),
        Wrong(
            "only the categories of the worked case",
            f"""
            {_FOUR}
                saved = live_bytes["saved_for_backward"]
                live = live_bytes.get("parameters", 0) + saved
                return dict(saved_bytes=saved, allocated_bytes=live,
                            reserved_bytes=live + cached_bytes,
                            driver_bytes=live + cached_bytes + outside_bytes)
            """,
            "Which of those in live_bytes do you leave out?",
            points=0.5,
        ),
        Wrong(
            "reserved is what is allocated",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"], allocated_bytes=live,
                            reserved_bytes=live, driver_bytes=live + cached_bytes + outside_bytes)
            """,
            "What is the difference between the two?",
            points=1.5,
        ),
        Wrong(
            "the driver sees only what is outside",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"], allocated_bytes=live,
                            reserved_bytes=live + cached_bytes, driver_bytes=outside_bytes)
            """,
            "Which parts do you leave out?",
            points=1.5,
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
            "Why is 'saved_bytes' in the exercise's text and not in your dictionary?",
        ),
        Wrong(
            "cached blocks count as allocated",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"],
                            allocated_bytes=live + cached_bytes,
                            reserved_bytes=live + cached_bytes,
                            driver_bytes=live + cached_bytes + outside_bytes)
            """,
            "Do they count as allocated?",
            points=1.5,
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
            "What are the values in that line when these sizes come in?",
        ),
        Wrong(
            "reads a key that is not there",
            f"""
            {_FOUR}
                return dict(saved_bytes=live_bytes["saved"])
            """,
            "Which keys does the dictionary that comes in have",
        ),
        Wrong(
            "a key left out",
            f"""
            {_FOUR}
                live = sum(live_bytes.values())
                return dict(saved_bytes=live_bytes["saved_for_backward"], allocated_bytes=live,
                            reserved_bytes=live + cached_bytes)
            """,
            "in the exercise's text and not in your dictionary?",
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
        "nothing saved": lambda case: not case["live_bytes"]["saved_for_backward"],
        "nothing cached": lambda case: not case["cached_bytes"],
        "nothing outside": lambda case: not case["outside_bytes"],
        "fewer categories": lambda case: len(case["live_bytes"]) < 5,
        "saved comes first": lambda case: next(iter(case["live_bytes"])) == "saved_for_backward",
        "everything": lambda case: all(case["live_bytes"].values()) and case["cached_bytes"] > 0,
    },
)

BANKS = {
    "u00-tensor-bytes": TENSOR_BYTES,
    "u00-state-gib": STATE_GIB,
    "u00-step-seconds": STEP_SECONDS,
    "u00-four-memories": FOUR_MEMORIES,
}
