"""Answer banks of unit 05: bytes of segments, FLOPs of recomputation, policies and plans."""

from tests.answer_bank import AnswerBank, Wrong

SEGMENT_BYTES = AnswerBank(
    function="segment_bytes",
    wrong=[],
    right=[
        """
        def segment_bytes(num_layers, layers_per_segment, boundary_bytes, layer_bytes):
            L, k, u, A = num_layers, layers_per_segment, boundary_bytes, layer_bytes
            whole, longest = max(L // k, 1), min(k, L)
            return {"after_forward": -(-L // k) * u, "peak": (whole - 1) * u + longest * A}
        """,
        """
        def segment_bytes(num_layers, layers_per_segment, boundary_bytes, layer_bytes):
            num_segments = (num_layers + layers_per_segment - 1) // layers_per_segment
            inputs_before, layers_left, peak = num_segments, num_layers, 0
            while layers_left:
                inputs_before -= 1
                running = layers_left - inputs_before * layers_per_segment
                peak = max(peak, inputs_before * boundary_bytes + running * layer_bytes)
                layers_left -= running
            return {"peak": peak, "after_forward": num_segments * boundary_bytes}
        """,
    ],
    features={
        "k divides L": lambda c: c["num_layers"] % c["layers_per_segment"] == 0,
        "k does not divide L": lambda c: c["num_layers"] % c["layers_per_segment"] > 0,
        "one layer a segment": lambda c: c["layers_per_segment"] == 1,
        "one segment": lambda c: c["layers_per_segment"] == c["num_layers"],
        "longer than all": lambda c: c["layers_per_segment"] > c["num_layers"],
        "a real model": lambda c: c["boundary_bytes"] == 2 * 4096 * 2048,
    },
)


BEST_SEGMENT = AnswerBank(
    function="best_layers_per_segment",
    wrong=[
        Wrong(
            "never one segment",
            """
            def best_layers_per_segment(L, u, A):
                return min(range(1, L), key=lambda k: (L // k - 1) * u + k * A)
            """,
            "In which of the cases is there nothing to choose from",
        ),
    ],
    right=[
        """
        def best_layers_per_segment(L, u, A):
            peaks = [(L // k * u + k * A, k) for k in range(1, L + 1)]
            return min(peaks)[1]
        """,
        """
        def best_layers_per_segment(num_layers, boundary_bytes, layer_bytes):
            best, fewest = 0, None
            for k in range(1, num_layers + 1):
                starts = range(0, num_layers, k)
                peak = max(
                    number * boundary_bytes + min(k, num_layers - start) * layer_bytes
                    for number, start in enumerate(starts)
                )
                if fewest is None or peak < fewest:
                    best, fewest = k, peak
            return best
        """,
    ],
    features={
        "one layer": lambda c: c["num_layers"] == 1,
        "layers that keep their input alone": lambda c: c["boundary_bytes"] == c["layer_bytes"],
        "layers that keep much": lambda c: c["layer_bytes"] >= 10 * c["boundary_bytes"],
        "a real model": lambda c: c["boundary_bytes"] == 134_217_728,
    },
)


RECOMPUTED_FLOPS = AnswerBank(
    function="recomputed_flops",
    wrong=[],
    right=[
        """
        def recomputed_flops(model, num_sequences, seq_len):
            h, f, d = model.hidden_size, model.ffn_size, model.head_dim
            a, kv, s = model.num_heads, model.num_kv_heads, seq_len
            tokens = num_sequences * s
            scores, down = 2 * tokens * s * a * d, 2 * tokens * h * f
            forward = 4 * tokens * h * (a + kv) * d + 2 * scores + (2 + model.is_gated) * down
            core = {"selective": 2 * scores, "selective_early": scores}
            return {"full": forward, "full_early": forward - down, **core}
        """,
        """
        def recomputed_flops(m, b, s):
            h, queries, keys = m.hidden_size, m.num_heads * m.head_dim, m.num_kv_heads * m.head_dim
            shapes = [(h, queries), (h, keys), (h, keys), (queries, h), (h, m.ffn_size)]
            if m.is_gated:
                shapes.append((h, m.ffn_size))
            before_down = sum(2 * b * s * inner * outer for inner, outer in shapes)
            one = 2 * b * s * s * queries
            early = before_down + 2 * one
            return {
                "selective_early": one,
                "selective": 2 * one,
                "full_early": early,
                "full": early + 2 * b * s * m.ffn_size * h,
            }
        """,
    ],
    features={
        "GPT": lambda c: not c["model"].get("is_gated", True),
        "gated": lambda c: c["model"].get("is_gated", True),
        "shared keys": lambda c: c["model"]["num_heads"] > c["model"]["num_kv_heads"],
        "several sequences": lambda c: c["num_sequences"] > 1,
        "heads of another width": lambda c: "head_dim" in c["model"],
        "a real layer": lambda c: c["model"]["hidden_size"] == 2048,
    },
)


def _policy(condition: str, yes: str = "MUST_SAVE", no: str = "PREFER_RECOMPUTE") -> str:
    return f"""
    import torch
    from torch.utils.checkpoint import CheckpointPolicy

    aten = torch.ops.aten
    FUSED = aten._scaled_dot_product_flash_attention_for_cpu

    def policy(ctx, op, *args, **kwargs):
        if {condition}:
            return CheckpointPolicy.{yes}
        return CheckpointPolicy.{no}
    """


_PRODUCTS = "(aten.mm.default, aten.addmm.default, aten.bmm.default, FUSED.default)"

POLICY = AnswerBank(
    function="policy",
    wrong=[
        Wrong(
            "packets for operations",
            _policy("op in (aten.mm, aten.addmm, aten.bmm, FUSED)"),
            "is that equal to what you compare it with?",
        ),
        Wrong(
            "names without their namespace",
            _policy("str(op) in ('mm', 'addmm', 'bmm')"),
            "is that equal to what you compare it with?",
        ),
        Wrong("products alone", _policy("'mm' in str(op)"), "What is it called on a CPU?"),
    ],
    right=[
        _policy(f"op in {_PRODUCTS}", yes="PREFER_SAVE", no="MUST_RECOMPUTE"),
        _policy("op.overloadpacket in (aten.mm, aten.addmm, aten.bmm, FUSED)"),
        _policy("'mm' in op.__name__ or 'attention' in op.__name__"),
    ],
    features={
        "biases": lambda c: c["kind"] == "GPT",
        "no biases": lambda c: c["kind"] == "Llama",
        "fused attention": lambda c: c["attention"] == "fused",
        "attention written out": lambda c: c["attention"] == "written out",
        "shared keys": lambda c: c["num_heads"] > c["num_kv_heads"],
    },
)


PLAN = AnswerBank(
    function="choose_options",
    wrong=[
        Wrong(
            "a list of names",
            """
            def choose_options(num_layers, options, cap_bytes):
                return [options[0]["name"]] * num_layers
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "options in another order afterwards",
            """
            def choose_options(num_layers, options, cap_bytes):
                options.sort(key=lambda each: each["kept_bytes"])
                return {options[0]["name"]: num_layers}
            """,
            "what could your function change instead?",
        ),
    ],
    right=[
        """
        def choose_options(num_layers, options, cap_bytes):
            def plans(layers, names):
                if len(names) == 1:
                    yield {names[0]: layers}
                    return
                for count in range(layers + 1):
                    for made in plans(layers - count, names[1:]):
                        yield {names[0]: count, **made}

            def total(made, field):
                return sum(made[each["name"]] * each[field] for each in options)

            every = plans(num_layers, [each["name"] for each in options])
            fitting = [made for made in every if total(made, "kept_bytes") <= cap_bytes]
            return min(fitting, key=lambda made: total(made, "recomputed_flops"), default={})
        """,
        """
        from collections import Counter, OrderedDict
        from itertools import combinations_with_replacement

        def choose_options(num_layers, options, cap_bytes):
            by_name = {each["name"]: each for each in options}
            best = OrderedDict()
            for names in combinations_with_replacement(by_name, num_layers):
                chosen = [by_name[name] for name in names]
                flops = sum(each["recomputed_flops"] for each in chosen)
                if sum(each["kept_bytes"] for each in chosen) <= cap_bytes:
                    best.setdefault(flops, Counter(names))
            return best[min(best)] if best else best
        """,
        """
        def choose_options(num_layers, options, cap_bytes):
            best = {0: (0, ())}
            for _ in range(num_layers):
                longer = {}
                for kept, (flops, chosen) in best.items():
                    for each in options:
                        total = kept + each["kept_bytes"]
                        made = (flops + each["recomputed_flops"], (*chosen, each["name"]))
                        if total <= cap_bytes and made < longer.get(total, (10**30, ())):
                            longer[total] = made
                best = longer
            if not best:
                return {}
            chosen = min(best.values())[1]
            return {name: chosen.count(name) for name in set(chosen)}
        """,
    ],
    features={
        "two options": lambda c: len(c["options"]) == 2,
        "four options": lambda c: len(c["options"]) == 4,
        "a whole model": lambda c: (c["num_layers"], len(c["options"])) == (16, 5),
        "equal options": lambda c: (
            len({each["kept_bytes"] for each in c["options"]}) < len(c["options"])
        ),
        "none fits": lambda c: (
            c["num_layers"] * min(each["kept_bytes"] for each in c["options"]) > c["cap_bytes"]
        ),
        "all fit": lambda c: (
            c["num_layers"] * max(each["kept_bytes"] for each in c["options"]) <= c["cap_bytes"]
        ),
    },
)

BANKS = {
    "u05-segment-peak": SEGMENT_BYTES,
    "u05-recomputed-flops": RECOMPUTED_FLOPS,
    "u05-policy": POLICY,
    "u05-plan": PLAN,
    "u05-best-segment": BEST_SEGMENT,
}
