"""Answer banks of unit 03."""

from tests.answer_bank import AnswerBank, Wrong


def _head_widths(case: dict) -> int:
    return case["model"]["num_heads"] * case["model"].get("head_dim", 0)


PARAMETERS = AnswerBank(
    function="parameters",
    wrong=[
        Wrong(
            "no biases anywhere",
            """
            def parameters(m):
                queries, keys = m.num_heads * m.head_dim, m.num_kv_heads * m.head_dim
                block = (2 + m.is_gated) * m.hidden_size * m.ffn_size
                return {
                    "attention": m.num_layers * 2 * m.hidden_size * (queries + keys),
                    "feed_forward": m.num_layers * block,
                    "norms": (2 * m.num_layers + 1) * m.hidden_size,
                    "embedding_and_head": m.hidden_size
                    * (m.num_positions + m.vocab_size * (2 - m.is_tied)),
                }
            """,
            "Your attention never has biases.",
            points=0.5,
        ),
        Wrong(
            "through a float",
            """
            def parameters(m):
                bias = float(m.has_biases)
                q, k = m.num_heads * m.head_dim, m.num_kv_heads * m.head_dim
                h, f, n = m.hidden_size, m.ffn_size, m.num_layers
                heads = 1 if m.is_tied else 2
                return {
                    "attention": int(n * (2.0 * h * (q + k) + bias * (q + 2 * k + h))),
                    "feed_forward": int(
                        n * ((2.0 + m.is_gated) * h * f + bias * ((1 + m.is_gated) * f + h))
                    ),
                    "norms": int((2 * n + 1) * (1 + bias) * h),
                    "embedding_and_head": int(h * (m.num_positions + 1.0 * heads * m.vocab_size)),
                }
            """,
            "Where does your whole number become a float?",
            points=0.5,
        ),
    ],
    right=[
        """
        def parameters(model):
            h, f, v, layers = model.hidden_size, model.ffn_size, model.vocab_size, model.num_layers
            q, k = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
            bias, gated = int(model.has_biases), int(model.is_gated)
            return {
                "attention": layers * (2 * h * q + 2 * h * k + bias * (q + 2 * k + h)),
                "feed_forward": layers * ((2 + gated) * h * f + bias * (f + gated * f + h)),
                "norms": (1 + bias) * h * (1 + 2 * layers),
                "embedding_and_head": (v * (2 - model.is_tied) + model.num_positions) * h,
            }
        """,
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
        "learned positions and an untied head": lambda case: (
            case["model"].get("num_positions", 0) > 0 and not case["model"]["is_tied"]
        ),
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
        "heads wider than the model": lambda case: (
            _head_widths(case) > case["model"]["hidden_size"]
        ),
        "heads narrower than the model": lambda case: (
            0 < _head_widths(case) < case["model"]["hidden_size"]
        ),
    },
)

STATE_BYTES = AnswerBank(
    function="state_bytes",
    wrong=[
        Wrong(
            "sixteen bytes shared out",
            """
            def state_bytes(num_params, recipe):
                width = 4 if recipe == "fp32" else 2
                rest = 16 - 2 * width
                return {
                    "weights": width * num_params,
                    "gradients": width * num_params,
                    "optimizer": rest * num_params,
                }
            """,
            "What do the names of the other two say?",
            points=1.0,
        ),
    ],
    right=[
        """
        RECIPES = ["fp32", "bf16", "bf16-fp32-gradients", "bf16-both-gradients"]

        def state_bytes(num_params, recipe):
            fp32, number = recipe == "fp32", RECIPES.index(recipe)
            return {
                "weights": num_params * (2 + 2 * fp32),
                "gradients": num_params * [4, 2, 4, 6][number],
                "optimizer": num_params * (4 + 4 + 4 * (not fp32)),
            }
        """,
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
        "beyond a float": lambda case: case["num_params"] > 2**53,
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
            "one sequence",
            _kept().replace("t = num_sequences * s", "t = s"),
            "Every wrong entry counts only one sequence.",
            points=0.5,
        ),
        Wrong(
            "one sequence in two entries",
            _kept(softmax="2 * a * s * s", dropout="s * h"),
            "Every wrong entry counts only one sequence.",
            points=2.0,
        ),
        Wrong(
            "the norm's number and the softmax of one sequence",
            _kept(rms_norm="2 * t * h + 4 * s", softmax="2 * a * s * s"),
            "How many tokens are in the whole batch?",
            points=2.0,
        ),
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

MICROSCOPE = AnswerBank(
    function="saved_bytes",
    wrong=[
        Wrong(
            "tensors told apart with `is`",
            """
            from torch.autograd.graph import saved_tensors_hooks

            def saved_bytes(call, parameters):
                seen, total = [], 0

                def pack(tensor):
                    nonlocal total
                    if not any(tensor is each for each in [*seen, *parameters]):
                        seen.append(tensor)
                        total += tensor.untyped_storage().nbytes()
                    return tensor

                with saved_tensors_hooks(pack, lambda tensor: tensor):
                    call()
                return total
            """,
            "Your sum includes the weights, and",
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
            "lent by the course",
            """
            from course_utils.instruments.saved_bytes import saved_bytes
            """,
            "work it out with",
        ),
    ],
    right=[
        """
        import torch

        def saved_bytes(call, parameters):
            leave_out, sizes, kept = {p.untyped_storage()._cdata for p in parameters}, {}, []

            def pack(tensor):
                storage = tensor.untyped_storage()
                kept.append(storage)
                if storage._cdata not in leave_out:
                    sizes[storage._cdata] = storage.nbytes()
                return tensor.detach()

            hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
            hooks.__enter__()
            try:
                call()
            finally:
                hooks.__exit__()
            return sum(sizes.values())
        """,
        """
        from torch.autograd.graph import saved_tensors_hooks

        def saved_bytes(call, parameters):
            tensors = []

            def pack(tensor):
                tensors.append(tensor.detach())
                return tensor.detach()

            with saved_tensors_hooks(pack, lambda packed: packed):
                result = call()
            storages = {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors}
            for each in parameters:
                storages.pop(each.untyped_storage()._cdata, None)
            return sum(each.nbytes() for each in storages.values())
        """,
    ],
    features={
        "bf16": lambda case: case["dtype"] == "bf16",
        "a view": lambda case: case["program"] == "a part of a large tensor",
        "no gradient": lambda case: case["program"] == "no gradient required",
        "a call that raises": lambda case: case["program"] == "a call that raises",
        "grad is disabled": lambda case: case["program"] == "grad is disabled",
        "a result without backward": lambda c: c["program"] == "a result that nobody uses",
        "no memory": lambda case: case["program"] == "tensors without memory",
        "whole numbers": lambda case: case["program"] == "indices and a mask",
        "freed storages": lambda case: case["program"] == "a call that frees what is saved",
        "a shared input": lambda case: case["program"] == "two layers read one input",
    },
)

GPT_LAYER_BYTES = AnswerBank(
    function="gpt_layer_bytes",
    wrong=[],
    right=[
        """
        def gpt_layer_bytes(num_sequences, seq_len, hidden_size, num_heads):
            t = num_sequences * seq_len
            return {
                "norms": 4 * t * hidden_size + 16 * t,
                "attention": 11 * t * hidden_size,
                "scores": 5 * num_heads * t * seq_len,
                "feed_forward": 19 * t * hidden_size,
            }
        """,
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

LLAMA_LAYER_BYTES = AnswerBank(
    function="llama_layer_bytes",
    wrong=[
        Wrong(
            "6 h of the recap, whatever the heads",
            """
            def llama_layer_bytes(model, b, s, e):
                n, h, a, f = b * s, model.hidden_size, model.num_heads, model.ffn_size
                shared = h * model.num_kv_heads // a
                return {
                    "norms": n * (2 * e * h + 8),
                    "attention": n * (e * (3 * h + 2 * shared) + 4 * a),
                    "feed_forward": n * e * (h + 4 * f),
                }
            """,
            "How wide are they, given `num_heads` and `head_dim`?",
            points=2.0,
        ),
    ],
    right=[
        """
        def llama_layer_bytes(model, num_sequences, seq_len, element_bytes):
            n, e = num_sequences * seq_len, element_bytes
            h, a, f = model.hidden_size, model.num_heads, model.ffn_size
            q, k = a * model.head_dim, model.num_kv_heads * model.head_dim
            return {
                "norms": 2 * n * (e * h + 4),
                "attention": n * (e * (h + 2 * q + 2 * k) + 4 * a),
                "feed_forward": e * n * h + 4 * e * n * f,
            }
        """,
        """
        def llama_layer_bytes(model, b, s, e):
            tokens = b * s
            x, inner = e * tokens * model.hidden_size, e * tokens * model.ffn_size
            q, kv = (e * tokens * n * model.head_dim for n in (model.num_heads, model.num_kv_heads))
            fp32 = 4 * tokens
            return {
                "feed_forward": x + inner + inner + inner + inner,
                "attention": x + q + kv + kv + q + fp32 * model.num_heads,
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
        "heads wider than the model": lambda case: (
            _head_widths(case) > case["model"]["hidden_size"]
        ),
        "heads narrower than the model": lambda case: (
            0 < _head_widths(case) < case["model"]["hidden_size"]
        ),
    },
)

SEQUENCE_BYTES = AnswerBank(
    function="sequence_bytes",
    wrong=[
        Wrong(
            "no list of operations",
            """
            def sequence_bytes(model, seq_len, layer):
                logits = 4 * seq_len * model.vocab_size
                return model.num_layers * layer + logits
            """,
            "The last norm, the head and ids and targets are missing from your sum",
        ),
    ],
    right=[
        """
        def sequence_bytes(model, seq_len, layer):
            s, v = seq_len, model.vocab_size
            x = 2 * s * model.hidden_size
            norm = x + 4 * s
            return 16 * s + 4 * s * v + x + norm + model.num_layers * layer
        """,
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
        "a tied head": lambda case: case["model"]["is_tied"],
        "a head of its own": lambda case: not case["model"]["is_tied"],
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
        Wrong("keeps the result too", _gate(saved="g, u, out"), "recomputed from the other two?"),
        Wrong(
            "hooks of its own",
            """
            import torch
            from torch.nn import functional as F

            def gate(g, u):
                def pack(tensor):
                    if tensor.data_ptr() in (g.data_ptr(), u.data_ptr()):
                        return tensor.detach()
                    return None

                def unpack(tensor):
                    return F.silu(g.detach()) if tensor is None else tensor

                with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                    return F.silu(g) * u
            """,
            "Where do your tensors live",
        ),
        Wrong(
            "one computed back from the result",
            _gate(saved="g, out", grad_g="grad * out * (1 / g + 1 - sigma)").replace(
                "g, u = ctx", "g, out = ctx"
            ),
            "One of the tensors that you keep is neither g nor u",
        ),
        Wrong(
            "gradients of zero",
            _gate(grad_g="torch.zeros_like(grad)", grad_u="torch.zeros_like(grad)"),
            "In which order does backward return them",
        ),
        Wrong(
            "no upstream gradient",
            _gate(grad_u="g * sigma"),
            "and what is each multiplied by?",
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
        "one row": lambda case: case["shape"][:-1] == [1],
        "many rows": lambda case: case["shape"][0] > 3,
        "three sides": lambda case: len(case["shape"]) == 3,
        "halves of one tensor": lambda case: case["kind"] == "halves of one tensor",
        "u without a gradient": lambda case: case["kind"] == "u requires no gradient",
        "g without a gradient": lambda case: case["kind"] == "g requires no gradient",
        "leaves": lambda case: case["kind"] == "leaves",
        "large numbers": lambda case: case["kind"] == "large numbers in float32",
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
_BACK = "return out.transpose(1, 2).flatten(-2)"

LOST_BYTES = AnswerBank(
    function="lean_attend",
    wrong=[
        Wrong(
            "as it stands",
            _attend(
                _FLIP,
                "q, k = (rotate(x.transpose(1, 2)).transpose(1, 2).contiguous() for x in (q, k))",
                _FUSED,
                _BACK,
            ),
            "In which order do tokens and heads of the queries lie in memory",
        ),
        Wrong(
            "a copy of the queries",
            _attend(
                "q, k = rotate(q), rotate(k)",
                "q, k, v = q.transpose(1, 2).contiguous(), k.transpose(1, 2), v.transpose(1, 2)",
                _FUSED,
                _BACK,
            ),
            "In which order do tokens and heads of the queries lie in memory",
        ),
        Wrong("not rotated", _attend(_FLIP, _FUSED, _BACK), "Which of q, k and v does it rotate"),
        Wrong(
            "keys and values in one another's place",
            _attend("q, k, v = rotate(q), rotate(v), k", _FLIP, _FUSED, _BACK),
            "Which of q, k and v does yours mix up?",
        ),
        Wrong(
            "values rotated too",
            _attend("q, k, v = rotate(q), rotate(k), rotate(v)", _FLIP, _FUSED, _BACK),
            "Which of q, k and v does it rotate",
        ),
        Wrong(
            "queries rotated alone",
            _attend("q = rotate(q)", _FLIP, _FUSED, _BACK),
            "Which of q, k and v does it rotate",
        ),
        Wrong(
            "rotated with heads before tokens",
            _attend(_FLIP, "q, k = rotate(q), rotate(k)", _FUSED, _BACK),
            "which axis holds the tokens at that point?",
        ),
        Wrong(
            "not causal",
            _attend(
                "q, k = rotate(q), rotate(k)",
                _FLIP,
                _FUSED.replace("is_causal=True", "is_causal=False"),
                _BACK,
            ),
            "Which tokens may each of the earlier ones see?",
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
        "shared keys and values": lambda case: case["num_heads"] > case["num_kv_heads"] > 1,
        "multi-query": lambda case: case["num_heads"] > case["num_kv_heads"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
    },
)

LAYER_BYTES = AnswerBank(
    function="layer_bytes",
    wrong=[
        Wrong(
            "everything doubled in fp32",
            """
            def layer_bytes(seq_len, hidden_size, num_heads, element_bytes, has_dropout):
                s, e, drop = seq_len, element_bytes, int(has_dropout)
                x, z = s * hidden_size, num_heads * s * s
                return e * (16 * x + (1 + drop) * z) + e * (2 * x + z) * drop // 2 + 16 * s
            """,
            "Does a dropout mask get wider?",
        ),
    ],
    right=[
        """
        def layer_bytes(seq_len, hidden_size, num_heads, element_bytes, has_dropout):
            s, e, drop = seq_len, element_bytes, int(has_dropout)
            x, z = s * hidden_size, num_heads * s * s
            return 16 * e * x + e * z + drop * e * z + (2 * x + z) * drop + 16 * s
        """,
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
    "u03-element-bytes": LAYER_BYTES,
    "u03-fused-gate": FUSED_GATE,
    "u03-lost-bytes": LOST_BYTES,
}
