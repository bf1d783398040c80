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
        Wrong("a sample", _noise("gradients.var(0).sum()"), "as for a sample from something"),
        Wrong(
            "the mean not subtracted",
            _noise("(gradients ** 2).sum(1).mean()"),
            "From where is the noise of an example measured?",
        ),
        Wrong("the length, not squared", _noise(signal="mean.norm()"), "Which unit has tr(Σ)"),
        Wrong(
            "mean over parameters",
            _noise("gradients.var(0, correction=0).mean()"),
            "How many numbers of the diagonal does a trace add up?",
        ),
        Wrong(
            "standard deviations",
            _noise("gradients.std(0, correction=0).sum()"),
            "What stands on the diagonal of a covariance?",
        ),
        Wrong(
            "a sum over the examples",
            _noise("((gradients - mean) ** 2).sum()"),
            "Does the noise of one example grow",
        ),
        Wrong(
            "over mean squared lengths",
            _noise(signal="(gradients ** 2).sum(1).mean()"),
            "Is that the length of their mean?",
        ),
        Wrong(
            "over the squared mean of lengths",
            _noise(signal="gradients.norm(dim=1).mean() ** 2"),
            "Which comes first in |G|",
        ),
        Wrong(
            "upside down",
            _noise(result="signal / noise if noise else math.inf"),
            "Your fraction stands on its head.",
        ),
        Wrong("its root", _noise(result="math.sqrt(noise / signal)"), "Which squares does the"),
        Wrong(
            "zero without a mean gradient", _noise(at_zero="0.0"), "you say that there is no noise"
        ),
        Wrong(
            "along the rows",
            """
            def noise_scale(gradients):
                mean = gradients.mean(1)
                if not mean.any():
                    return float("inf")
                noise = gradients.var(1, correction=0).sum()
                return (noise / (mean ** 2).sum()).item()
            """,
            "Along which side of the matrix do the examples lie?",
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
            "the large batch for the truth",
            _estimate(squared="big"),
            "What does the line above the exercise add to |G|²",
            points=0.5,
        ),
        Wrong(
            "the bare difference",
            _estimate(trace="small - big"),
            "By how much do 1/b and 1/B differ?",
            points=0.5,
        ),
        Wrong(
            "no noise in the large batch",
            _estimate(trace="b * (small - big)"),
            "as if the large batch had no noise",
            points=0.5,
        ),
        Wrong(
            "difference of sizes",
            _estimate(trace="(small - big) * (n - b)"),
            "In which form do the sizes stand",
            points=0.5,
        ),
        Wrong(
            "other sign",
            _estimate(trace="(small - big) / (1 / n - 1 / b)"),
            "Which of the two batches is the noisier",
            points=0.5,
        ),
        Wrong(
            "weights swapped",
            _estimate(squared="(n * small - b * big) / (n - b)"),
            "Your batch sizes weigh each the other's norm.",
            points=0.5,
        ),
        Wrong(
            "not divided",
            _estimate(squared="n * big - b * small"),
            "How many times does |G|² stand",
            points=0.5,
        ),
        Wrong(
            "divided by the difference of sizes",
            _estimate(trace="(small - big) / (n - b)"),
            "You divide the difference of the norms by that of the batch sizes.",
            points=0.5,
        ),
        Wrong(
            "other sign, and the norm that follows",
            _estimate(trace="(small - big) / (1 / n - 1 / b)", squared="big - trace / n"),
            "Which of the two batches is the noisier",
        ),
        Wrong(
            "bare difference, and the norm that follows",
            _estimate(trace="small - big", squared="big - trace / n"),
            "By how much do 1/b and 1/B differ?",
        ),
        Wrong(
            "noise of the large batch from the small one",
            _estimate(squared="small - trace / n"),
            "Which of the two equations has 1/B in it?",
            points=0.5,
        ),
        Wrong(
            "squared again",
            _estimate(
                trace="(small**2 - big**2) / (1 / b - 1 / n)",
                squared="(n * big**2 - b * small**2) / (n - b)",
            ),
            "You square the norms once more.",
        ),
        Wrong(
            "clamped at zero",
            _estimate(
                trace="max(0, (small - big) / (1 / b - 1 / n))",
                squared="max(0, (n * big - b * small) / (n - b))",
            ),
            "Would they still be right on average?",
        ),
        Wrong(
            "infinite for a negative trace",
            _estimate(ratio="trace / squared if squared > 0 and trace > 0 else math.inf"),
            "is infinite where the trace is negative, too",
            points=1.0,
        ),
        Wrong(
            "the absolute trace",
            _estimate(ratio="abs(trace) / squared if squared > 0 else math.inf"),
            "has lost its sign where the trace is negative",
            points=1.0,
        ),
        Wrong(
            "not guarded",
            _estimate(ratio="trace / squared"),
            "What does the exercise ask for there?",
            points=1.0,
        ),
        Wrong(
            "upside down",
            _estimate(ratio="squared / trace"),
            "Your noise scale stands on its head.",
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
            "perfect scaling",
            _tradeoff("least * critical / size"),
            "Your steps are those of perfect scaling.",
        ),
        Wrong(
            "a corner",
            _tradeoff("max(least, least * critical / size)"),
            "Your line has a corner at the critical batch size.",
        ),
        Wrong(
            "the other way round",
            _tradeoff("least * (1 + size / critical)"),
            "Your steps grow with the batch.",
        ),
        Wrong("fewest steps always", _tradeoff("least"), "You have the fewest steps for every"),
        Wrong(
            "a root",
            _tradeoff("least * (1 + math.sqrt(critical / size))"),
            "Your hyperbola has a root in it.",
        ),
        Wrong(
            "fewest examples always",
            _tradeoff(_RIGHT_STEPS, "least * critical"),
            "Your examples are the fewest, whatever the batch.",
            points=0.5,
        ),
        Wrong(
            "steps of the critical size",
            _tradeoff(_RIGHT_STEPS, "critical * steps"),
            "How many examples does each step take?",
            points=0.5,
        ),
        Wrong(
            "examples of the fewest steps",
            _tradeoff(_RIGHT_STEPS, "least * size"),
            "Your examples are those of the fewest steps.",
            points=0.5,
        ),
        Wrong(
            "examples as few as steps",
            _tradeoff(_RIGHT_STEPS, "least * (1 + size / critical)"),
            "Your examples are as few as steps.",
            points=0.5,
        ),
        Wrong(
            "half of both",
            _tradeoff("least * (1 + critical / size) / 2"),
            "Exactly half in every case.",
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


def _law(
    exponent: str = "fit(logs(losses), logs(sizes))[0]",
    at_one: str = "np.exp(fit(logs(losses), logs(sizes))[1])",
) -> str:
    return f"""
    import numpy as np

    logs = np.log

    def fit(xs, ys):
        return np.polyfit(xs, ys, 1)

    def power_law(losses, sizes):
        x, y = logs(losses), logs(sizes)
        return {{"exponent": float({exponent}), "batch_at_loss_1": float({at_one})}}
    """


POWER_LAW = AnswerBank(
    function="power_law",
    wrong=[
        Wrong(
            "without logarithms",
            _law("fit(losses, sizes)[0]", "sum(fit(losses, sizes))"),
            "In which quantities is a power law a straight line?",
        ),
        Wrong(
            "one logarithm",
            _law("fit(losses, y)[0]", "np.exp(sum(fit(losses, y)))"),
            "You took the logarithm of one of the two only.",
        ),
        Wrong(
            "loss over batch size",
            _law("fit(y, x)[0]"),
            "Which of the two is raised to the exponent?",
            points=1.0,
        ),
        Wrong(
            "other sign",
            _law("-fit(x, y)[0]"),
            "Does the batch grow or shrink as the loss falls?",
            points=1.0,
        ),
        Wrong(
            "the ends",
            _law("(y[-1] - y[0]) / (x[-1] - x[0])"),
            "What have the points between them to say?",
            points=1.0,
        ),
        Wrong(
            "the ends, for both numbers",
            _law(
                "(y[-1] - y[0]) / (x[-1] - x[0])",
                "np.exp(y[0] - (y[-1] - y[0]) / (x[-1] - x[0]) * x[0])",
            ),
            "What have the points between them to say?",
        ),
        Wrong(
            "axes swapped, and one over the slope",
            _law("1 / fit(y, x)[0]"),
            "Whose deviations are to be small",
            points=1.0,
        ),
        Wrong(
            "base 2, back with e",
            _law(at_one="np.exp(fit(x / np.log(2), y / np.log(2))[1])"),
            "You went to logarithms in twos",
            points=1.0,
        ),
        Wrong(
            "mean of slopes",
            _law("np.mean(np.diff(y) / np.diff(x))"),
            "Do near and far neighbours tell a slope equally well?",
            points=1.0,
        ),
        Wrong(
            "through the origin",
            _law("(x * y).sum() / (x * x).sum()"),
            "What is the batch size there?",
            points=1.0,
        ),
        Wrong(
            "still a logarithm",
            _law(at_one="fit(x, y)[1]"),
            "How do you get back from log B to B?",
            points=1.0,
        ),
        Wrong(
            "base 10, back with e",
            _law(at_one="np.exp(fit(x / np.log(10), y / np.log(10))[1])"),
            "You went to logarithms with one base",
            points=1.0,
        ),
        Wrong(
            "base e, back with 10",
            _law(at_one="10 ** fit(x, y)[1]"),
            "You came back from natural logarithms",
            points=1.0,
        ),
    ],
    right=[
        _law(),
        """
        import math

        def power_law(losses, batch_sizes):
            x = [math.log2(each) for each in losses]
            y = [math.log2(each) for each in batch_sizes]
            n, sx, sy = len(x), sum(x), sum(y)
            sxy, sxx = sum(a * b for a, b in zip(x, y)), sum(a * a for a in x)
            k = (n * sxy - sx * sy) / (n * sxx - sx * sx)
            return {"exponent": k, "batch_at_loss_1": 2 ** ((sy - k * sx) / n)}
        """,
    ],
    features={
        "two points": lambda case: len(case["losses"]) == 2,
        "many points": lambda case: len(case["losses"]) == 8,
        "rising": lambda case: case["batch_sizes"][0] > case["batch_sizes"][-1],
        "falling": lambda case: case["batch_sizes"][0] < case["batch_sizes"][-1],
    },
)


def _steps(body: str) -> str:
    return f"""
    import math

    def num_steps(schedule, total_tokens):
        ends = [min(start, total_tokens) for start, _ in schedule[1:]] + [total_tokens]
        stages = [(max(end - start, 0), b) for (start, b), end in zip(schedule, ends)]
        return {body}
    """


def _walk(due: str, going: str = "seen < total_tokens") -> str:
    return f"""
    def num_steps(schedule, total_tokens):
        seen = steps = 0
        while {going}:
            batch = [b for start, b in schedule if start <= seen][-1]
            batch = [b for start, b in schedule if {due}][-1]
            seen, steps = seen + batch, steps + 1
        return steps
    """


SCHEDULE = AnswerBank(
    function="num_steps",
    wrong=[
        Wrong(
            "the first batch",
            _steps("math.ceil(total_tokens / schedule[0][1])"),
            "When does the next one begin?",
        ),
        Wrong(
            "the last batch",
            _steps("math.ceil(total_tokens / schedule[-1][1])"),
            "Which one has a run at its first token?",
        ),
        Wrong(
            "remainders dropped",
            _steps("sum(tokens // b for tokens, b in stages)"),
            "What happens to tokens that fill no whole step",
        ),
        Wrong(
            "every stage rounded up",
            _steps("sum(math.ceil(tokens / b) for tokens, b in stages)"),
            "How many tokens of the next stage has the step",
        ),
        Wrong(
            "rounded at the end",
            _steps("math.ceil(sum(tokens / b for tokens, b in stages))"),
            "Can a step be taken partly with one batch",
        ),
        Wrong(
            "one stage at a time",
            """
            def num_steps(schedule, total_tokens):
                seen = steps = stage = 0
                while seen < total_tokens:
                    if stage + 1 < len(schedule) and seen >= schedule[stage + 1][0]:
                        stage += 1
                    seen += schedule[stage][1]
                    steps += 1
                return steps
            """,
            "Which batch is due after such a step?",
        ),
        Wrong(
            "only whole steps",
            """
            def num_steps(schedule, total_tokens):
                steps = seen = 0
                for (_, batch), following in zip(schedule, [*schedule[1:], (total_tokens, 0)]):
                    more = max((min(following[0], total_tokens) - seen) // batch, 0)
                    steps, seen = steps + more, seen + more * batch
                return steps
            """,
            "No step of yours crosses a boundary",
        ),
        Wrong("early", _walk("start < seen + batch"), "Which batch is due when it begins?"),
        Wrong(
            "late",
            _walk("start < seen or start == 0"),
            "From which token on is the new one due?",
        ),
        Wrong(
            "never early",
            """
            def num_steps(schedule, total_tokens):
                steps = seen = 0
                for (_, batch), following in zip(schedule, [*schedule[1:], (total_tokens, 0)]):
                    while seen < following[0]:
                        steps, seen = steps + 1, seen + batch
                return steps
            """,
            "that they never reach",
        ),
        Wrong(
            "one step more", _walk("start <= seen", "seen <= total_tokens"), "Is anything left to"
        ),
    ],
    right=[
        _walk("start <= seen"),
        """
        def num_steps(schedule, total_tokens):
            steps = seen = 0
            for (_, batch), following in zip(schedule, [*schedule[1:], (total_tokens, 0)]):
                more = max(-(-(min(following[0], total_tokens) - seen) // batch), 0)
                steps, seen = steps + more, seen + more * batch
            return steps
        """,
        """
        def num_steps(schedule, total_tokens):
            steps = seen = 0
            for (_, batch), following in zip(schedule, [*schedule[1:], (total_tokens, 0)]):
                more = -(-(min(following[0], total_tokens) - seen) // batch)
                steps, seen = steps + more, seen + more * batch
            return steps
        """,
        """
        def num_steps(schedule, total_tokens):
            steps = seen = 0
            while seen < total_tokens:
                seen += max(batch for start, batch in schedule if start <= seen)
                steps += 1
            return steps
        """,
    ],
    features={
        "one stage": lambda case: len(case["schedule"]) == 1,
        "five stages": lambda case: len(case["schedule"]) == 5,
        "two stages passed over": lambda c: any(
            later[0] - stage[0] < before[1] // 3 + 2
            for before, stage, later in zip(
                c["schedule"], c["schedule"][1:], c["schedule"][3:], strict=False
            )
        ),
        "a stage passed over": lambda c: any(
            later[0] - stage[0] < before[1] // 3 + 1
            for before, stage, later in zip(
                c["schedule"], c["schedule"][1:], c["schedule"][2:], strict=False
            )
        ),
        "ends early": lambda c: c["total_tokens"] < c["schedule"][-1][0],
        "ends on a boundary": lambda c: (
            len(c["schedule"]) > 1 and c["schedule"][1][0] % c["schedule"][0][1] == 0
        ),
        "crosses a boundary": lambda c: (
            len(c["schedule"]) > 1 and c["schedule"][1][0] % c["schedule"][0][1] != 0
        ),
    },
)

BANKS = {
    "u08-noise-scale": NOISE_SCALE,
    "u08-two-batch": TWO_BATCH,
    "u08-tradeoff": TRADEOFF,
    "u08-power-law": POWER_LAW,
    "u08-schedule": SCHEDULE,
}
