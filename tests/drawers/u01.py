"""Drawers of unit 01."""

from tests.drawers import Drawer, Wrong


def _returning(forward: str, backward: str) -> str:
    return f"""
    def matmul_flops(rows, inner, columns):
        return {{"forward_flops": {forward}, "backward_flops": {backward}}}
    """


MATMUL_FLOPS = Drawer(
    function="matmul_flops",
    wrong=[
        Wrong(
            "multiplications only",
            _returning("rows * inner * columns", "2 * rows * inner * columns"),
            "What happens to the products after that?",
        ),
        Wrong(
            "backward is one product",
            _returning("2 * rows * inner * columns", "2 * rows * inner * columns"),
            "For which tensors does autograd want a gradient?",
            points=1.0,
        ),
        Wrong(
            "backward holds the forward too",
            _returning("2 * rows * inner * columns", "6 * rows * inner * columns"),
            "Which part of it is the backward pass alone?",
            points=1.0,
        ),
        Wrong(
            "backward is one product without its additions",
            _returning("2 * rows * inner * columns", "rows * inner * columns"),
            "what does each do besides multiplying?",
            points=1.0,
        ),
        Wrong(
            "forward without additions",
            _returning("rows * inner * columns", "4 * rows * inner * columns"),
            "What happens to the products after that?",
            points=1.0,
        ),
        Wrong(
            "off by one operation",
            _returning("2 * rows * inner * columns + 1", "4 * rows * inner * columns"),
            "At which step do you and your code part?",
            points=1.0,
        ),
        Wrong(
            "no inner size",
            _returning("2 * rows * columns", "4 * rows * columns"),
            "How many pairs of numbers meet in one entry?",
        ),
        Wrong(
            "one operation for each entry",
            _returning("rows * columns", "2 * rows * columns"),
            "How many numbers meet in one entry?",
        ),
        Wrong(
            "d - 1 additions",
            _returning(
                "rows * columns * (2 * inner - 1)",
                "rows * inner * (2 * columns - 1) + inner * columns * (2 * rows - 1)",
            ),
            "Which convention does the card state?",
        ),
        Wrong(
            "d - 1 additions, backward twice the forward",
            _returning("rows * columns * (2 * inner - 1)", "2 * rows * columns * (2 * inner - 1)"),
            "Which convention does the card state?",
        ),
        Wrong(
            "the two under each other's name",
            _returning("4 * rows * inner * columns", "2 * rows * inner * columns"),
            "Which pass makes two products?",
        ),
        Wrong(
            "only the total of training",
            """
            def matmul_flops(rows, inner, columns):
                return 6 * rows * inner * columns
            """,
            "What does the card ask your function to return?",
        ),
        Wrong(
            "reads the answer off the course",
            """
            from course_utils.formulas import flops

            def matmul_flops(rows, inner, columns):
                return flops.matmul_flops(rows, inner, columns)
            """,
            "How would you work it out with arithmetic of your own?",
        ),
        Wrong(
            "asks the instrument",
            """
            import torch

            def matmul_flops(rows, inner, columns):
                from course_utils.instruments import count_flops

                a = torch.empty(rows, inner, device="meta", requires_grad=True)
                b = torch.empty(inner, columns, device="meta", requires_grad=True)
                return count_flops(lambda: a @ b)._asdict()
            """,
            "How would you work it out with arithmetic of your own?",
        ),
    ],
    right=[
        _returning("2 * inner * (rows * columns)", "2 * (rows * columns) * inner * 2"),
        """
        def matmul_flops(rows, inner, columns):
            def product(m, d, n):
                return m * n * (d + d)

            grad_a = product(rows, columns, inner)
            grad_b = product(inner, rows, columns)
            return dict(forward_flops=product(rows, inner, columns), backward_flops=grad_a + grad_b)
        """,
        _returning("2.0 * rows * inner * columns", "4.0 * rows * inner * columns"),
    ],
    features={
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


ATTENTION_FLOPS = Drawer(
    function="attention_flops",
    wrong=[
        Wrong(
            "keys and values as wide as queries",
            _attention("8 * b * s * (a * d) ** 2", _CORE),
            "How many heads do they have?",
            points=1.0,
        ),
        Wrong(
            "projections without additions",
            _attention("b * s * a * d * (2 * a * d + 2 * kv * d)", _CORE),
            "What does a matrix product do besides multiplying?",
            points=1.0,
        ),
        Wrong(
            "no output projection",
            _attention("2 * b * s * a * d * (a * d + 2 * kv * d)", _CORE),
            "What happens after the heads are put together again?",
            points=1.0,
        ),
        Wrong(
            "the core with the heads of keys and values",
            _attention(_PROJECTIONS, "4 * b * kv * s * s * d"),
            "Does a query head meet fewer tokens because of it?",
            points=1.0,
        ),
        Wrong(
            "the batch's tokens squared",
            _attention(_PROJECTIONS, "4 * a * (b * s) ** 2 * d"),
            "Does a token look at other sequences?",
            points=1.0,
        ),
        Wrong(
            "scores without values",
            _attention(_PROJECTIONS, "2 * b * a * s * s * d"),
            "What are the scores multiplied with?",
            points=1.0,
        ),
        Wrong(
            "one sequence",
            _attention(_PROJECTIONS, "4 * a * s * s * d"),
            "Does each of them cost the same again?",
            points=1.0,
        ),
        Wrong(
            "one head",
            _attention(_PROJECTIONS, "4 * b * s * s * d"),
            "How many heads compute scores?",
            points=1.0,
        ),
        Wrong(
            "one number for both",
            f"""
            {_ATTENTION}
                {_LETTERS}
                return {_PROJECTIONS} + {_CORE}
            """,
            "What does the card ask your function to return?",
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
        _attention("4 * b * s * (a * d) * (a + kv) * d", "2.0 * b * (2 * s) * s * (a * d)"),
    ],
    features={
        "own keys and values": lambda case: case["num_heads"] == case["num_kv_heads"],
        "grouped": lambda case: 1 < case["num_kv_heads"] < case["num_heads"],
        "single": lambda case: 1 == case["num_kv_heads"] < case["num_heads"],
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


GATED_MLP_FLOPS = Drawer(
    function="gated_mlp_flops",
    wrong=[
        Wrong("two matrices", _mlp("4 * num_tokens * hidden_size * ffn_size"), "a gate add?"),
        Wrong("no additions", _mlp("3 * num_tokens * hidden_size * ffn_size"), "besides multi"),
        Wrong(
            "an inner width of 4 h",
            _mlp("6 * num_tokens * hidden_size * 4 * hidden_size"),
            "how wide the block is inside?",
        ),
        Wrong(
            "training",
            _mlp("18 * num_tokens * hidden_size * ffn_size"),
            "Which passes are asked for?",
        ),
        Wrong("one token", _mlp("6 * hidden_size * ffn_size"), "How often is the block used?"),
        Wrong(
            "the lecture's ratio of 3.5",
            _mlp("21 * num_tokens * hidden_size ** 2"),
            "At which step do you and your code part?",
        ),
    ],
    right=[
        _mlp("3 * (2 * num_tokens * hidden_size * ffn_size)"),
        """
        def gated_mlp_flops(num_tokens, hidden_size, ffn_size):
            shapes = [(hidden_size, ffn_size)] * 2 + [(ffn_size, hidden_size)]
            return sum(2 * num_tokens * inner * outer for inner, outer in shapes)
        """,
    ],
    features={
        "one token": lambda case: case["num_tokens"] == 1,
        "square": lambda case: case["hidden_size"] == case["ffn_size"],
        "a real layer": lambda case: case["hidden_size"] == 4096,
    },
)

_MODEL = """
    def model_flops(model, num_sequences, seq_len):
        b, s, h, f = num_sequences, seq_len, model.hidden_size, model.ffn_size
        a, d, v = model.num_heads, model.head_dim, model.vocab_size
        kv = {kv}
        linear = 2 * h * (2 * a * d + 2 * kv * d) + 6 * h * f
        core = {core}
        layer = b * s * linear + core
        head = 2 * b * s * h * v
        return {result}
"""


def _model(
    result: str = "model.num_layers * layer + head",
    kv: str = "model.num_kv_heads",
    core: str = "4 * b * a * d * s * s",
) -> str:
    return _MODEL.format(result=result, kv=kv, core=core)


MODEL_FLOPS = Drawer(
    function="model_flops",
    wrong=[
        Wrong("no head", _model("model.num_layers * layer"), "become logits over the vocabulary?"),
        Wrong(
            "the head in every layer",
            _model("model.num_layers * (layer + head)"),
            "How often does a model compute logits?",
        ),
        Wrong(
            "the batch's tokens squared",
            _model(core="4 * a * d * (b * s) ** 2"),
            "Does a token look at other sequences?",
        ),
        Wrong("no attention core", _model(core="0"), "between queries and keys?"),
        Wrong(
            "keys and values as wide as queries",
            _model(kv="model.num_heads"),
            "How many heads do they have?",
        ),
        Wrong(
            "the embedding as a product",
            _model("model.num_layers * layer + 2 * head"),
            "What does it do with a token id?",
        ),
        Wrong("one layer", _model("layer + head"), "How many layers are there?"),
        Wrong(
            "training",
            _model("3 * (model.num_layers * layer + head)"),
            "What do you count that is not asked for?",
        ),
    ],
    right=[
        _model(),
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
        "tied": lambda case: case["model"]["is_tied"],
        "free head": lambda case: not case["model"]["is_tied"],
        "own keys and values": lambda c: c["model"]["num_heads"] == c["model"]["num_kv_heads"],
        "single keys and values": lambda c: c["model"]["num_kv_heads"] == 1,
        "grouped": lambda c: 1 < c["model"]["num_kv_heads"] < c["model"]["num_heads"],
        "several sequences": lambda case: case["num_sequences"] > 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)

_STACK = """
    def stack_training_flops(num_tokens, widths, is_trained):
        total = 0
        for n, trained in enumerate(is_trained):
            product = 2 * num_tokens * widths[n] * widths[n + 1]
            total += product * ({factor})
        return total
"""

STACK_TRAINING_FLOPS = Drawer(
    function="stack_training_flops",
    wrong=[
        Wrong("three everywhere", _STACK.format(factor="3"), "Who wants the gradient of the data?"),
        Wrong("forward only", _STACK.format(factor="1"), "What does the backward pass add?"),
        Wrong(
            "only the first layer is different",
            _STACK.format(factor="3 if n else 2"),
            "Which product does a frozen layer leave out?",
        ),
        Wrong(
            "a frozen layer passes nothing on",
            _STACK.format(factor="1 + trained + (trained and any(is_trained[:n]))"),
            "Which product is that?",
        ),
        Wrong(
            "gradients go back to the second layer always",
            _STACK.format(factor="1 + trained + (n > 0)"),
            "Is any layer before this one trained?",
        ),
        Wrong(
            "no additions",
            _STACK.format(factor="(1 + trained + any(is_trained[:n])) / 2"),
            "Exactly half in every case.",
        ),
    ],
    right=[
        _STACK.format(factor="1 + trained + any(is_trained[:n])"),
        """
        def stack_training_flops(num_tokens, widths, is_trained):
            products = [2 * num_tokens * i * o for i, o in zip(widths, widths[1:])]
            trained = sum(p for p, yes in zip(products, is_trained) if yes)
            first = is_trained.index(True) if True in is_trained else len(products)
            return sum(products) + trained + sum(products[first + 1 :])
        """,
    ],
    features={
        "all trained": lambda case: all(case["is_trained"]),
        "none trained": lambda case: not any(case["is_trained"]),
        "first frozen": lambda case: not case["is_trained"][0] and any(case["is_trained"]),
        "frozen above trained": lambda case: case["is_trained"][0] and not all(case["is_trained"]),
        "one layer": lambda case: len(case["is_trained"]) == 1,
    },
)


def _crossover(linear: str, core: str = "4 * a * d", rounding: str = "-(-linear // core)") -> str:
    return f"""
    def crossover_length(model):
        h, f = model.hidden_size, model.ffn_size
        a, kv, d = model.num_heads, model.num_kv_heads, model.head_dim
        linear, core = {linear}, {core}
        return {rounding}
    """


_LINEAR = "4 * h * a * d + 4 * h * kv * d + 6 * h * f"

CROSSOVER_LENGTH = Drawer(
    function="crossover_length",
    wrong=[
        Wrong(
            "the slide's 4 D",
            "def crossover_length(model):\n    return 4 * model.hidden_size",
            "when you write out both sides?",
        ),
        Wrong("feed-forward alone", _crossover("6 * h * f"), "What else grows linearly?"),
        Wrong(
            "projections alone",
            _crossover("4 * h * a * d + 4 * h * kv * d"),
            "What else grows linearly?",
        ),
        Wrong(
            "keys and values as wide as queries",
            _crossover("8 * h * h + 6 * h * f"),
            "How many heads do they have?",
        ),
        Wrong(
            "rounded down",
            _crossover(_LINEAR, rounding="linear // core"),
            "the first at which attention has caught up?",
        ),
        Wrong("one product", _crossover(_LINEAR, "2 * a * d"), "What are the scores multiplied"),
    ],
    right=[
        _crossover(_LINEAR),
        """
        import math

        def crossover_length(model):
            kv = model.num_kv_heads / model.num_heads
            return math.ceil(model.hidden_size * (1 + kv) + 1.5 * model.ffn_size - 1e-6)
        """,
    ],
    features={
        "own keys and values": lambda c: c["model"]["num_heads"] == c["model"]["num_kv_heads"],
        "single": lambda c: c["model"]["num_kv_heads"] == 1,
        "grouped": lambda c: 1 < c["model"]["num_kv_heads"] < c["model"]["num_heads"],
        "a real model": lambda c: c["model"]["hidden_size"] == 4096,
    },
)


def _days(result: str) -> str:
    return f"""
    def gpu_days(flops_per_token, num_tokens, peak_flops_per_second, utilisation):
        work, rate = flops_per_token * num_tokens, peak_flops_per_second * utilisation
        return {result}
    """


GPU_DAYS = Drawer(
    function="gpu_days",
    wrong=[
        Wrong("at the peak", _days("work / peak_flops_per_second / 86400"), "say about the rate?"),
        Wrong(
            "times the utilisation",
            _days("work / peak_flops_per_second * utilisation / 86400"),
            "Does a device that idles finish earlier?",
        ),
        Wrong("seconds", _days("work / rate"), "How many has a day?"),
        Wrong("hours", _days("work / rate / 3600"), "Those are hours."),
        Wrong("one token", _days("flops_per_token / rate / 86400"), "does the run see?"),
        Wrong("training again", _days("3 * work / rate / 86400"), "in flops_per_token already?"),
    ],
    right=[
        _days("work / rate / (24 * 60 * 60)"),
        """
        SECONDS = 24 * 3600

        def gpu_days(flops_per_token, num_tokens, peak_flops_per_second, utilisation):
            tokens_per_day = SECONDS * utilisation * peak_flops_per_second / flops_per_token
            return num_tokens / tokens_per_day
        """,
    ],
    features={
        "Llama-3-8B": lambda case: case["num_tokens"] == 15 * 10**12,
        "an A100": lambda case: case["peak_flops_per_second"] == 312 * 10**12,
        "a short run": lambda case: case["num_tokens"] < 10**9,
    },
)


def _repaired(
    layer: str = "square + 18 * ffn * dim + 12 * seq_len * dim",
    head: str = "+ 6 * vocab * dim",
    ratio: str = "groups // heads",
) -> str:
    return f"""
    def training_flops_per_token(model, seq_len):
        layers, dim, ffn = model.num_layers, model.hidden_size, model.ffn_size
        heads, groups, vocab = model.num_heads, model.num_kv_heads, model.vocab_size
        square = 12 * dim**2 + 12 * dim**2 * {ratio}
        return layers * ({layer}) {head}
    """


TRAINING_FLOPS_PER_TOKEN = Drawer(
    function="training_flops_per_token",
    wrong=[
        Wrong(
            "as printed",
            _repaired("square + 18 * ffn * dim + 12 * seq_len * dim + 6 * vocab * dim", head=""),
            "How often does a model compute logits?",
        ),
        Wrong(
            "two matrices",
            _repaired("square + 12 * ffn * dim + 12 * seq_len * dim"),
            "How many has a gated one?",
        ),
        Wrong(
            "the causal half",
            _repaired("square + 18 * ffn * dim + 6 * seq_len * dim"),
            "Which attention does the convention count?",
        ),
        Wrong(
            "the ratio upside down",
            _repaired(ratio="heads // groups"),
            "Which is smaller, query or key-value heads?",
        ),
        Wrong("no head", _repaired(head=""), "Who turns hidden states into logits?"),
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
    ],
    features={
        "tied": lambda case: case["model"]["is_tied"],
        "several layers": lambda case: case["model"]["num_layers"] > 1,
        "single keys and values": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)

DRAWERS = {
    "u01-matmul-flops": MATMUL_FLOPS,
    "u01-attention-flops": ATTENTION_FLOPS,
    "u01-gated-mlp-flops": GATED_MLP_FLOPS,
    "u01-model-flops": MODEL_FLOPS,
    "u01-stack-training-flops": STACK_TRAINING_FLOPS,
    "u01-crossover-length": CROSSOVER_LENGTH,
    "u01-gpu-days": GPU_DAYS,
    "u01-training-flops-per-token": TRAINING_FLOPS_PER_TOKEN,
}
