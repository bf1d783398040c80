"""Answer banks of unit 03."""

from tests.answer_bank import AnswerBank, Wrong


def _parameters(
    attention: str = "2 * h * q + 2 * h * k + bias * (q + 2 * k + h)",
    feed_forward: str = "(2 + gated) * h * f + bias * (f + gated * f + h)",
    norms: str = "(2 * layers + 1) * (1 + bias) * h",
    rows: str = "v * (1 if model.is_tied else 2) + model.num_positions",
) -> str:
    return f"""
    def parameters(model):
        h, f, v, layers = model.hidden_size, model.ffn_size, model.vocab_size, model.num_layers
        q, k = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
        bias, gated = int(model.has_biases), int(model.is_gated)
        return {{
            "attention": layers * ({attention}),
            "feed_forward": layers * ({feed_forward}),
            "norms": {norms},
            "embedding_and_head": ({rows}) * h,
        }}
    """


PARAMETERS = AnswerBank(
    function="parameters",
    wrong=[
        Wrong(
            "keys and values as wide as queries",
            _parameters(attention="4 * h * q + bias * (3 * q + h)"),
            "How many heads do they have?",
            points=1.5,
        ),
        Wrong(
            "no biases in attention",
            _parameters(attention="2 * h * q + 2 * h * k"),
            "Which of its four matrices has one?",
            points=1.5,
        ),
        Wrong(
            "three biases in attention",
            _parameters(attention="2 * h * q + 2 * h * k + bias * (q + 2 * k)"),
            "Which of its four matrices have one?",
            points=1.5,
        ),
        Wrong(
            "no biases in the block",
            _parameters(feed_forward="(3 if model.is_gated else 2) * h * f"),
            "How wide are the results of its two matrices?",
            points=1.5,
        ),
        Wrong(
            "two biases in a gated block",
            _parameters(feed_forward="(3 if model.is_gated else 2) * h * f + bias * (f + h)"),
            "Which of the three matrices gives how many numbers?",
            points=1.5,
        ),
        Wrong(
            "two matrices always",
            _parameters(feed_forward="2 * h * f + bias * (f + h)"),
            "Your feed-forward blocks have two matrices, all of them.",
            points=1.5,
        ),
        Wrong(
            "three matrices always",
            _parameters(feed_forward="3 * h * f + bias * (f + h)"),
            "Your feed-forward blocks have three matrices, all of them.",
            points=1.5,
        ),
        Wrong(
            "4 h inside",
            _parameters(feed_forward="(3 if model.is_gated else 2) * 4 * h * h + bias * (f + h)"),
            "Which size says how wide the block is inside?",
            points=1.5,
        ),
        Wrong(
            "no last norm",
            _parameters(norms="2 * layers * (1 + bias) * h"),
            "How many norms has the whole model?",
            points=1.5,
        ),
        Wrong(
            "no biases in norms",
            _parameters(norms="(2 * layers + 1) * h"),
            "What does it have beside its weight?",
            points=1.5,
        ),
        Wrong(
            "one norm in a layer",
            _parameters(norms="(layers + 1) * (1 + bias) * h"),
            "What stands before each of its two blocks?",
            points=1.5,
        ),
        Wrong(
            "a head of its own always",
            _parameters(rows="2 * v + model.num_positions"),
            "How often is a shared matrix stored?",
            points=1.5,
        ),
        Wrong(
            "tied always",
            _parameters(rows="v + model.num_positions"),
            "What does `is_tied` say?",
            points=1.5,
        ),
        Wrong(
            "no positions",
            _parameters(rows="v * (1 if model.is_tied else 2)"),
            "In which table is a position looked up?",
            points=1.5,
        ),
        Wrong(
            "one layer",
            _parameters().replace('": layers * (', '": ('),
            "You count one layer.",
            points=1.0,
        ),
        Wrong(
            "tied the wrong way round",
            _parameters(rows="v * (2 if model.is_tied else 1) + model.num_positions"),
            "What does a tied model store once?",
            points=1.5,
        ),
    ],
    right=[
        _parameters(norms="(1 + bias) * h * (1 + 2 * layers)"),
        """
        def parameters(model):
            def linear(inner, outer):
                return inner * outer + (outer if model.has_biases else 0)

            h, f = model.hidden_size, model.ffn_size
            queries = model.num_heads * model.head_dim
            keys = model.num_kv_heads * model.head_dim
            attention = linear(h, queries) + 2 * linear(h, keys) + linear(queries, h)
            block = linear(h, f) + linear(f, h) + (linear(h, f) if model.is_gated else 0)
            norm = h + (h if model.has_biases else 0)
            head = 0 if model.is_tied else model.vocab_size * h
            return {
                "embedding_and_head": (model.vocab_size + model.num_positions) * h + head,
                "norms": norm + 2 * model.num_layers * norm,
                "attention": attention * model.num_layers,
                "feed_forward": block * model.num_layers,
            }
        """,
    ],
    features={
        "GPT": lambda case: case["model"].get("has_biases", False),
        "gated with biases": lambda case: (
            case["model"].get("has_biases", False) and case["model"].get("is_gated", True)
        ),
        "tied Llama": lambda c: c["model"]["is_tied"] and not c["model"].get("has_biases"),
        "untied head": lambda case: not case["model"]["is_tied"],
        "learned positions": lambda case: case["model"].get("num_positions", 0) > 0,
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
)


def _state(
    weights: str = "4 if fp32 else 2",
    gradients: str = "[4, 2, 4, 6][number]",
    optimizer: str = "8 if fp32 else 12",
) -> str:
    return f"""
    RECIPES = ["fp32", "bf16", "bf16-fp32-gradients", "bf16-both-gradients"]

    def state_bytes(num_params, recipe):
        fp32, number = recipe == "fp32", RECIPES.index(recipe)
        return {{
            "weights": num_params * ({weights}),
            "gradients": num_params * ({gradients}),
            "optimizer": num_params * ({optimizer}),
        }}
    """


STATE_BYTES = AnswerBank(
    function="state_bytes",
    wrong=[
        Wrong(
            "no master copy",
            _state(optimizer="8"),
            "how wide is each?",
            points=1.0,
        ),
        Wrong(
            "a master copy in fp32 too",
            _state(optimizer="12"),
            "Which recipes need a second copy?",
            points=1.0,
        ),
        Wrong(
            "one moment",
            _state(optimizer="4 if fp32 else 8"),
            "Your moments take 4 bytes together.",
            points=1.0,
        ),
        Wrong(
            "the master copy among the weights",
            _state(weights="4 if fp32 else 6", optimizer="8"),
            "To which part does the exercise count it?",
            points=0.5,
        ),
        Wrong(
            "weights in fp32",
            _state(weights="4"),
            "Which copy do the matrix products read?",
            points=1.0,
        ),
        Wrong(
            "gradients like weights",
            _state(gradients="4 if fp32 else 2"),
            "What does the name of the other two say?",
            points=1.0,
        ),
        Wrong(
            "one of both gradients",
            _state(gradients="[4, 2, 4, 4][number]"),
            "You have 4 bytes for both gradients.",
            points=1.0,
        ),
    ],
    right=[
        _state(optimizer="4 + 4 + 4 * (not fp32)"),
        """
        def state_bytes(num_params, recipe):
            by_recipe = {
                "fp32": (4, 4, 8),
                "bf16": (2, 2, 12),
                "bf16-fp32-gradients": (2, 4, 12),
                "bf16-both-gradients": (2, 2 + 4, 12),
            }
            names = ("weights", "gradients", "optimizer")
            return {k: num_params * each for k, each in zip(names, by_recipe[recipe])}
        """,
    ],
    features={
        "fp32": lambda case: case["recipe"] == "fp32",
        "both gradients": lambda case: case["recipe"] == "bf16-both-gradients",
        "few parameters": lambda case: case["num_params"] < 10,
    },
)


def _kept(**changes: str) -> str:
    parts = {
        "linear": "2 * t * h",
        "rms_norm": "2 * t * h + 4 * t",
        "gelu": "2 * t * h",
        "softmax": "2 * a * t * s",
        "dropout": "t * h",
        "addition": "0",
    }
    body = ", ".join(f'"{name}": {text}' for name, text in (parts | changes).items())
    return f"""
    def kept_bytes(num_sequences, seq_len, hidden_size, num_heads):
        s, h, a = seq_len, hidden_size, num_heads
        t = num_sequences * s
        return {{{body}}}
    """


KEPT_BY_OPERATION = AnswerBank(
    function="kept_bytes",
    wrong=[
        Wrong(
            "addition keeps both",
            _kept(addition="4 * t * h"),
            "Your addition keeps its inputs.",
            points=2.5,
        ),
        Wrong(
            "one sequence",
            _kept().replace("t = num_sequences * s", "t = s"),
            "You measure one sequence.",
            points=0.5,
        ),
        Wrong(
            "addition keeps one",
            _kept(addition="2 * t * h"),
            "Your addition keeps a tensor.",
            points=2.5,
        ),
        Wrong(
            "a wide mask",
            _kept(dropout="2 * t * h"),
            "to know which numbers were dropped?",
            points=2.5,
        ),
        Wrong(
            "mask and input",
            _kept(dropout="3 * t * h"),
            "Your dropout keeps 3 bytes for each number.",
            points=2.5,
        ),
        Wrong(
            "softmax over the stream",
            _kept(softmax="2 * t * h"),
            "What is the shape of the scores?",
            points=2.5,
        ),
        Wrong(
            "one head",
            _kept(softmax="2 * t * s"),
            "Which shape does the exercise give to the scores?",
            points=2.5,
        ),
        Wrong(
            "softmax keeps both",
            _kept(softmax="4 * a * t * s"),
            "Your softmax keeps 4 bytes for each score.",
            points=2.5,
        ),
        Wrong(
            "the norm's input alone",
            _kept(rms_norm="2 * t * h"),
            "and in which precision?",
            points=2.5,
        ),
        Wrong(
            "the norm's number in bf16",
            _kept(rms_norm="2 * t * h + 2 * t"),
            "What does the exercise say about it?",
            points=2.5,
        ),
        Wrong(
            "two numbers for the norm",
            _kept(rms_norm="2 * t * h + 8 * t"),
            "Does RMSNorm subtract a mean?",
            points=2.5,
        ),
        Wrong(
            "numbers for bytes",
            _kept(linear="t * h"),
            "How many bytes has one in bf16?",
            points=2.5,
        ),
        Wrong(
            "linear keeps both",
            _kept(linear="4 * t * h"),
            "Your linear layer keeps 4 bytes for each number of x.",
            points=2.5,
        ),
        Wrong(
            "gelu keeps both",
            _kept(gelu="4 * t * h"),
            "Your GELU keeps 4 bytes for each number of x.",
            points=2.5,
        ),
        Wrong("gelu keeps nothing", _kept(gelu="0"), "Is its slope the same", points=2.5),
    ],
    right=[
        _kept(softmax="2 * num_sequences * a * s * s"),
        """
        def kept_bytes(b, s, h, a):
            bf16, fp32, mask = 2, 4, 1
            x, scores, per_token = b * s * h, b * a * s**2, b * s
            return {
                "addition": 0,
                "dropout": mask * x,
                "softmax": bf16 * scores,
                "gelu": bf16 * x,
                "rms_norm": bf16 * x + fp32 * per_token,
                "linear": bf16 * x,
            }
        """,
    ],
    features={
        "one head": lambda case: case["num_heads"] == 1,
        "many heads": lambda case: case["num_heads"] > 5,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "longer than wide": lambda case: case["seq_len"] > case["hidden_size"],
    },
)


def _microscope(
    key: str = "storage._cdata",
    size: str = "storage.nbytes()",
    leave_out: str = "{p.untyped_storage()._cdata for p in parameters}",
) -> str:
    return f"""
    import torch

    def saved_bytes(call, parameters):
        leave_out, kept, sizes = {leave_out}, [], {{}}

        def pack(tensor):
            storage = tensor.untyped_storage()
            kept.append(storage)
            if storage._cdata not in leave_out:
                sizes[{key}] = {size}
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            call()
        return sum(sizes.values())
    """


MICROSCOPE = AnswerBank(
    function="saved_bytes",
    wrong=[
        Wrong(
            "a storage counted each time",
            _microscope(key="len(kept)"),
            "how often does it lie in memory?",
        ),
        Wrong(
            "weights too",
            _microscope(leave_out="set()"),
            "Would they go away if nobody wanted a gradient?",
        ),
        Wrong(
            "what a view shows",
            _microscope(size="tensor.numel() * tensor.element_size()"),
            "as long as one view of it is kept?",
        ),
        Wrong(
            "what each view shows",
            _microscope(key="len(kept)", size="tensor.numel() * tensor.element_size()"),
            "Which of them lie in the same storage?",
        ),
        Wrong(
            "numbers",
            _microscope(key="len(kept)", size="tensor.numel()"),
            "How many bytes has each of them?",
        ),
        Wrong(
            "four bytes each",
            _microscope(key="len(kept)", size="4 * tensor.numel()"),
            "Which method of a tensor knows better?",
        ),
        Wrong(
            "tensors",
            _microscope(key="len(kept)", size="1"),
            "How large is each of them?",
        ),
        Wrong(
            "calls the instrument",
            """
            def saved_bytes(call, parameters):
                from course_utils.instruments import count_saved_bytes

                return count_saved_bytes(call, *parameters).total_bytes
            """,
            "work it out with",
        ),
        Wrong(
            "never calls",
            """
            def saved_bytes(call, parameters):
                return 64
            """,
            "Which of the sizes",
        ),
    ],
    right=[
        _microscope(key="id(storage._cdata) and storage._cdata"),
        """
        from torch.autograd.graph import saved_tensors_hooks

        def saved_bytes(call, parameters):
            tensors = []

            def pack(tensor):
                tensors.append(tensor.detach())
                return tensor

            with saved_tensors_hooks(pack, lambda packed: packed):
                result = call()
            storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in tensors}
            for each in parameters:
                storages.pop(each.untyped_storage().data_ptr(), None)
            return sum(each.nbytes() for each in storages.values())
        """,
    ],
    features={
        "bf16": lambda case: case["dtype"] == "bf16",
        "a view": lambda case: case["program"] == "a part of a large tensor",
        "no gradient": lambda case: case["program"] == "no gradient wanted",
        "a shared input": lambda case: case["program"] == "two layers read one input",
    },
)


def _gpt(
    norms: str = "4 * x + 16 * t",
    attention: str = "11 * x",
    scores: str = "5 * a * t * s",
    feed_forward: str = "19 * x",
) -> str:
    return f"""
    def gpt_layer_bytes(num_sequences, seq_len, hidden_size, num_heads):
        s, h, a = seq_len, hidden_size, num_heads
        t = num_sequences * s
        x = t * h
        return {{
            "norms": {norms},
            "attention": {attention},
            "scores": {scores},
            "feed_forward": {feed_forward},
        }}
    """


GPT_LAYER_BYTES = AnswerBank(
    function="gpt_layer_bytes",
    wrong=[
        Wrong(
            "no statistics",
            _gpt(norms="4 * x"),
            "Which two numbers per token would they otherwise compute again?",
            points=1.5,
        ),
        Wrong("one norm", _gpt(norms="2 * x + 8 * t"), "How many has a layer?", points=1.5),
        Wrong(
            "statistics in bf16",
            _gpt(norms="4 * x + 8 * t"),
            "How many statistics has a LayerNorm",
            points=1.5,
        ),
        Wrong(
            "an input for each projection",
            _gpt(attention="15 * x"),
            "that three of them read?",
            points=1.5,
        ),
        Wrong(
            "no mask after attention",
            _gpt(attention="10 * x"),
            "The dropout behind attention keeps no mask",
            points=1.5,
        ),
        Wrong(
            "a wide mask after attention",
            _gpt(attention="12 * x"),
            "The mask of your dropout is as wide as its numbers.",
            points=1.5,
        ),
        Wrong(
            "no input of the output projection",
            _gpt(attention="9 * x"),
            "One 16-bit tensor of attention is missing.",
            points=1.5,
        ),
        Wrong(
            "one head",
            _gpt(scores="5 * t * s"),
            "Your scores have one head.",
            points=1.5,
        ),
        Wrong(
            "the softmax alone",
            _gpt(scores="2 * a * t * s"),
            "and what the product with the values?",
            points=1.5,
        ),
        Wrong(
            "the softmax input too",
            _gpt(scores="7 * a * t * s"),
            "one square of 2 bytes too many",
            points=1.5,
        ),
        Wrong(
            "a wide mask on the scores",
            _gpt(scores="6 * a * t * s"),
            "You have 6 bytes for each score.",
            points=1.5,
        ),
        Wrong(
            "softmax and mask",
            _gpt(scores="3 * a * t * s"),
            "What does the product with the values read?",
            points=1.5,
        ),
        Wrong(
            "no mask on the scores",
            _gpt(scores="4 * a * t * s"),
            "The mask on your scores is missing.",
            points=1.5,
        ),
        Wrong(
            "nothing for GELU",
            _gpt(feed_forward="11 * x"),
            "Is its input the same tensor as its result?",
            points=1.5,
        ),
        Wrong(
            "no mask after the block",
            _gpt(feed_forward="18 * x"),
            "The dropout behind the feed-forward block keeps no mask",
            points=1.5,
        ),
        Wrong(
            "a wide mask after the block",
            _gpt(feed_forward="20 * x"),
            "The mask of your feed-forward dropout is as wide as its numbers.",
            points=1.5,
        ),
    ],
    right=[
        _gpt(attention="(2 + 6 + 2 + 1) * x"),
        """
        def gpt_layer_bytes(b, s, h, a):
            bf16, fp32, mask = 2, 4, 1
            stream, square, per_token = b * s * h, a * b * s * s, b * s
            first = bf16 * stream + 3 * bf16 * stream
            second = bf16 * stream + mask * stream
            inner = 2 * bf16 * 4 * stream
            return {
                "feed_forward": bf16 * stream + inner + mask * stream,
                "scores": (bf16 + mask + bf16) * square,
                "attention": first + second,
                "norms": 2 * (bf16 * stream + 2 * fp32 * per_token),
            }
        """,
    ],
    features={
        "one head": lambda case: case["num_heads"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "longer than wide": lambda case: case["seq_len"] > case["hidden_size"],
        "GPT-3": lambda case: case["hidden_size"] == 12288,
    },
)


def _llama(
    norms: str = "2 * n * (e * h + 4)",
    attention: str = "n * (e * (3 * h + 2 * k) + 4 * a)",
    feed_forward: str = "n * e * (h + 4 * f)",
) -> str:
    return f"""
    def llama_layer_bytes(model, num_sequences, seq_len, element_bytes):
        n, e = num_sequences * seq_len, element_bytes
        h, a, f = model.hidden_size, model.num_heads, model.ffn_size
        k = model.num_kv_heads * model.head_dim
        return {{
            "norms": {norms},
            "attention": {attention},
            "feed_forward": {feed_forward},
        }}
    """


LLAMA_LAYER_BYTES = AnswerBank(
    function="llama_layer_bytes",
    wrong=[
        Wrong(
            "two numbers per token and norm",
            _llama(norms="2 * n * (e * h + 8)"),
            "Does RMSNorm subtract a mean?",
            points=2.0,
        ),
        Wrong(
            "no statistics",
            _llama(norms="2 * n * e * h"),
            "Which number per token would they otherwise compute again?",
            points=2.0,
        ),
        Wrong(
            "statistics as wide as activations",
            _llama(norms="2 * n * (e * h + e)"),
            "The statistics of your norms are as wide as an activation.",
            points=2.0,
        ),
        Wrong(
            "keys and values as wide as queries",
            _llama(attention="n * (5 * e * h + 4 * a)"),
            "How many heads do they have?",
            points=2.0,
        ),
        Wrong(
            "no log-sum-exp",
            _llama(attention="n * e * (3 * h + 2 * k)"),
            "lets fused attention compute it again?",
            points=2.0,
        ),
        Wrong(
            "a narrow log-sum-exp",
            _llama(attention="n * (e * (3 * h + 2 * k) + e * a)"),
            "Your log-sum-exp is as wide as an activation.",
            points=2.0,
        ),
        Wrong(
            "the result twice",
            _llama(attention="n * (e * (4 * h + 2 * k) + 4 * a)"),
            "One tensor of the stream's size is too many. Which of yours",
            points=2.0,
        ),
        Wrong(
            "three inputs",
            _llama(attention="n * (e * (5 * h + 2 * k) + 4 * a)"),
            "Two tensors of the stream's size are too many.",
            points=2.0,
        ),
        Wrong(
            "two inner tensors",
            _llama(feed_forward="n * e * (h + 2 * f)"),
            "What does a gate multiply, and what goes into SiLU?",
            points=2.0,
        ),
        Wrong(
            "three inner tensors",
            _llama(feed_forward="n * e * (h + 3 * f)"),
            "and what does the last matrix read?",
            points=2.0,
        ),
        Wrong(
            "two bytes always",
            _llama(feed_forward="2 * n * (h + 4 * f)"),
            "What does `element_bytes` say?",
            points=2.0,
        ),
        Wrong(
            "no input of the block",
            _llama(feed_forward="n * e * 4 * f"),
            "The input of the block is missing.",
            points=2.0,
        ),
        Wrong(
            "the input of the block twice",
            _llama(feed_forward="n * e * (2 * h + 4 * f)"),
            "who keeps what it gives?",
            points=2.0,
        ),
    ],
    right=[
        _llama(feed_forward="e * n * h + 4 * e * n * f"),
        """
        def llama_layer_bytes(model, b, s, e):
            tokens = b * s
            x, inner = e * tokens * model.hidden_size, e * tokens * model.ffn_size
            kv = e * tokens * model.hidden_size * model.num_kv_heads // model.num_heads
            fp32 = 4 * tokens
            return {
                "feed_forward": x + inner + inner + inner + inner,
                "attention": x + x + kv + kv + x + fp32 * model.num_heads,
                "norms": x + fp32 + x + fp32,
            }
        """,
    ],
    features={
        "fp32": lambda case: case["element_bytes"] == 4,
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "multi-head": lambda c: c["model"]["num_kv_heads"] == c["model"]["num_heads"],
        "several sequences": lambda case: case["num_sequences"] > 1,
        "Llama-3-8B": lambda case: case["model"]["hidden_size"] == 4096,
    },
)


def _sequence(result: str = "model.num_layers * layer + norm + x + 4 * s * v + 16 * s") -> str:
    return f"""
    def sequence_bytes(model, seq_len, layer):
        s, v = seq_len, model.vocab_size
        x = 2 * s * model.hidden_size
        norm = x + 4 * s
        return {result}
    """


SEQUENCE_BYTES = AnswerBank(
    function="sequence_bytes",
    wrong=[
        Wrong(
            "no loss",
            _sequence("model.num_layers * layer + norm + x + 16 * s"),
            "How many numbers has the softmax over the vocabulary?",
        ),
        Wrong(
            "the loss in bf16",
            _sequence("model.num_layers * layer + norm + x + 2 * s * v + 16 * s"),
            "What does the exercise say about the logits?",
        ),
        Wrong(
            "one layer",
            _sequence("layer + norm + x + 4 * s * v + 16 * s"),
            "How many are there?",
        ),
        Wrong(
            "no last norm",
            _sequence("model.num_layers * layer + x + 4 * s * v + 16 * s"),
            "What does it keep?",
        ),
        Wrong(
            "no head",
            _sequence("model.num_layers * layer + norm + 4 * s * v + 16 * s"),
            "Which tensor stands in the gradient of its weight?",
        ),
        Wrong(
            "neither norm nor head",
            _sequence("model.num_layers * layer + 4 * s * v + 16 * s"),
            "Which tensors stand in the gradients of their weights?",
        ),
        Wrong(
            "no ids and targets",
            _sequence("model.num_layers * layer + norm + x + 4 * s * v"),
            "Token ids and targets are missing.",
        ),
        Wrong(
            "one of ids and targets",
            _sequence("model.num_layers * layer + norm + x + 4 * s * v + 8 * s"),
            "8 bytes per token for ids and targets together",
        ),
        Wrong(
            "fp32 logits too",
            _sequence("model.num_layers * layer + norm + x + 8 * s * v + 16 * s"),
            "The logits in fp32 are in your sum",
        ),
        Wrong(
            "no statistics in the last norm",
            _sequence("model.num_layers * layer + 2 * x + 4 * s * v + 16 * s"),
            "What does an RMSNorm keep beside its input?",
        ),
        Wrong(
            "logits too",
            _sequence("model.num_layers * layer + norm + x + 6 * s * v + 16 * s"),
            "What does the derivative of the loss contain?",
        ),
    ],
    right=[
        _sequence("16 * s + 4 * s * v + x + norm + model.num_layers * layer"),
        """
        def sequence_bytes(model, seq_len, layer_bytes):
            around = 4 * model.hidden_size + 4 + 4 * model.vocab_size + 16
            return model.num_layers * layer_bytes + seq_len * around
        """,
    ],
    features={
        "a small vocabulary": lambda case: case["model"]["vocab_size"] <= 20,
        "a large vocabulary": lambda case: case["model"]["vocab_size"] > 5000,
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "Llama-3-8B": lambda case: case["model"]["hidden_size"] == 4096,
    },
)


def _largest(result: str) -> str:
    return f"""
    import math

    def largest_micro_batch(num_params, sequence_bytes, memory_bytes):
        left = memory_bytes - 16 * num_params
        return {result}
    """


LARGEST_MICRO_BATCH = AnswerBank(
    function="largest_micro_batch",
    wrong=[
        Wrong(
            "activations alone",
            _largest("memory_bytes // sequence_bytes"),
            "What else stays on the device from step to step?",
        ),
        Wrong(
            "negative",
            _largest("left // sequence_bytes"),
            "where not even the training state fits?",
        ),
        Wrong(
            "rounded up",
            _largest("max(0, -(-left // sequence_bytes))"),
            "You rounded up.",
        ),
        Wrong(
            "rounded",
            _largest("max(0, round(left / sequence_bytes))"),
            "You rounded to the nearest number.",
        ),
        Wrong(
            "weights alone",
            _largest("max(0, (memory_bytes - 2 * num_params) // sequence_bytes)"),
            "What does training keep beside the weights?",
        ),
        Wrong(
            "no optimizer",
            _largest("max(0, (memory_bytes - 4 * num_params) // sequence_bytes)"),
            "How many bytes does it keep for each parameter?",
        ),
    ],
    right=[
        _largest("max(left, 0) // sequence_bytes"),
        """
        def largest_micro_batch(num_params, sequence_bytes, memory_bytes):
            state = 16 * num_params
            if state > memory_bytes:
                return 0
            return divmod(memory_bytes - state, sequence_bytes)[0]
        """,
    ],
    features={
        "no room for the state": lambda c: c["memory_bytes"] < 16 * c["num_params"],
        "to the byte": lambda c: (
            c["memory_bytes"] > 16 * c["num_params"]
            and (c["memory_bytes"] - 16 * c["num_params"]) % c["sequence_bytes"] == 0
        ),
        "Llama-3-8B": lambda case: case["num_params"] == 8_030_261_248,
    },
)


def _gate(
    saved: str = "g, u",
    grad_g: str = "grad * u * sigma * (1 + g * (1 - sigma))",
    grad_u: str = "grad * g * sigma",
) -> str:
    return f"""
    import torch
    from torch.nn import functional as F

    def gate(g, u):
        class Gate(torch.autograd.Function):
            @staticmethod
            def forward(ctx, g, u):
                out = F.silu(g) * u
                ctx.save_for_backward({saved})
                return out

            @staticmethod
            def backward(ctx, grad):
                g, u = ctx.saved_tensors[:2]
                sigma = g.sigmoid()
                return {grad_g}, {grad_u}

        return Gate.apply(g, u)
    """


FUSED_GATE = AnswerBank(
    function="gate",
    wrong=[
        Wrong(
            "as autograd does it",
            """
            import torch

            def gate(g, u):
                return torch.nn.functional.silu(g) * u
            """,
            "computed again from the other two?",
        ),
        Wrong(
            "keeps the result too", _gate(saved="g, u, out"), "computed again from the other two?"
        ),
        Wrong(
            "keeps four",
            _gate(saved="g, u, out, F.silu(g)"),
            "computed again from the two inputs?",
        ),
        Wrong(
            "hides the inputs on ctx",
            """
            import torch

            class Gate(torch.autograd.Function):
                @staticmethod
                def forward(ctx, g, u):
                    ctx.g, ctx.u = g, u
                    return torch.nn.functional.silu(g) * u

                @staticmethod
                def backward(ctx, grad):
                    sigma = ctx.g.sigmoid()
                    slope = sigma * (1 + ctx.g * (1 - sigma))
                    return grad * ctx.u * slope, grad * ctx.g * sigma

            def gate(g, u):
                return Gate.apply(g, u)
            """,
            "Where do your tensors live",
        ),
        Wrong(
            "a sigmoid on ctx beside them",
            _gate().replace("out = F", "ctx.sigma = g.sigmoid()\n                out = F"),
            "Who holds it until backward",
        ),
        Wrong(
            "gradients of zero",
            _gate(grad_g="torch.zeros_like(grad)", grad_u="torch.zeros_like(grad)"),
            "In which order does backward return them",
        ),
        Wrong(
            "swapped gradients",
            _gate(grad_g="grad * g * sigma", grad_u="grad * u * sigma * (1 + g * (1 - sigma))"),
            "In which order does backward return them",
        ),
        Wrong(
            "the slope of a sigmoid",
            _gate(grad_g="grad * u * sigma * (1 - sigma)"),
            "and by what is each multiplied?",
        ),
        Wrong(
            "no upstream gradient",
            _gate(grad_u="g * sigma"),
            "and by what is each multiplied?",
        ),
    ],
    right=[
        _gate(grad_u="grad * F.silu(g)"),
        """
        import torch
        from torch.utils.checkpoint import checkpoint

        def gate(g, u):
            return _Lean.apply(g, u)

        class _Lean(torch.autograd.Function):
            @staticmethod
            def forward(ctx, g, u):
                ctx.save_for_backward(g, u)
                return g * torch.sigmoid(g) * u

            @staticmethod
            def backward(ctx, grad):
                g, u = (x.detach().requires_grad_() for x in ctx.saved_tensors)
                with torch.enable_grad():
                    out = torch.nn.functional.silu(g) * u
                return torch.autograd.grad(out, (g, u), grad)
        """,
    ],
    features={
        "one row": lambda case: case["rows"] == 1,
        "many rows": lambda case: case["rows"] > 3,
    },
)


def _attend(*lines: str) -> str:
    body = "".join(f"\n        {line}" for line in lines)
    return f"""
    import torch
    from torch.nn import functional as F

    def lean_attend(q, k, v, rotate):{body}
    """


_FUSED = "out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)"
_FLIP = "q, k, v = (x.transpose(1, 2) for x in (q, k, v))"

LOST_BYTES = AnswerBank(
    function="lean_attend",
    wrong=[
        Wrong(
            "as it stands",
            _attend(
                _FLIP,
                "q, k = (rotate(x.transpose(1, 2)).transpose(1, 2).contiguous() for x in (q, k))",
                _FUSED,
                "return out.transpose(1, 2).flatten(-2)",
            ),
            "In which order do tokens and heads of the queries lie in memory",
        ),
        Wrong(
            "a copy of the queries",
            _attend(
                "q, k = rotate(q), rotate(k)",
                "q, k, v = q.transpose(1, 2).contiguous(), k.transpose(1, 2), v.transpose(1, 2)",
                _FUSED,
                "return out.transpose(1, 2).flatten(-2)",
            ),
            "In which order do tokens and heads of the queries lie in memory",
        ),
        Wrong(
            "keys and values repeated",
            _attend(
                "n = q.shape[2] // k.shape[2]",
                "k, v = k.repeat_interleave(n, dim=2), v.repeat_interleave(n, dim=2)",
                "q, k = rotate(q), rotate(k)",
                _FLIP,
                _FUSED,
                "return out.transpose(1, 2).flatten(-2)",
            ),
            "Which argument of fused attention makes that unnecessary?",
        ),
        Wrong(
            "not rotated",
            _attend(_FLIP, _FUSED, "return out.transpose(1, 2).flatten(-2)"),
            "At which step do you and your code part?",
        ),
        Wrong(
            "values rotated too",
            _attend(
                "q, k, v = rotate(q), rotate(k), rotate(v)",
                _FLIP,
                _FUSED,
                "return out.transpose(1, 2).flatten(-2)",
            ),
            "At which step do you and your code part?",
        ),
        Wrong(
            "heads and tokens mixed up",
            _attend(
                "q, k = rotate(q), rotate(k)",
                _FLIP,
                _FUSED,
                "return out.reshape(out.shape[0], out.shape[2], -1)",
            ),
            "At which step do you and your code part?",
        ),
    ],
    right=[
        _attend(
            "q, k = rotate(q), rotate(k)",
            _FLIP,
            _FUSED,
            "return out.transpose(1, 2).reshape(out.shape[0], out.shape[2], -1)",
        ),
        _attend(
            "q, k, v = (x.movedim(2, 1) for x in (rotate(q), rotate(k), v))",
            _FUSED,
            "return out.movedim(1, 2).flatten(2)",
        ),
    ],
    features={
        "multi-head": lambda case: case["num_heads"] == case["num_kv_heads"],
        "shared keys and values": lambda case: case["num_heads"] > case["num_kv_heads"],
        "several sequences": lambda case: case["num_sequences"] > 1,
    },
)


def _layer(numbers: str, masks: str = "(2 * x + z) * drop", statistics: str = "16 * s") -> str:
    return f"""
    def layer_bytes(seq_len, hidden_size, num_heads, element_bytes, has_dropout):
        s, e, drop = seq_len, element_bytes, int(has_dropout)
        x, z = s * hidden_size, num_heads * s * s
        return {numbers} + {masks} + {statistics}
    """


_NUMBERS = "e * (16 * x + (1 + drop) * z)"

LAYER_BYTES = AnswerBank(
    function="layer_bytes",
    wrong=[
        Wrong(
            "everything doubled",
            _layer("e * (16 * x + (1 + drop) * z)", "e * (2 * x + z) * drop // 2"),
            "Does a decision of the dropout become wider?",
        ),
        Wrong("masks that stay", _layer(_NUMBERS, "2 * x + z"), "Who needs them?"),
        Wrong(
            "scores twice",
            _layer("e * (16 * x + 2 * z)"),
            "than the first after dropout?",
        ),
        Wrong(
            "statistics that change",
            _layer(_NUMBERS, statistics="8 * e * s"),
            "In which one do they stay?",
        ),
        Wrong("no statistics", _layer(_NUMBERS, statistics="0"), "per token and norm are kept?"),
        Wrong(
            "the lecture's 34 and 5",
            _layer("34 * x", "5 * z"),
            "and which are numbers of 16 bits?",
        ),
    ],
    right=[
        _layer("16 * e * x + e * z + drop * e * z"),
        """
        def layer_bytes(s, h, a, e, has_dropout):
            norms = 2 * (e * s * h + 2 * 4 * s)
            attention = e * s * h + 3 * e * s * h + e * s * h
            block = e * s * h + 2 * 4 * e * s * h
            scores = e * a * s * s
            total = norms + attention + block + scores
            return total + (2 * s * h + (1 + e) * a * s * s if has_dropout else 0)
        """,
    ],
    features={
        "fp32 with dropout": lambda c: c["element_bytes"] == 4 and c["has_dropout"],
        "fp32 without": lambda c: c["element_bytes"] == 4 and not c["has_dropout"],
        "bf16 without": lambda c: c["element_bytes"] == 2 and not c["has_dropout"],
        "one head": lambda case: case["num_heads"] == 1,
    },
)

BANKS = {
    "u03-parameters": PARAMETERS,
    "u03-state-bytes": STATE_BYTES,
    "u03-kept-by-operation": KEPT_BY_OPERATION,
    "u03-microscope": MICROSCOPE,
    "u03-gpt-layer-bytes": GPT_LAYER_BYTES,
    "u03-llama-layer-bytes": LLAMA_LAYER_BYTES,
    "u03-sequence-bytes": SEQUENCE_BYTES,
    "u03-largest-micro-batch": LARGEST_MICRO_BATCH,
    "u03-element-bytes": LAYER_BYTES,
    "u03-fused-gate": FUSED_GATE,
    "u03-lost-bytes": LOST_BYTES,
}
