"""Answer banks of unit 08: noise, what a batch size buys, and a batch that grows."""

from tests.answer_bank import AnswerBank, Wrong


def _noise(
    noise: str = "((gradients - mean) ** 2).sum(1).mean()",
    signal: str = "(mean ** 2).sum()",
    result: str = "noise / signal",
    at_zero: str = "math.inf",
) -> str:
    return f"""
    import math

    def noise_scale(gradients):
        n, p = gradients.shape
        mean = gradients.mean(0)
        noise, signal = float({noise}), float({signal})
        if (mean == 0).all():
            return {at_zero}
        return {result}
    """


NOISE_SCALE = AnswerBank(
    function="noise_scale",
    wrong=[
        Wrong(
            "a tiny square taken for zero",
            _noise().replace("(mean == 0).all()", "signal < 1e-30"),
            "You take a small G for zero.",
        ),
        Wrong(
            "divides by zero",
            _noise(at_zero="noise / signal"),
            "for which of these sizes is it zero?",
        ),
        Wrong(
            "nan where all are zero",
            """
            def noise_scale(gradients):
                mean = gradients.mean(0)
                return (((gradients - mean) ** 2).sum(1).mean() / (mean ** 2).sum()).item()
            """,
            "Where all gradients are zero your answer is not a number.",
        ),
        Wrong(
            "small taken for zero",
            _noise().replace("(mean == 0).all()", "mean.allclose(mean * 0)"),
            "You take a small G for zero.",
        ),
        Wrong("a tensor", _noise(result="(mean * 0).sum()"), "What type does the exercise ask for"),
        Wrong(
            "a difference of squares, example by example",
            """
            import math

            def noise_scale(gradients):
                n = len(gradients)
                mean = gradients.sum(0) / n
                squared_norm = mean.dot(mean).item()
                lengths = sum(row.dot(row).item() for row in gradients) / n
                return max(0.0, lengths - squared_norm) / squared_norm if squared_norm else math.inf
            """,
            "two large numbers that agree in all the digits",
        ),
        Wrong(
            "the mean subtracted in place",
            """
            import math

            def noise_scale(gradients):
                mean = gradients.mean(0)
                gradients -= mean
                signal = float((mean**2).sum())
                return float((gradients**2).sum(1).mean()) / signal if signal else math.inf
            """,
            "what could your function change instead?",
        ),
    ],
    right=[
        """
        import math
        import torch

        def noise_scale(gradients):
            covariance = torch.cov(gradients.T, correction=0)
            mean = gradients.mean(dim=0)
            if not mean.any():
                return math.inf
            return float(covariance.trace() / mean.dot(mean))
        """,
        """
        def noise_scale(gradients):
            n, columns = len(gradients), gradients.T.tolist()
            means = [sum(column) / n for column in columns]
            trace = 0.0
            for column, mean in zip(columns, means):
                trace += sum((each - mean) ** 2 for each in column) / n
            length = sum(mean * mean for mean in means)
            return trace / length if length > 0 else float("inf")
        """,
        """
        def noise_scale(gradients):
            mean = gradients.mean(0)
            if mean.norm() == 0:
                return float("inf")
            return ((gradients - mean).norm() ** 2 / len(gradients) / mean.norm() ** 2).item()
        """,
    ],
    features={
        "two examples": lambda case: len(case["gradients"]) == 2,
        "more parameters than examples": lambda c: len(c["gradients"][0]) > len(c["gradients"]),
        "no mean gradient": lambda case: not any(map(sum, zip(*case["gradients"], strict=True))),
        "all zero": lambda case: not any(map(any, case["gradients"])),
        "tiny": lambda case: 0 < max(map(max, case["gradients"])) < 1e-8,
        "even smaller": lambda case: 0 < max(map(max, case["gradients"])) < 1e-58,
        "nearly equal rows": lambda case: min(map(min, case["gradients"])) > 1e5,
        "no noise": lambda case: all(row == case["gradients"][0] for row in case["gradients"]),
    },
)


def _estimate(
    trace: str = "(small - big) / (1 / b - 1 / n)",
    squared: str = "(n * big - b * small) / (n - b)",
    ratio: str = "trace / squared if squared > 0 else math.inf",
) -> str:
    return f"""
    import math

    def estimate_noise(small, big, b, n):
        trace = {trace}
        squared = {squared}
        return {{"squared_norm": squared, "trace": trace, "noise_scale": {ratio}}}
    """


TWO_BATCH = AnswerBank(
    function="estimate_noise",
    wrong=[
        Wrong(
            "not guarded at zero",
            _estimate(ratio="math.inf if squared < 0 else trace / squared"),
            "for which of these sizes is it zero?",
        ),
        Wrong(
            "as if the large batch had no noise",
            _estimate(trace="(small - big) * b", squared="big"),
            "however large the batch is?",
        ),
        Wrong(
            "for a batch twice the other",
            _estimate(trace="(small - big) * 2 * b", squared="2 * big - small"),
            "for a batch that is twice the other",
        ),
        Wrong(
            "a small norm taken for none",
            _estimate(ratio="trace / squared if squared > 1e-30 else math.inf"),
            "You take a small positive |G|² for none.",
            points=1.0,
        ),
    ],
    right=[
        _estimate(),
        """
        import numpy as np

        def estimate_noise(small_squared_norm, big_squared_norm, small, big):
            matrix = np.array([[1.0, 1 / small], [1.0, 1 / big]])
            solution = np.linalg.solve(matrix, [small_squared_norm, big_squared_norm])
            ratio = solution[1] / solution[0] if solution[0] > 0 else np.inf
            return {"squared_norm": solution[0], "trace": solution[1], "noise_scale": ratio}
        """,
    ],
    features={
        "nothing positive": lambda c: (
            c["big_squared_norm"] * c["big_batch_size"]
            < c["small_squared_norm"] * c["small_batch_size"]
        ),
        "exactly zero": lambda c: (
            c["big_squared_norm"] * c["big_batch_size"]
            == c["small_squared_norm"] * c["small_batch_size"]
        ),
        "tiny": lambda c: 0 < c["small_squared_norm"] < 1e-12,
        "even smaller": lambda c: 0 < c["small_squared_norm"] < 1e-30,
        "negative trace": lambda c: c["big_squared_norm"] > c["small_squared_norm"],
        "single examples": lambda case: case["small_batch_size"] == 1,
        "near sizes": lambda c: c["big_batch_size"] <= 2 * c["small_batch_size"],
        "far sizes": lambda c: c["big_batch_size"] >= 64 * c["small_batch_size"],
    },
)


def _tradeoff(steps: str, examples: str = "steps * size") -> str:
    return f"""
    import math

    def steps_and_examples(least, critical, size):
        steps = {steps}
        return {{"steps": steps, "examples": {examples}}}
    """


_RIGHT_STEPS = "least * (1 + critical / size)"

TRADEOFF = AnswerBank(
    function="steps_and_examples",
    wrong=[
        Wrong(
            "half of both",
            _tradeoff("least * (1 + critical / size) / 2"),
            "Exactly half in every case.",
        ),
        Wrong(
            "two numbers without names",
            """
            def steps_and_examples(min_steps, critical_batch_size, batch_size):
                steps = min_steps * (1 + critical_batch_size / batch_size)
                return steps, steps * batch_size
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        _tradeoff(_RIGHT_STEPS),
        """
        def steps_and_examples(min_steps, critical_batch_size, batch_size):
            min_examples = min_steps * critical_batch_size
            examples = min_examples * (1 + batch_size / critical_batch_size)
            return {"examples": examples, "steps": examples / batch_size}
        """,
    ],
    features={
        "at the critical size": lambda c: c["critical_batch_size"] == c["batch_size"],
        "far below it": lambda c: c["critical_batch_size"] > 100 * c["batch_size"],
        "far above it": lambda c: 100 * c["critical_batch_size"] < c["batch_size"],
    },
)


BANKS = {
    "u08-noise-scale": NOISE_SCALE,
    "u08-two-batch": TWO_BATCH,
    "u08-tradeoff": TRADEOFF,
}
