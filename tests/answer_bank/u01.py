"""Answer banks of unit 01."""

from tests.answer_bank import AnswerBank, Wrong


def _matmul(forward: str, backward: str) -> str:
    return f"""
    def matmul_flops(rows, inner, columns):
        return {{"forward_flops": {forward}, "backward_flops": {backward}}}
    """


MATMUL_FLOPS = AnswerBank(
    function="matmul_flops",
    wrong=[
        Wrong(
            "multiplications only",
            _matmul("rows * inner * columns", "2 * rows * inner * columns"),
            "What happens to the products after that?",
        ),
        Wrong(
            "backward is one product",
            _matmul("2 * rows * inner * columns", "2 * rows * inner * columns"),
            "How many products does it make",
            points=1.0,
        ),
        Wrong(
            "two products without additions",
            _matmul("2 * rows * inner * columns", "rows * inner * columns * 2"),
            "what does each do besides multiplying?",
            points=1.0,
        ),
        Wrong(
            "backward holds the forward too",
            _matmul("2 * rows * inner * columns", "6 * rows * inner * columns"),
            "Which part of it is the backward pass alone?",
            points=1.0,
        ),
        Wrong(
            "backward is one product without its additions",
            _matmul("2 * rows * inner * columns", "rows * inner * columns"),
            "what does each do besides multiplying?",
            points=1.0,
        ),
        Wrong(
            "forward without additions",
            _matmul("rows * inner * columns", "4 * rows * inner * columns"),
            "What happens to the products after that?",
            points=1.0,
        ),
        Wrong(
            "off by one operation",
            _matmul("2 * rows * inner * columns + 1", "4 * rows * inner * columns"),
            "At which step do you and your code part?",
            points=1.0,
        ),
        Wrong(
            "no inner size",
            _matmul("2 * rows * columns", "4 * rows * columns"),
            "How many pairs of numbers meet in one entry?",
        ),
        Wrong(
            "one operation for each entry",
            _matmul("rows * columns", "2 * rows * columns"),
            "How many numbers meet in one entry?",
        ),
        Wrong(
            "d - 1 additions",
            _matmul(
                "rows * columns * (2 * inner - 1)",
                "rows * inner * (2 * columns - 1) + inner * columns * (2 * rows - 1)",
            ),
            "Which convention does the exercise state?",
        ),
        Wrong(
            "d - 1 additions, backward twice the forward",
            _matmul("rows * columns * (2 * inner - 1)", "2 * rows * columns * (2 * inner - 1)"),
            "Which convention does the exercise state?",
        ),
        Wrong(
            "forward and backward swapped",
            _matmul("4 * rows * inner * columns", "2 * rows * inner * columns"),
            "Which pass makes two products?",
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
        _matmul("2.0 * rows * inner * columns", "4.0 * rows * inner * columns"),
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


ATTENTION_FLOPS = AnswerBank(
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
            "projections of one sequence",
            _attention("2 * s * a * d * (2 * a * d + 2 * kv * d)", _CORE),
            "How many sequences are there?",
            points=1.0,
        ),
        Wrong(
            "the core with key-value heads only",
            _attention(_PROJECTIONS, "4 * b * kv * s * s * d"),
            "Does a query head meet fewer tokens because of it?",
            points=1.0,
        ),
        Wrong(
            "all tokens of the batch squared",
            _attention(_PROJECTIONS, "4 * a * (b * s) ** 2 * d"),
            "Does a token look at other sequences?",
            points=1.0,
        ),
        Wrong(
            "scores without values",
            _attention(_PROJECTIONS, "2 * b * a * s * s * d"),
            "How many products are in it",
            points=1.0,
        ),
        Wrong(
            "half of the core for the causal mask",
            _attention(_PROJECTIONS, "(4 * b * a * s * s * d) // 2"),
            "which pairs does the convention count under a causal mask?",
            points=1.0,
        ),
        Wrong(
            "the causal mask's pairs, diagonal included",
            _attention(_PROJECTIONS, "4 * b * a * d * (s * (s + 1) // 2)"),
            "Which pairs does the convention count?",
            points=1.0,
        ),
        *(
            Wrong(
                f"{each} operations of the softmax for each score",
                _attention(_PROJECTIONS, f"{_CORE} + {each} * b * a * s * s"),
                "say of the softmax?",
                points=1.0,
            )
            for each in (1, 3, 5)
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
            "What does the exercise ask your function to return?",
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
            "two matrices",
            _mlp("4 * num_tokens * hidden_size * ffn_size"),
            "Which three matrices does the exercise name?",
        ),
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
        Wrong("one token", _mlp("6 * hidden_size * ffn_size"), "How many go through the block?"),
        Wrong(
            "the gate's products",
            _mlp("num_tokens * ffn_size * (6 * hidden_size + 1)"),
            "say of activation and gating?",
        ),
        Wrong(
            "activation and gate",
            _mlp("6 * num_tokens * hidden_size * ffn_size + 5 * num_tokens * ffn_size"),
            "say of activation and gating?",
        ),
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


MODEL_FLOPS = AnswerBank(
    function="model_flops",
    wrong=[
        Wrong("no head", _model("model.num_layers * layer"), "become logits over the vocabulary?"),
        Wrong(
            "the head in every layer",
            _model("model.num_layers * (layer + head)"),
            "How often does a model compute logits?",
        ),
        Wrong(
            "all tokens of the batch squared",
            _model(core="4 * a * d * (b * s) ** 2"),
            "Does a token look at other sequences?",
        ),
        Wrong("no attention core", _model(core="0"), "between queries and keys?"),
        Wrong(
            "the head of untied models only",
            _model("model.num_layers * layer + (0 if model.is_tied else head)"),
            "Are the logits of a tied model for free?",
        ),
        Wrong(
            "matrices for one sequence",
            _model("(model.num_layers * (s * linear) + 2 * s * h * v) + model.num_layers * core"),
            "How many tokens go through a matrix?",
        ),
        Wrong(
            "keys and values as wide as queries",
            _model(kv="model.num_heads"),
            "How many heads do they have?",
        ),
        Wrong(
            "the embedding as a product",
            _model("model.num_layers * layer + 2 * head"),
            "Which tables with v rows",
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
        "untied head": lambda case: not case["model"]["is_tied"],
        "multi-head": lambda c: c["model"]["num_heads"] == c["model"]["num_kv_heads"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "grouped-query": lambda c: 1 < c["model"]["num_kv_heads"] < c["model"]["num_heads"],
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

STACK_TRAINING_FLOPS = AnswerBank(
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
            "frozen layers pass no gradient on",
            _STACK.format(factor="1 + trained + (trained and any(is_trained[:n]))"),
            "Which product is that?",
        ),
        Wrong(
            "gradients always go back to the second layer",
            _STACK.format(factor="1 + trained + (n > 0)"),
            "Is any layer before this one trained?",
        ),
        Wrong(
            "only the layer before",
            _STACK.format(factor="1 + trained + (n > 0 and is_trained[n - 1])"),
            "Who passes a gradient on to a layer further down?",
        ),
        Wrong(
            "the gradient of the input for trained layers",
            _STACK.format(factor="1 + trained + (n > 0 and trained)"),
            "For whom is it made?",
        ),
        Wrong(
            "the gradient of the input always",
            _STACK.format(factor="2 + trained"),
            "does nobody before them wait for it?",
        ),
        Wrong(
            "the layers after it, and itself",
            _STACK.format(factor="1 + trained + any(is_trained[n:])"),
            "To which side does the gradient of an input go on?",
        ),
        Wrong(
            "the layers after it",
            _STACK.format(factor="1 + trained + any(is_trained[n + 1 :])"),
            "To which side does the gradient of an input go on?",
        ),
        Wrong(
            "the layer itself waits",
            _STACK.format(factor="1 + trained + any(is_trained[: n + 1])"),
            "Which layers come before it?",
        ),
        Wrong(
            "three or one",
            _STACK.format(factor="3 if trained else 1"),
            "who waits behind a frozen layer?",
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
        "frozen between trained": lambda c: c["is_trained"][:3] == [True, False, True],
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

CROSSOVER_LENGTH = AnswerBank(
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
        Wrong(
            "one too far at a tie",
            _crossover(_LINEAR, rounding="linear // core + 1"),
            "say about a tie?",
        ),
        Wrong("one product", _crossover(_LINEAR, "2 * a * d"), "How many products are in it"),
        Wrong(
            "the head beside one layer",
            _crossover(f"{_LINEAR} + 2 * h * model.vocab_size"),
            "Is it a part of a layer?",
        ),
        Wrong(
            "the head beside all layers",
            _crossover(
                f"model.num_layers * ({_LINEAR}) + 2 * h * model.vocab_size",
                "model.num_layers * 4 * a * d",
            ),
            "Is it a part of a layer?",
        ),
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
        "multi-head": lambda c: c["model"]["num_heads"] == c["model"]["num_kv_heads"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "grouped-query": lambda c: 1 < c["model"]["num_kv_heads"] < c["model"]["num_heads"],
        "a real model": lambda c: c["model"]["hidden_size"] == 4096,
    },
)


def _days(result: str) -> str:
    return f"""
    def gpu_days(flops_per_token, num_tokens, peak_flops_per_second, utilisation):
        work, rate = flops_per_token * num_tokens, peak_flops_per_second * utilisation
        return {result}
    """


GPU_DAYS = AnswerBank(
    function="gpu_days",
    wrong=[
        Wrong("at the peak", _days("work / peak_flops_per_second / 86400"), "say about the rate?"),
        Wrong(
            "times the utilisation",
            _days("work / peak_flops_per_second * utilisation / 86400"),
            "Does a device that idles finish earlier?",
        ),
        Wrong("seconds", _days("work / rate"), "How many are in a day?"),
        Wrong("hours", _days("work / rate / 3600"), "Those are hours."),
        Wrong("one token", _days("flops_per_token / rate / 86400"), "does the run see?"),
        Wrong("training again", _days("3 * work / rate / 86400"), "in flops_per_token already?"),
    ],
    right=[
        _days("work / rate / (24 * 60 * 60)"),
        _days("float(f'{work / rate / 86400:.12g}')"),
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


TRAINING_FLOPS_PER_TOKEN = AnswerBank(
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
        Wrong(
            "remainders thrown away in the bracket",
            """
            def training_flops_per_token(model, seq_len):
                dim, heads, groups = model.hidden_size, model.num_heads, model.num_kv_heads
                inside = 12 + 12 * groups // heads + 18 * model.ffn_size // dim
                inside += 12 * seq_len // dim
                return model.num_layers * dim**2 * inside + 6 * model.vocab_size * dim
            """,
            "In which order of operations is there no remainder?",
        ),
        Wrong(
            "the head without its width",
            _repaired(head="+ 6 * vocab"),
            "Your head has lost its width. By what",
        ),
        Wrong(
            "the head as in the bracket",
            _repaired(head="+ 6 * vocab / dim"),
            "Your head has lost its width twice.",
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
    ],
    features={
        "tied": lambda case: case["model"]["is_tied"],
        "several layers": lambda case: case["model"]["num_layers"] > 1,
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)


def _multiplying(total: str, *lines: str) -> str:
    body = "".join(f"\n        {line}" for line in lines)
    return f"""
    def multiplying_parameters(model):
        h, layers, v = model.hidden_size, model.num_layers, model.vocab_size
        shared = model.num_kv_heads * model.head_dim
        attention, block = 2 * h * h + 2 * h * shared, 3 * h * model.ffn_size{body}
        return {total}
    """


MULTIPLYING_PARAMETERS = AnswerBank(
    function="multiplying_parameters",
    wrong=[
        Wrong(
            "all parameters",
            _multiplying(
                "once + layers * (attention + block + 2 * h) + h",
                "once = v * h if model.is_tied else 2 * v * h",
            ),
            "Which of them does a token only look up",
        ),
        Wrong(
            "embedding and head",
            _multiplying("2 * v * h + layers * (attention + block)"),
            "Which of the two multiplies?",
        ),
        Wrong(
            "the norms too",
            _multiplying("v * h + layers * (attention + block + 2 * h) + h"),
            "Is their weight a matrix?",
        ),
        Wrong(
            "no head",
            _multiplying("layers * (attention + block)"),
            "does it multiply any less?",
        ),
        Wrong(
            "no head where it is tied",
            _multiplying(
                "head + layers * (attention + block)", "head = 0 if model.is_tied else v * h"
            ),
            "Are the logits of a tied model for free?",
        ),
        Wrong(
            "keys and values as wide as queries",
            _multiplying("v * h + layers * (4 * h * h + block)"),
            "How many heads do they have?",
        ),
        Wrong(
            "a GPT's layers",
            _multiplying("12 * layers * h**2 + h * v"),
            "how many heads have keys and values?",
        ),
        Wrong(
            "two matrices in the block",
            _multiplying("v * h + layers * (attention + 2 * h * model.ffn_size)"),
            "How many does a gate add?",
        ),
        Wrong(
            "the lecture's N",
            _multiplying("h * v + layers * (12 * h**2 + 13 * h) + 2 * h"),
            "How wide is this model's feed-forward block",
        ),
        Wrong(
            "one layer",
            _multiplying("v * h + attention + block"),
            "At which step do you and your code part?",
        ),
    ],
    right=[
        _multiplying("layers * (block + attention) + h * v"),
        """
        def multiplying_parameters(model):
            heads = 2 * model.num_heads + 2 * model.num_kv_heads
            row = heads * model.head_dim + 3 * model.ffn_size
            return model.hidden_size * (model.num_layers * row + model.vocab_size)
        """,
    ],
    features={
        "tied": lambda case: case["model"]["is_tied"],
        "untied head": lambda case: not case["model"]["is_tied"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)


def _utilisation(
    counted: str = "rest + core",
    causal: str = "rest + core // 2",
    six_n: str = "6 * num_params",
    six_n_and_attention: str = "6 * num_params + core",
    peak: str = 'device.dense_flops_per_second("bf16")',
) -> str:
    return f"""
    def utilisation(model, num_params, seq_len, tokens_per_second, device):
        h, width = model.hidden_size, model.num_heads * model.head_dim
        projections = 2 * h * (width + model.num_kv_heads * model.head_dim)
        layer = projections + 3 * h * model.ffn_size
        rest = 6 * (model.num_layers * layer + model.vocab_size * h)
        core = 12 * model.num_layers * width * seq_len
        rate = tokens_per_second / {peak}
        return {{
            "counted": ({counted}) * rate,
            "causal": ({causal}) * rate,
            "six_n": ({six_n}) * rate,
            "six_n_and_attention": ({six_n_and_attention}) * rate,
        }}
    """


UTILISATION = AnswerBank(
    function="utilisation",
    wrong=[
        Wrong(
            "over the sparse peak",
            _utilisation(peak='device.sparse_flops_per_second("bf16")'),
            "Is it your peak or your count",
        ),
        Wrong(
            "multiplications only",
            _utilisation().replace("rate = tokens_per_second", "rate = tokens_per_second / 2"),
            "how many operations is a multiply-and-add?",
        ),
        Wrong(
            "over the peak of tf32",
            _utilisation(peak='device.dense_flops_per_second("tf32")'),
            "In which precision does the run multiply?",
        ),
        Wrong(
            "inference",
            _utilisation(peak='device.dense_flops_per_second("bf16") / 3'),
            "How many passes of that size has training?",
        ),
        Wrong(
            "percent",
            _utilisation(peak='device.dense_flops_per_second("bf16") * 100'),
            "What is the largest value of a share?",
        ),
        Wrong(
            "all halved by the mask",
            _utilisation(causal="(rest + core) / 2"),
            "Which part of the FLOPs does it hide?",
            points=1.5,
        ),
        Wrong(
            "the diagonal too",
            _utilisation(causal="rest + core * (seq_len + 1) / (2 * seq_len)"),
            "Which share of the core does the exercise take?",
            points=1.5,
        ),
        Wrong(
            "multiplying parameters as N",
            _utilisation(six_n="rest", six_n_and_attention="rest + core"),
            "Which N does this convention take?",
            points=1.0,
        ),
        Wrong(
            "the whole core hidden by the mask",
            _utilisation(causal="rest"),
            "What share of the square do you let the mask hide?",
            points=1.5,
        ),
        Wrong(
            "the causal half added to 6N",
            _utilisation(six_n_and_attention="6 * num_params + core / 2"),
            "Which attention does that convention add?",
            points=1.5,
        ),
        Wrong(
            "attention's forward pass added to 6N",
            _utilisation(six_n_and_attention="6 * num_params + core / 3"),
            "Which passes does 6N count?",
            points=1.5,
        ),
        Wrong(
            "one number",
            """
            def utilisation(model, num_params, seq_len, tokens_per_second, device):
                return 6 * num_params * tokens_per_second / device.dense_flops_per_second("bf16")
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        _utilisation(causal="rest + core / 2"),
        """
        def utilisation(model, num_params, seq_len, tokens_per_second, device):
            peak = device.dense_peaks["bf16"]
            shared = model.num_kv_heads / model.num_heads
            square = model.num_layers * model.hidden_size**2
            attention = square * 12 * seq_len / model.hidden_size
            layers = square * (12 + 12 * shared + 18 * model.ffn_size / model.hidden_size)
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
        "tied": lambda case: case["model"]["is_tied"],
        "untied head": lambda case: not case["model"]["is_tied"],
        "an H100": lambda case: case["hardware"] == "H100-SXM",
        "an A100": lambda case: case["hardware"] == "A100-80",
    },
)


def _budget(per_sequence: str = "new / old", whole_budget: str = "new / old / longer") -> str:
    return f"""
    def budget_ratio(model, old_seq_len, new_seq_len):
        h, width = model.hidden_size, model.num_heads * model.head_dim
        projections = 4 * h * (width + model.num_kv_heads * model.head_dim)
        layers = model.num_layers * (projections + 6 * h * model.ffn_size)
        head = 2 * h * model.vocab_size
        core = 4 * model.num_layers * width
        old = old_seq_len * (layers + head + core * old_seq_len)
        new = new_seq_len * (layers + head + core * new_seq_len)
        bare_old = old_seq_len * (layers + core * old_seq_len)
        bare_new = new_seq_len * (layers + core * new_seq_len)
        longer = new_seq_len / old_seq_len
        return {{"per_sequence": {per_sequence}, "whole_budget": {whole_budget}}}
    """


BUDGET_RATIO = AnswerBank(
    function="budget_ratio",
    wrong=[
        Wrong(
            "tokens alone",
            _budget("longer", "1.0"),
            "Which part of a token's FLOPs grows with the length?",
        ),
        Wrong(
            "per token instead of per sequence",
            _budget("new / old / longer", "new / old / longer / longer"),
            "How many tokens has a sequence, before and after?",
        ),
        Wrong(
            "all quadratic",
            _budget("longer**2", "longer"),
            "Which parts of a layer do not look at other tokens?",
        ),
        Wrong(
            "no head",
            _budget("bare_new / bare_old", "bare_new / bare_old / longer"),
            "Does a token of a longer sequence need no logits?",
        ),
        Wrong(
            "the budget costs the same",
            _budget(whole_budget="1.0"),
            "What does a token in a longer sequence do more often?",
            points=1.0,
        ),
        Wrong(
            "more sequences instead of fewer",
            _budget(whole_budget="new / old * longer"),
            "does the budget hold more or fewer of them?",
            points=1.0,
        ),
        Wrong(
            "the same number twice",
            _budget(whole_budget="new / old"),
            "How many sequences does the budget hold before and after?",
            points=1.0,
        ),
        Wrong(
            "upside down",
            _budget("old / new", "old / new * longer"),
            "Which of the two lengths is the new one?",
        ),
    ],
    right=[
        _budget(whole_budget="(new / new_seq_len) / (old / old_seq_len)"),
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
        "longer": lambda case: case["new_seq_len"] > case["old_seq_len"],
        "shorter": lambda case: case["new_seq_len"] < case["old_seq_len"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)


def _latent(
    query: str = "h * q + q * a * (n + r)",
    down: str = "h * (k + r)",
    up: str = "k * a * (n + v)",
    out: str = "a * v * h",
    core: str = "n + r + v",
) -> str:
    return f"""
    def latent_attention_flops(model, num_sequences, seq_len):
        sizes = model.latent_attention
        h, a, q, k = model.hidden_size, model.num_heads, sizes.q_rank, sizes.kv_rank
        n, r, v = sizes.nope_head_dim, sizes.rope_head_dim, sizes.value_head_dim
        weights = ({query}) + ({down}) + ({up}) + ({out})
        return {{
            "projection_flops": 2 * num_sequences * seq_len * weights,
            "core_flops": 2 * num_sequences * a * seq_len**2 * ({core}),
        }}
    """


LATENT_ATTENTION_FLOPS = AnswerBank(
    function="latent_attention_flops",
    wrong=[
        Wrong(
            "a rotary key for each head",
            _latent(down="h * (k + a * r)"),
            "How many heads share the one that comes from x?",
            points=1.0,
        ),
        Wrong(
            "no rotary key",
            _latent(down="h * k"),
            "how wide does that matrix become?",
            points=1.0,
        ),
        Wrong(
            "the rotary key from the latent vector too",
            _latent(up="k * a * (n + r + v)"),
            "From which vector does the exercise make it?",
            points=1.0,
        ),
        Wrong("no up-projection", _latent(up="0"), "Which matrix widens it again?", points=1.0),
        Wrong(
            "queries straight from x",
            _latent(query="h * a * (n + r)"),
            "Through which narrow vector do they go in the exercise's text?",
            points=1.0,
        ),
        Wrong(
            "no output projection",
            _latent(out="0"),
            "What happens after the heads are put together again?",
            points=1.0,
        ),
        Wrong(
            "an output projection as wide as keys",
            _latent(out="a * (n + r) * h"),
            "What are the scores multiplied with, and how wide is that?",
            points=1.0,
        ),
        Wrong(
            "values as wide as keys",
            _latent(core="2 * (n + r)"),
            "How wide is a value head?",
            points=1.0,
        ),
        Wrong(
            "scores without their rotary part",
            _latent(core="n + v"),
            "With what does it meet",
            points=1.0,
        ),
        Wrong(
            "all tokens of the batch squared",
            _latent(core="num_sequences * (n + r + v)"),
            "Does a token look at other sequences?",
            points=1.0,
        ),
        Wrong(
            "one head",
            _latent(core="n + r + v").replace("num_sequences * a *", "num_sequences *"),
            "How many heads compute scores?",
            points=1.0,
        ),
        Wrong(
            "projections of one sequence",
            _latent().replace("2 * num_sequences * seq_len * weights", "2 * seq_len * weights"),
            "How many sequences are there?",
            points=1.0,
        ),
        Wrong("scores alone", _latent(core="n + r"), "What are they multiplied with?", points=1.0),
        Wrong(
            "as inference does it",
            _latent(core="2 * k + r"),
            "How wide are keys and values once they are widened",
            points=1.0,
        ),
        Wrong(
            "grouped attention instead",
            _latent("h * a * v", "h * a * v", "h * a * v", "h * a * v", "2 * v"),
            "At which step do you and your code part?",
        ),
    ],
    right=[
        _latent(up="a * k * n + a * k * v"),
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
        "one head": lambda case: case["model"]["num_heads"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "DeepSeek-V3": lambda case: case["model"]["hidden_size"] == 7168,
    },
)


def _experts(
    total: str = "router + (num_experts + num_shared_experts) * one",
    active: str = "router + (experts_per_token + num_shared_experts) * one",
    matrices: int = 3,
) -> str:
    return f"""
    def expert_parameters(
        hidden_size, num_experts, experts_per_token, expert_ffn_size, num_shared_experts
    ):
        router = hidden_size * num_experts
        one = {matrices} * hidden_size * expert_ffn_size
        return {{"total_parameters": {total}, "active_parameters": {active}}}
    """


EXPERT_PARAMETERS = AnswerBank(
    function="expert_parameters",
    wrong=[
        Wrong(
            "no router",
            _experts(
                "(num_experts + num_shared_experts) * one",
                "(experts_per_token + num_shared_experts) * one",
            ),
            "What turns a token into one score for each expert?",
        ),
        Wrong(
            "the router scores shared experts",
            _experts().replace(
                "hidden_size * num_experts", "hidden_size * (num_experts + num_shared_experts)"
            ),
            "Does it choose among them?",
        ),
        Wrong("two matrices", _experts(matrices=2), "How many does a gate add?"),
        Wrong(
            "no shared experts",
            _experts("router + num_experts * one", "router + experts_per_token * one"),
            "Which tokens do they see?",
        ),
        Wrong(
            "shared experts are not active",
            _experts(active="router + experts_per_token * one"),
            "leave the shared experts out",
            points=1.0,
        ),
        Wrong(
            "all experts are active",
            _experts(active="router + (num_experts + num_shared_experts) * one"),
            "To how many does the router send one token?",
            points=1.0,
        ),
        Wrong(
            "the router scores only the chosen experts",
            _experts(
                active="hidden_size * experts_per_token"
                " + (experts_per_token + num_shared_experts) * one"
            ),
            "How does it know which to choose?",
            points=1.0,
        ),
        Wrong(
            "the router is not active",
            _experts(active="(experts_per_token + num_shared_experts) * one"),
            "Does a token not go through it?",
            points=1.0,
        ),
        Wrong(
            "one number",
            """
            def expert_parameters(hidden_size, num_experts, *sizes):
                return hidden_size * num_experts
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        _experts(
            active="router + one * num_shared_experts + one * experts_per_token",
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
        "no shared expert": lambda case: case["num_shared_experts"] == 0,
        "shared experts": lambda case: case["num_shared_experts"] > 1,
        "one expert for a token": lambda case: case["experts_per_token"] == 1,
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
    "u01-gpu-days": GPU_DAYS,
    "u01-training-flops-per-token": TRAINING_FLOPS_PER_TOKEN,
    "u01-multiplying-parameters": MULTIPLYING_PARAMETERS,
    "u01-utilisation": UTILISATION,
    "u01-budget-ratio": BUDGET_RATIO,
    "u01-latent-attention-flops": LATENT_ATTENTION_FLOPS,
    "u01-expert-parameters": EXPERT_PARAMETERS,
}
