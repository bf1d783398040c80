"""Answer banks of unit 01."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import call
from autograder.exercises.model_answers import model_answer
from course_utils.configs import ModelConfig
from tests.answer_bank import AnswerBank, Wrong

HIDDEN_SIZE_FOR_WIDTH = "How wide are they when head_dim is not hidden_size / num_heads?"
IN_64_BITS = "a multiple of 2^64"
FLOAT = "Where does your whole number become a float?"


def more_than_a_float_holds(exercise: str) -> Callable[[dict[str, Any]], bool]:
    """Whether all counts of a case lose digits as floats."""

    def is_large(case: dict[str, Any]) -> bool:
        right: Any = call(model_answer(exercise), case)
        counts = right.values() if isinstance(right, dict) else [right]
        return all(int(float(count)) != count for count in counts)

    return is_large


def beyond_64_bits(exercise: str) -> Callable[[dict[str, Any]], bool]:
    """Whether all counts of a case overflow an int64."""

    def is_large(case: dict[str, Any]) -> bool:
        right: Any = call(model_answer(exercise), case)
        return all(count >= 2**63 for count in (right.values() if type(right) is dict else [right]))

    return is_large


def large_counts(exercise: str) -> dict[str, Callable[[dict[str, Any]], bool]]:
    """The features of cases whose counts only a whole number of Python holds."""
    return {
        "more than a float holds": more_than_a_float_holds(exercise),
        "more than 64 bits hold": beyond_64_bits(exercise),
    }


def usual_head_dim(case: dict[str, Any]) -> int:
    """The width of a head if all of them together are as wide as the model."""
    return int(case["model"]["hidden_size"]) // int(case["model"]["num_heads"])


OWN_HEAD_DIM = {
    "wider heads": lambda case: case["model"].get("head_dim", 0) > usual_head_dim(case),
    "narrower heads": lambda case: 0 < case["model"].get("head_dim", 0) < usual_head_dim(case),
}


def _matmul(forward: str, backward: str) -> str:
    return f"""
    def matmul_flops(rows, inner, columns):
        return {{"forward_flops": {forward}, "backward_flops": {backward}}}
    """


MATMUL_FLOPS = AnswerBank(
    function="matmul_flops",
    wrong=[
        Wrong(
            "forward without additions",
            _matmul("rows * inner * columns", "4 * rows * inner * columns"),
            "What happens to the products after that?",
            points=1.0,
        ),
        Wrong(
            "off by one operation",
            _matmul("2 * rows * inner * columns + 1", "4 * rows * inner * columns"),
            "At which step do you and your code part ways?",
            points=1.0,
        ),
        Wrong(
            "only the total of training",
            """
            def matmul_flops(rows, inner, columns):
                return 6 * rows * inner * columns
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "calls the course's formula",
            """
            from course_utils.formulas import flops

            def matmul_flops(rows, inner, columns):
                return flops.matmul_flops(rows, inner, columns)
            """,
            "How would you work it out with code of your own?",
        ),
        Wrong(
            "calls the instrument",
            """
            import torch

            def matmul_flops(rows, inner, columns):
                from course_utils.instruments import count_flops

                a = torch.empty(rows, inner, device="meta", requires_grad=True)
                b = torch.empty(inner, columns, device="meta", requires_grad=True)
                return count_flops(lambda: a @ b)._asdict()
            """,
            "How would you work it out with code of your own?",
        ),
        Wrong(
            "floats on the way",
            _matmul("int(2.0 * rows * inner * columns)", "int(4.0 * rows * inner * columns)"),
            FLOAT,
        ),
        Wrong(
            "floats",
            _matmul("2.0 * rows * inner * columns", "4.0 * rows * inner * columns"),
            FLOAT,
        ),
        Wrong(
            "an int64 tensor",
            """
            import torch

            def matmul_flops(rows, inner, columns):
                forward = int(torch.tensor([2, rows, inner, columns]).prod())
                return {"forward_flops": forward, "backward_flops": 2 * forward}
            """,
            IN_64_BITS,
        ),
        Wrong(
            "a float32 tensor",
            """
            import torch

            def matmul_flops(rows, inner, columns):
                forward = int(torch.tensor([2.0, columns, rows, inner]).prod())
                return {"forward_flops": forward, "backward_flops": 2 * forward}
            """,
            "a float32 keeps 24 bits",
        ),
    ],
    right=[
        _matmul("2 * inner * (rows * columns)", "2 * (rows * columns) * inner * 2"),
        """
        def matmul_flops(rows, inner, columns):
            def product(m, d, n):
                return m * n * (d + d)

            grad_a = product(rows, columns, inner)
            grad_b = product(inner, rows, columns)
            return dict(forward_flops=product(rows, inner, columns), backward_flops=grad_a + grad_b)
        """,
    ],
    features={
        **large_counts("u01-matmul-flops"),
        "one row": lambda case: case["rows"] == 1 < case["inner"],
        "one inner entry": lambda case: case["inner"] == 1 < case["rows"],
        "one column": lambda case: case["columns"] == 1 < case["rows"],
        "square": lambda case: case["rows"] == case["inner"] == case["columns"] > 1,
        "odd sizes": lambda case: all(size % 2 for size in case.values()),
        "a real layer": lambda case: case["inner"] == 4096,
    },
)


_ATTENTION = "def attention_flops(num_sequences, seq_len, num_heads, num_kv_heads, head_dim):"
_LETTERS = "b, s, a, kv, d = num_sequences, seq_len, num_heads, num_kv_heads, head_dim"
_PROJECTIONS = "2 * b * s * a * d * (2 * a * d + 2 * kv * d)"
_CORE = "4 * b * a * s * s * d"


def _attention(projections: str, core: str) -> str:
    return f"""
    {_ATTENTION}
        {_LETTERS}
        return {{"projection_flops": {projections}, "core_flops": {core}}}
    """


ATTENTION_FLOPS = AnswerBank(
    function="attention_flops",
    wrong=[
        Wrong(
            "one number for both",
            f"""
            {_ATTENTION}
                {_LETTERS}
                return {_PROJECTIONS} + {_CORE}
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "floats on the way",
            _attention(f"int(1.0 * {_PROJECTIONS})", f"int(1.0 * {_CORE})"),
            FLOAT,
        ),
        Wrong(
            "the width of keys and values as a share in floats",
            f"""
            {_ATTENTION}
                tokens, width = num_sequences * seq_len, num_heads * head_dim
                kv_width = int(width * (num_kv_heads / num_heads))
                return {{
                    "projection_flops": 2 * tokens * width * (2 * width + 2 * kv_width),
                    "core_flops": 4 * num_sequences * seq_len**2 * width,
                }}
            """,
            "so that no division is needed?",
            points=1.0,
        ),
        Wrong(
            "results kept without their key-value heads",
            f"""
            seen = {{}}

            {_ATTENTION}
                {_LETTERS}
                result = {{"projection_flops": {_PROJECTIONS}, "core_flops": {_CORE}}}
                return seen.setdefault((b, s, a, d), result)
            """,
            "What does it remember from the calls before?",
            points=1.0,
        ),
    ],
    right=[
        f"""
        def matmul(rows, inner, columns):
            return 2 * rows * inner * columns

        {_ATTENTION}
            {_LETTERS}
            tokens, h = b * s, a * d
            projections = 2 * matmul(tokens, h, h) + 2 * matmul(tokens, h, kv * d)
            core = b * a * (matmul(s, d, s) + matmul(s, s, d))
            return dict(projection_flops=projections, core_flops=core)
        """,
        _attention("4 * b * s * (a * d) * (a + kv) * d", "2 * b * (2 * s) * s * (a * d)"),
    ],
    features={
        **large_counts("u01-attention-flops"),
        "a share that no float holds": lambda c: (
            int(c["num_heads"] * c["head_dim"] * (c["num_kv_heads"] / c["num_heads"]))
            < c["num_kv_heads"] * c["head_dim"]
        ),
        "multi-head": lambda case: case["num_heads"] == case["num_kv_heads"],
        "grouped-query": lambda case: 1 < case["num_kv_heads"] < case["num_heads"],
        "multi-query": lambda case: 1 == case["num_kv_heads"] < case["num_heads"],
        "several sequences": lambda case: case["num_sequences"] > 1,
        "an odd length": lambda case: case["seq_len"] % 2 == 1,
        "one token": lambda case: case["seq_len"] == 1,
    },
)


def _mlp(result: str) -> str:
    return f"""
    def gated_mlp_flops(num_tokens, hidden_size, ffn_size):
        return {result}
    """


GATED_MLP_FLOPS = AnswerBank(
    function="gated_mlp_flops",
    wrong=[
        Wrong(
            "the lecture's ratio of 3.5",
            _mlp("21 * num_tokens * hidden_size ** 2"),
            "At which step do you and your code part ways?",
        ),
        Wrong(
            "a float on the way",
            _mlp("int(6.0 * num_tokens * hidden_size * ffn_size)"),
            FLOAT,
        ),
        Wrong(
            "a product of int64",
            """
            import torch

            def gated_mlp_flops(num_tokens, hidden_size, ffn_size):
                return 3 * int(torch.tensor([2, num_tokens, hidden_size, ffn_size]).prod())
            """,
            IN_64_BITS,
        ),
    ],
    right=[
        _mlp("2 * num_tokens * (2 * hidden_size * ffn_size + ffn_size * hidden_size)"),
        """
        def gated_mlp_flops(num_tokens, hidden_size, ffn_size):
            shapes = [(hidden_size, ffn_size)] * 2 + [(ffn_size, hidden_size)]
            return sum(2 * num_tokens * inner * outer for inner, outer in shapes)
        """,
    ],
    features={
        **large_counts("u01-gated-mlp-flops"),
        "one token": lambda case: case["num_tokens"] == 1,
        "square": lambda case: case["hidden_size"] == case["ffn_size"],
        "a real layer": lambda case: case["hidden_size"] == 4096,
    },
)


def _model(result: str) -> str:
    return f"""
    def model_flops(model, num_sequences, seq_len):
        b, s, h, f = num_sequences, seq_len, model.hidden_size, model.ffn_size
        a, kv, d, v = model.num_heads, model.num_kv_heads, model.head_dim, model.vocab_size
        layer = b * s * (4 * h * (a * d + kv * d) + 6 * h * f) + 4 * b * a * d * s * s
        head = 2 * b * s * h * v
        return {result}
    """


MODEL_FLOPS = AnswerBank(
    function="model_flops",
    wrong=[
        Wrong(
            "training",
            _model("3 * (model.num_layers * layer + head)"),
            "What do you count that is not asked for?",
        ),
        Wrong(
            "a float on the way", _model("int(model.num_layers * 1.0 * layer + head)"), "a float"
        ),
    ],
    right=[
        _model("head + layer * model.num_layers"),
        """
        def model_flops(model, num_sequences, seq_len):
            def matmul(rows, inner, columns):
                return 2 * rows * inner * columns

            tokens, h = num_sequences * seq_len, model.hidden_size
            q, kv = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
            total = matmul(tokens, h, model.vocab_size)
            for _ in range(model.num_layers):
                for columns in (q, kv, kv, q, *[model.ffn_size] * 3):
                    total += matmul(tokens, h, columns)
                total += 2 * num_sequences * matmul(seq_len, q, seq_len)
            return total
        """,
    ],
    features={
        **OWN_HEAD_DIM,
        **large_counts("u01-model-flops"),
        "tied": lambda case: case["model"]["is_tied"],
        "untied head": lambda case: not case["model"]["is_tied"],
        "multi-head": lambda c: c["model"]["num_heads"] == c["model"]["num_kv_heads"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "grouped-query": lambda c: 1 < c["model"]["num_kv_heads"] < c["model"]["num_heads"],
        "several sequences": lambda case: case["num_sequences"] > 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)


def _stack(zero: str, result: str) -> str:
    return f"""
    def stack_training_flops(num_tokens, widths, is_trained):
        total, is_wanted = {zero}, False
        for n, trained in enumerate(is_trained):
            product = 2 * num_tokens * widths[n] * widths[n + 1]
            total += product * (1 + trained + is_wanted)
            is_wanted = is_wanted or trained
        return {result}
    """


STACK_TRAINING_FLOPS = AnswerBank(
    function="stack_training_flops",
    wrong=[
        Wrong("a float on the way", _stack("0.0", "int(total)"), "a float"),
        Wrong(
            "the first layer and the one just before",
            """
            def stack_training_flops(num_tokens, widths, is_trained):
                total = 0
                for n, trained in enumerate(is_trained):
                    product = 2 * num_tokens * widths[n] * widths[n + 1]
                    is_wanted = n > 0 and (is_trained[0] or is_trained[n - 1])
                    total += product * (1 + trained + is_wanted)
                return total
            """,
            "What if only an earlier one is trained?",
        ),
    ],
    right=[
        _stack("0", "total"),
        """
        def stack_training_flops(num_tokens, widths, is_trained):
            products = [2 * num_tokens * i * o for i, o in zip(widths, widths[1:])]
            trained = sum(p for p, yes in zip(products, is_trained) if yes)
            first = is_trained.index(True) if True in is_trained else len(products)
            return sum(products) + trained + sum(products[first + 1 :])
        """,
    ],
    features={
        **large_counts("u01-stack-training-flops"),
        "all trained": lambda case: all(case["is_trained"]),
        "none trained": lambda case: not any(case["is_trained"]),
        "first frozen": lambda case: not case["is_trained"][0] and any(case["is_trained"]),
        "frozen above trained": lambda case: case["is_trained"][0] and not all(case["is_trained"]),
        "one layer": lambda case: len(case["is_trained"]) == 1,
        "trained before two frozen": lambda c: c["is_trained"] == [False, True, False, False],
        "frozen between trained": lambda c: c["is_trained"][:3] == [True, False, True],
    },
)


def _crossover(result: str) -> str:
    return f"""
    def crossover_length(model):
        h, f = model.hidden_size, model.ffn_size
        a, kv, d = model.num_heads, model.num_kv_heads, model.head_dim
        linear, core = 4 * h * a * d + 4 * h * kv * d + 6 * h * f, 4 * a * d
        return {result}
    """


def _exact_crossover(case: dict[str, Any]) -> Fraction:
    """The length, with a fraction, at which core and rest are equal."""
    model = model_of(case["model"])
    width = model.num_heads * model.head_dim
    shared = 1 + Fraction(model.num_kv_heads, model.num_heads)
    return model.hidden_size * (shared + Fraction(3 * model.ffn_size, 2 * width))


def _crossovers_in_floats(model: ModelConfig) -> Iterator[float]:
    """The formula in floats, as people write it."""
    h, f, width = model.hidden_size, model.ffn_size, model.num_heads * model.head_dim
    shared = model.num_kv_heads / model.num_heads
    yield h * (1 + shared + 1.5 * f / width)
    yield h * (1 + shared) + 1.5 * f * h / width
    yield h + h * shared + 1.5 * h * (f / width)


CROSSOVER_LENGTH = AnswerBank(
    function="crossover_length",
    wrong=[
        Wrong(
            "the formula of a model as wide as its heads, rounded down",
            """
            def crossover_length(model):
                shared = model.hidden_size * model.num_kv_heads // model.num_heads
                return model.hidden_size + shared + 3 * model.ffn_size // 2
            """,
            HIDDEN_SIZE_FOR_WIDTH,
        ),
        Wrong(
            "rounded to the nearest with int",
            _crossover("int(linear / core + 0.5)"),
            "Has attention caught up at a length just below the exact one?",
        ),
        Wrong(
            "the exact formula in floats, rounded up",
            """
            import math

            def crossover_length(model):
                wider = model.hidden_size / (model.num_heads * model.head_dim)
                shared = 1 + model.num_kv_heads / model.num_heads
                return math.ceil(model.hidden_size * shared + 1.5 * model.ffn_size * wider)
            """,
            "floats miss an exact tie",
        ),
        Wrong(
            "a search that ends too early",
            """
            import bisect

            def crossover_length(model):
                h, width = model.hidden_size, model.num_heads * model.head_dim
                rest = 4 * h * (width + model.num_kv_heads * model.head_dim)
                rest += 6 * h * model.ffn_size
                lengths = range(100_000)
                return bisect.bisect_left(lengths, True, key=lambda s: 4 * width * s >= rest)
            """,
            "Does your search end too early?",
        ),
    ],
    right=[
        _crossover("-(-linear // core)"),
        """
        import math

        def crossover_length(model):
            shared = 1 + model.num_kv_heads / model.num_heads
            feed_forward = 1.5 * model.ffn_size / (model.num_heads * model.head_dim)
            return math.ceil(model.hidden_size * (shared + feed_forward) - 1e-6)
        """,
    ],
    features={
        **OWN_HEAD_DIM,
        "a tie": lambda case: _exact_crossover(case).denominator == 1,
        "a tie that floats miss": lambda case: any(
            math.ceil(length) > _exact_crossover(case) == int(_exact_crossover(case))
            for length in _crossovers_in_floats(model_of(case["model"]))
        ),
        "hardly more than a whole length": lambda case: 0 < _exact_crossover(case) % 1 < 0.001,
        "beyond 10**7 tokens": lambda case: _exact_crossover(case) > 10**7,
        "a little more than a whole length": lambda case: 0 < _exact_crossover(case) % 1 < 0.5,
        "a little less than a whole length": lambda case: _exact_crossover(case) % 1 > 0.5,
        "multi-head": lambda c: c["model"]["num_heads"] == c["model"]["num_kv_heads"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "grouped-query": lambda c: 1 < c["model"]["num_kv_heads"] < c["model"]["num_heads"],
        "a real model": lambda c: c["model"]["hidden_size"] == 4096,
    },
)


TRAINING_FLOPS_PER_TOKEN = AnswerBank(
    function="training_flops_per_token",
    wrong=[
        Wrong(
            "the bracket in floats",
            """
            def training_flops_per_token(model, seq_len):
                dim, layers = model.hidden_size, model.num_layers
                inside = 12 + 12 * model.num_kv_heads / model.num_heads
                inside += 18 * model.ffn_size / dim + 12 * seq_len / dim
                return round(layers * dim**2 * inside + 6 * model.vocab_size * dim)
            """,
            "Which order of operations keeps the number whole?",
        ),
    ],
    right=[
        """
        def training_flops_per_token(model, seq_len):
            dim, groups, heads = model.hidden_size, model.num_kv_heads, model.num_heads
            square = 12 * dim * dim + 12 * dim * dim * groups // heads
            layer = square + 18 * model.ffn_size * dim + 12 * seq_len * dim
            return model.num_layers * layer + 6 * model.vocab_size * dim
        """,
        """
        from fractions import Fraction

        def training_flops_per_token(model, seq_len):
            dim = model.hidden_size
            inside = 12 + 12 * Fraction(model.num_kv_heads, model.num_heads)
            inside += Fraction(18 * model.ffn_size + 12 * seq_len, dim)
            inside += Fraction(6 * model.vocab_size, model.num_layers * dim)
            return int(model.num_layers * dim**2 * inside)
        """,
        """
        def training_flops_per_token(model, seq_len):
            width, shared = (n * model.head_dim for n in (model.num_heads, model.num_kv_heads))
            linear = model.hidden_size * (4 * width + 4 * shared + 6 * model.ffn_size)
            of_layers = model.num_layers * seq_len * (linear + 4 * width * seq_len)
            forward = of_layers + 2 * seq_len * model.hidden_size * model.vocab_size
            return 3 * forward // seq_len
        """,
    ],
    features={
        **large_counts("u01-training-flops-per-token"),
        "tied": lambda case: case["model"]["is_tied"],
        "several layers": lambda case: case["model"]["num_layers"] > 1,
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a head that its layers cannot share": lambda c: (
            6 * c["model"]["vocab_size"] * c["model"]["hidden_size"] % c["model"]["num_layers"] > 0
        ),
        "groups that 12 cannot be shared among": lambda c: (
            12 * c["model"]["num_kv_heads"] % c["model"]["num_heads"] > 0
        ),
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)


UTILISATION = AnswerBank(
    function="utilisation",
    wrong=[
        Wrong(
            "one number",
            """
            def utilisation(model, num_params, seq_len, tokens_per_second, device):
                return 6 * num_params * tokens_per_second / device.dense_flops_per_second("bf16")
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "the formula of models as wide as their heads",
            """
            def utilisation(model, num_params, seq_len, tokens_per_second, device):
                dim, layers = model.hidden_size, model.num_layers
                square = 12 * dim * dim * (1 + model.num_kv_heads / model.num_heads)
                core = 12 * layers * dim * seq_len
                rest = layers * (square + 18 * dim * model.ffn_size) + 6 * model.vocab_size * dim
                rate = tokens_per_second / device.dense_flops_per_second("bf16")
                return {
                    "counted": (rest + core) * rate,
                    "causal": (rest + core / 2) * rate,
                    "six_n": 6 * num_params * rate,
                    "six_n_and_attention": (6 * num_params + core) * rate,
                }
            """,
            HIDDEN_SIZE_FOR_WIDTH,
            points=0.5,
        ),
    ],
    right=[
        """
        def utilisation(model, num_params, seq_len, tokens_per_second, device):
            h, d = model.hidden_size, model.head_dim
            heads = [model.num_heads] * 2 + [model.num_kv_heads] * 2
            weights = sum(h * d * number for number in heads) + h * model.ffn_size * 3
            all_weights = weights * model.num_layers + model.vocab_size * h
            scores = 2 * seq_len * model.num_heads * d * model.num_layers

            def share(flops):
                return flops * tokens_per_second / device.dense_flops_per_second("bf16")

            names = ("counted", "causal", "six_n", "six_n_and_attention")
            weights_of = (all_weights, all_weights, num_params, num_params)
            scores_of = (scores, scores / 2, 0, scores)
            return {n: share(6 * (w + s)) for n, w, s in zip(names, weights_of, scores_of)}
        """,
        """
        def utilisation(model, num_params, seq_len, tokens_per_second, device):
            peak = device.dense_peaks["bf16"]
            shared = model.num_kv_heads / model.num_heads
            width = model.num_heads * model.head_dim
            square = model.num_layers * model.hidden_size * width
            attention = square * 12 * seq_len / model.hidden_size
            layers = square * (12 + 12 * shared + 18 * model.ffn_size / width)
            rest = layers + 6 * model.vocab_size * model.hidden_size
            flops_per_token = {
                "six_n_and_attention": 6 * num_params + attention,
                "six_n": 6 * num_params,
                "causal": rest + attention / 2,
                "counted": rest + attention,
            }
            return {
                name: each / peak * tokens_per_second for name, each in flops_per_token.items()
            }
        """,
    ],
    features={
        **OWN_HEAD_DIM,
        "tied": lambda case: case["model"]["is_tied"],
        "untied head": lambda case: not case["model"]["is_tied"],
        "a share of less than nine decimals": lambda case: case["tokens_per_second"] == 1,
        "an H100": lambda case: case["hardware"] == "H100-SXM",
        "an A100": lambda case: case["hardware"] == "A100-80",
    },
)


BUDGET_RATIO = AnswerBank(
    function="budget_ratio",
    wrong=[
        Wrong(
            "one number",
            """
            def budget_ratio(model, old_seq_len, new_seq_len):
                return new_seq_len / old_seq_len
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        def budget_ratio(model, old_seq_len, new_seq_len):
            h, width = model.hidden_size, model.num_heads * model.head_dim
            projections = 4 * h * (width + model.num_kv_heads * model.head_dim)
            layers = model.num_layers * (projections + 6 * h * model.ffn_size)
            head = 2 * h * model.vocab_size
            core = 4 * model.num_layers * width
            old = old_seq_len * (layers + head + core * old_seq_len)
            new = new_seq_len * (layers + head + core * new_seq_len)
            whole_budget = (new / new_seq_len) / (old / old_seq_len)
            return {"per_sequence": new / old, "whole_budget": whole_budget}
        """,
        """
        def budget_ratio(model, old_seq_len, new_seq_len):
            def per_token(s):
                heads = 4 * model.num_heads + 4 * model.num_kv_heads
                rest = model.hidden_size * (heads * model.head_dim + 6 * model.ffn_size)
                core = 4 * model.num_heads * model.head_dim * s
                return model.num_layers * (rest + core) + 2 * model.vocab_size * model.hidden_size

            budget = per_token(new_seq_len) / per_token(old_seq_len)
            return {"whole_budget": budget, "per_sequence": budget * new_seq_len / old_seq_len}
        """,
    ],
    features={
        **OWN_HEAD_DIM,
        "longer": lambda case: case["new_seq_len"] > case["old_seq_len"],
        "shorter": lambda case: case["new_seq_len"] < case["old_seq_len"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)


def _latent(weights: str, core: str) -> str:
    return f"""
    def latent_attention_flops(model, num_sequences, seq_len):
        sizes = model.latent_attention
        h, a, q, k = model.hidden_size, model.num_heads, sizes.q_rank, sizes.kv_rank
        n, r, v = sizes.nope_head_dim, sizes.rope_head_dim, sizes.value_head_dim
        return {{
            "projection_flops": 2 * num_sequences * seq_len * ({weights}),
            "core_flops": 2 * num_sequences * a * seq_len**2 * ({core}),
        }}
    """


LATENT_ATTENTION_FLOPS = AnswerBank(
    function="latent_attention_flops",
    wrong=[
        Wrong(
            "grouped attention instead",
            _latent("4 * h * a * v", "2 * v"),
            "At which step do you and your code part ways?",
        ),
        Wrong(
            "floats on the way",
            _latent(
                "1.0 * h * q + q * a * (n + r) + h * (k + r) + k * a * (n + v) + a * v * h",
                "1.0 * n + r + v",
            ),
            FLOAT,
        ),
    ],
    right=[
        _latent("(h + a * (n + r)) * q + h * r + (h + a * n + a * v) * k + a * v * h", "n + r + v"),
        """
        def latent_attention_flops(model, num_sequences, seq_len):
            sizes, heads = model.latent_attention, model.num_heads
            tokens = num_sequences * seq_len

            def product(inner, columns, rows=tokens):
                return 2 * rows * inner * columns

            key = sizes.nope_head_dim + sizes.rope_head_dim
            projections = product(model.hidden_size, sizes.q_rank)
            projections += product(sizes.q_rank, heads * key)
            projections += product(model.hidden_size, sizes.kv_rank + sizes.rope_head_dim)
            projections += product(sizes.kv_rank, heads * sizes.nope_head_dim)
            projections += product(sizes.kv_rank, heads * sizes.value_head_dim)
            projections += product(heads * sizes.value_head_dim, model.hidden_size)
            scores = num_sequences * heads * product(key, seq_len, rows=seq_len)
            values = num_sequences * heads * product(seq_len, sizes.value_head_dim, rows=seq_len)
            return {"core_flops": scores + values, "projection_flops": projections}
        """,
    ],
    features={
        **large_counts("u01-latent-attention-flops"),
        "one head": lambda case: case["model"]["num_heads"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "DeepSeek-V3": lambda case: case["model"]["hidden_size"] == 7168,
    },
)


def _experts(total: str, active: str) -> str:
    return f"""
    def expert_parameters(
        hidden_size, num_experts, experts_per_token, expert_ffn_size, num_shared_experts
    ):
        router = hidden_size * num_experts
        one = 3 * hidden_size * expert_ffn_size
        return {{"total_parameters": {total}, "active_parameters": {active}}}
    """


EXPERT_PARAMETERS = AnswerBank(
    function="expert_parameters",
    wrong=[
        Wrong(
            "one number",
            """
            def expert_parameters(hidden_size, num_experts, *sizes):
                return hidden_size * num_experts
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "floats on the way",
            _experts(
                "int(router + 1.0 * (num_experts + num_shared_experts) * one)",
                "int(router + 1.0 * (experts_per_token + num_shared_experts) * one)",
            ),
            FLOAT,
        ),
    ],
    right=[
        _experts(
            "router + (num_experts + num_shared_experts) * one",
            "router + one * num_shared_experts + one * experts_per_token",
        ),
        """
        def expert_parameters(h, num_experts, per_token, f, num_shared):
            up = gate = down = h * f

            def layer(experts):
                return h * num_experts + (experts + num_shared) * (up + gate + down)

            return {"active_parameters": layer(per_token), "total_parameters": layer(num_experts)}
        """,
    ],
    features={
        **large_counts("u01-expert-parameters"),
        "no shared expert": lambda case: case["num_shared_experts"] == 0,
        "shared experts": lambda case: case["num_shared_experts"] > 1,
        "one expert for a token": lambda case: case["experts_per_token"] == 1,
        "all experts for a token": lambda case: case["experts_per_token"] == case["num_experts"],
        "DeepSeek-V3": lambda case: case["hidden_size"] == 7168,
    },
)

BANKS = {
    "u01-matmul-flops": MATMUL_FLOPS,
    "u01-attention-flops": ATTENTION_FLOPS,
    "u01-gated-mlp-flops": GATED_MLP_FLOPS,
    "u01-model-flops": MODEL_FLOPS,
    "u01-stack-training-flops": STACK_TRAINING_FLOPS,
    "u01-crossover-length": CROSSOVER_LENGTH,
    "u01-training-flops-per-token": TRAINING_FLOPS_PER_TOKEN,
    "u01-utilisation": UTILISATION,
    "u01-budget-ratio": BUDGET_RATIO,
    "u01-latent-attention-flops": LATENT_ATTENTION_FLOPS,
    "u01-expert-parameters": EXPERT_PARAMETERS,
}
