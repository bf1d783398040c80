"""Answer banks of unit 05: bytes of segments, FLOPs of recomputation, policies and plans."""

from tests.answer_bank import AnswerBank, Wrong


def _segments(
    after_forward: str = "segments * u",
    peak: str = "max((segments - 1) * u + last * A, (segments - 2) * u + k * A)",
) -> str:
    return f"""
    def segment_bytes(num_layers, layers_per_segment, boundary_bytes, layer_bytes):
        L, k, u, A = num_layers, layers_per_segment, boundary_bytes, layer_bytes
        segments = (L + k - 1) // k
        last = L - (segments - 1) * k
        if segments == 1:
            last = L
        return {{"after_forward": {after_forward}, "peak": {peak}}}
    """


SEGMENT_BYTES = AnswerBank(
    function="segment_bytes",
    wrong=[
        Wrong(
            "segments rounded down",
            _segments("L // k * u"),
            "Does a short last segment keep its input too?",
            points=1.0,
        ),
        Wrong(
            "every layer's input",
            _segments("L * u"),
            "from the input of their segment?",
            points=1.0,
        ),
        Wrong(
            "the first input forgotten",
            _segments("(segments - 1) * u"),
            "From what is the first segment computed again?",
            points=1.0,
        ),
        Wrong(
            "the result too",
            _segments("(segments + 1) * u"),
            "Is the result of the last segment needed",
            points=1.0,
        ),
        Wrong(
            "layers for segments", _segments("k * u"), "How many segments are there?", points=1.0
        ),
        Wrong(
            "nothing recomputed",
            _segments("L * A"),
            "Who wrote down anything inside a segment by then?",
            points=1.0,
        ),
        Wrong(
            "a short segment as long as the others",
            _segments(peak="(segments - 1) * u + k * A"),
            "How many layers has the last segment there?",
            points=1.0,
        ),
        Wrong(
            "segments rounded down at the peak",
            _segments(peak="L // k * u + k * A"),
            "is the segment's own input already?",
            points=1.0,
        ),
        Wrong(
            "no layer with its input",
            _segments(peak="segments * u + k * (A - u)"),
            "You take the input off every layer",
            points=1.0,
        ),
        Wrong(
            "the last segment alone",
            _segments(peak="(segments - 1) * u + last * A"),
            "Which segment keeps most when the last one is short?",
            points=1.0,
        ),
        Wrong(
            "the segment's input twice",
            _segments(peak="segments * u + k * A"),
            "how often does it lie in memory?",
            points=1.0,
        ),
        Wrong(
            "one segment",
            _segments(peak="k * A"),
            "What do the segments before it still keep?",
            points=1.0,
        ),
        Wrong(
            "one layer beside all inputs",
            _segments(peak="segments * u + A"),
            "How many does a segment run before its first gradient?",
            points=1.0,
        ),
        Wrong(
            "one layer beside the other inputs",
            _segments(peak="(segments - 1) * u + A"),
            "How many does a segment run before its first gradient, and how often",
            points=1.0,
        ),
        Wrong(
            "all layers at once",
            _segments(peak="L * A"),
            "What has been freed when",
            points=1.0,
        ),
    ],
    right=[
        _segments("-(-L // k) * u", "(L // k - 1) * u + k * A"),
        """
        def segment_bytes(num_layers, layers_per_segment, boundary_bytes, layer_bytes):
            starts = list(range(0, num_layers, layers_per_segment))
            at_once = []
            for before, start in enumerate(starts):
                length = min(layers_per_segment, num_layers - start)
                at_once.append(before * boundary_bytes + length * layer_bytes)
            return {"peak": max(at_once), "after_forward": len(starts) * boundary_bytes}
        """,
    ],
    features={
        "k divides L": lambda c: c["num_layers"] % c["layers_per_segment"] == 0,
        "k does not divide L": lambda c: c["num_layers"] % c["layers_per_segment"] > 0,
        "one layer a segment": lambda c: c["layers_per_segment"] == 1,
        "one segment": lambda c: c["layers_per_segment"] == c["num_layers"],
        "a real model": lambda c: c["boundary_bytes"] == 2 * 4096 * 2048,
    },
)


def _best(chosen: str) -> str:
    return f"""
    from math import sqrt

    def best_layers_per_segment(num_layers, boundary_bytes, layer_bytes):
        L, u, A = num_layers, boundary_bytes, layer_bytes

        def peak(k):
            return (L // k - 1) * u + k * A

        def within(size):
            return min(max(1, round(size)), L)

        return {chosen}
    """


BEST_SEGMENT = AnswerBank(
    function="best_layers_per_segment",
    wrong=[
        Wrong(
            "the longest among equals",
            _best("min(range(L, 0, -1), key=peak)"),
            "Which of several does the exercise ask for?",
        ),
        Wrong("the root of the layers", _best("round(sqrt(L))"), "What would a layer have to keep"),
        Wrong(
            "the number of segments",
            _best("within(sqrt(L * A / u))"),
            "How many layers has each of them?",
        ),
        Wrong("the estimate", _best("within(sqrt(L * u / A))"), "which lengths near it keep less?"),
        Wrong(
            "never one segment",
            _best("min(range(1, L), key=peak)"),
            "What are the values in that line when these sizes come in?",
        ),
        Wrong("one segment", _best("L"), "When are the most bytes kept?"),
        Wrong("one layer", _best("1"), "hardly more than its input?"),
        Wrong(
            "a short segment as long as the others",
            _best("min(range(1, L + 1), key=lambda k: ((L + k - 1) // k - 1) * u + k * A)"),
            "You count a short last segment like a full one.",
        ),
    ],
    right=[
        _best("min(range(1, L + 1), key=peak)"),
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
        "a real model": lambda c: c["num_layers"] == 80 and c["boundary_bytes"] == 134_217_728,
    },
)


def _flops(
    full: str = "forward",
    full_early: str = "forward - down",
    selective: str = "2 * scores",
    selective_early: str = "scores",
) -> str:
    return f"""
    def recomputed_flops(model, num_sequences, seq_len):
        h, f, d = model.hidden_size, model.ffn_size, model.head_dim
        a, kv, s = model.num_heads, model.num_kv_heads, seq_len
        tokens = num_sequences * s
        gates = 3 if model.is_gated else 2
        down = 2 * tokens * h * f
        scores = 2 * tokens * s * a * d
        projections = 4 * tokens * h * (a + kv) * d
        forward = projections + 2 * scores + gates * down
        return {{
            "full": {full},
            "full_early": {full_early},
            "selective": {selective},
            "selective_early": {selective_early},
        }}
    """


RECOMPUTED_FLOPS = AnswerBank(
    function="recomputed_flops",
    wrong=[
        Wrong(
            "three passes",
            _flops(full="3 * forward"),
            "Which of the three is it that runs again?",
            points=2.25,
        ),
        Wrong(
            "a backward pass",
            _flops(full="2 * forward"),
            "or what they are made from?",
            points=2.25,
        ),
        Wrong(
            "no scores",
            _flops(full="forward - 2 * scores"),
            "Is the attention core not a part of the layer?",
            points=2.25,
        ),
        Wrong(
            "own keys",
            _flops(full="8 * tokens * h * a * d + 2 * scores + gates * down"),
            "How many heads do they have?",
            points=2.25,
        ),
        Wrong(
            "two matrices",
            _flops(full="projections + 2 * scores + 2 * down"),
            "How many has it then?",
            points=2.25,
        ),
        Wrong(
            "with the head",
            _flops(full="forward + 2 * tokens * h * model.vocab_size"),
            "Is the head in a layer?",
            points=2.25,
        ),
        Wrong(
            "never early",
            _flops(full_early="forward"),
            "that no gradient of the layer needs?",
            points=2.25,
        ),
        Wrong(
            "without the output projection",
            _flops(full_early="forward - 2 * tokens * h * a * d"),
            "Is it the last product of the layer",
            points=2.25,
        ),
        Wrong(
            "without both projections",
            _flops(full_early="forward - 2 * tokens * h * a * d - down"),
            "Which norm needs what the first of them makes?",
            points=2.25,
        ),
        Wrong(
            "without the weighted values",
            _flops(full_early="forward - scores"),
            "Whose gradient is made from their result?",
            points=2.25,
        ),
        Wrong(
            "half of the scores",
            _flops(full="forward - scores"),
            "does the exercise count the full square?",
            points=2.25,
        ),
        Wrong(
            "without the whole block",
            _flops(full_early="forward - gates * down"),
            "You leave out the whole feed-forward block.",
            points=2.25,
        ),
        Wrong(
            "one product of the core",
            _flops(selective="scores"),
            "Which two are in the core?",
            points=2.25,
        ),
        Wrong(
            "the core with its projections",
            _flops(selective="2 * scores + projections"),
            "Which tensors does the core begin with",
            points=2.25,
        ),
        Wrong(
            "as the paper",
            _flops(selective="6 * scores"),
            "How often does the core run more than without?",
            points=2.25,
        ),
        Wrong(
            "heads of keys",
            _flops(selective="2 * scores * kv // a"),
            "How many heads of queries meet them?",
            points=2.25,
        ),
        Wrong(
            "a core never early",
            _flops(selective_early="2 * scores"),
            "that no gradient of the core needs?",
            points=2.25,
        ),
        Wrong(
            "a core without anything",
            _flops(selective_early="0"),
            "From which product come the weights",
            points=2.25,
        ),
    ],
    right=[
        _flops(selective="scores + scores"),
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
        "a real layer": lambda c: c["model"]["hidden_size"] == 2048,
    },
)


def _kept(
    none: str = "34 * x + 5 * z + 16 * t",
    selective: str = "34 * x + 16 * t",
    full: str = "2 * x",
) -> str:
    return f"""
    def kept_bytes(num_sequences, seq_len, hidden_size, num_heads):
        t = num_sequences * seq_len
        x, z = t * hidden_size, t * num_heads * seq_len
        return {{"none": {none}, "selective": {selective}, "full": {full}}}
    """


KEPT_BYTES = AnswerBank(
    function="kept_bytes",
    wrong=[
        Wrong(
            "34 and 5",
            _kept(none="34 * x + 5 * z"),
            "Which two numbers of 4 bytes",
            points=1.0,
        ),
        Wrong(
            "34 alone",
            _kept(selective="34 * x"),
            "Is a norm in the core of attention?",
            points=1.0,
        ),
        Wrong(
            "no queries, keys and values",
            _kept(selective="28 * x + 16 * t"),
            "From what is it computed again?",
            points=1.0,
        ),
        Wrong(
            "no attention",
            _kept(selective="23 * x + 16 * t"),
            "All of attention has gone.",
            points=1.0,
        ),
        Wrong(
            "no result of the core",
            _kept(selective="32 * x + 16 * t"),
            "Which projection reads it?",
            points=1.0,
        ),
        Wrong(
            "no softmax",
            _kept(selective="34 * x + 3 * z + 16 * t"),
            "What else has two sides of the length?",
            points=1.0,
        ),
        Wrong(
            "a mask that stays",
            _kept(selective="34 * x + z + 16 * t"),
            "How does the core drop the same numbers again?",
            points=1.0,
        ),
        Wrong("numbers for bytes", _kept(full="x"), "How wide is a number of 16 bits?", points=1.0),
        Wrong("the result too", _kept(full="4 * x"), "Who keeps its result?", points=1.0),
        Wrong(
            "statistics that stay",
            _kept(full="2 * x + 16 * t"),
            "Who needs them before the layer runs again?",
            points=1.0,
        ),
    ],
    right=[
        _kept(full="x + x"),
        """
        def kept_bytes(b, s, h, a):
            norms = 2 * (2 * b * s * h + 2 * 4 * b * s)
            attention, block = 11 * b * s * h, 19 * b * s * h
            core = (2 + 1 + 2) * a * b * s**2
            whole = norms + attention + block + core
            return {"full": 2 * b * s * h, "selective": whole - core, "none": whole}
        """,
    ],
    features={
        "one head": lambda c: c["num_heads"] == 1,
        "several sequences": lambda c: c["num_sequences"] > 1,
        "GPT-3": lambda c: c["hidden_size"] == 12288,
        "a model of 1B": lambda c: c["hidden_size"] == 2048,
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
        Wrong(
            "returns nothing",
            """
            def policy(ctx, op, *args, **kwargs):
                keep = "mm" in str(op)
            """,
            "your policy returns no CheckpointPolicy",
        ),
        Wrong("keeps everything", _policy("True"), "cost next to nothing to run again?"),
        Wrong(
            "the wrong way round", _policy(f"op not in {_PRODUCTS}"), "Which of the two policies"
        ),
        Wrong(
            "no biases",
            _policy("op in (aten.mm.default, aten.bmm.default, FUSED.default)"),
            "By which name does a linear layer with a bias",
        ),
        Wrong(
            "no products of many matrices",
            _policy("op in (aten.mm.default, aten.addmm.default, FUSED.default)"),
            "By which name do queries meet keys",
        ),
        Wrong("products alone", _policy("'mm' in str(op)"), "Which name has it on a CPU?"),
        Wrong("mm alone", _policy("op is aten.mm.default"), "Only `mm` is kept."),
        Wrong(
            "Llama's names alone",
            _policy("op in (aten.mm.default, FUSED.default)"),
            "Which names in the exercise's text have you left out?",
        ),
        Wrong(
            "activation functions too",
            _policy(f"op in (*{_PRODUCTS}, aten.silu.default, aten.gelu.default)"),
            "Which activation function do you save",
        ),
        Wrong("attention alone", _policy("op == FUSED.default"), "Only fused attention is kept."),
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


def _plan(body: str) -> str:
    lines = "\n".join("        " + line for line in body.strip("\n").split("\n"))
    return f"""
    from itertools import combinations, combinations_with_replacement

    def plan(num_layers, options, cap_bytes):
        def bytes_of(chosen):
            return sum(each["kept_bytes"] for each in chosen)

        def flops_of(chosen):
            return sum(each["recomputed_flops"] for each in chosen)

        def counted(chosen):
            names = [each["name"] for each in chosen]
            return {{name: names.count(name) for name in names}}

        by_flops = sorted(options, key=lambda each: each["recomputed_flops"])
        smallest = min(options, key=lambda each: each["kept_bytes"])
{lines}
    """


_BEST_OF = """
plans = [each for each in {plans} if bytes_of(each) {fits}]
return counted(min(plans, key=flops_of)) if plans else {none}
"""


def _best_of(
    plans: str = "combinations_with_replacement(options, num_layers)",
    fits: str = "<= cap_bytes",
    none: str = "{}",
) -> str:
    return _plan(_BEST_OF.format(plans=plans, fits=fits, none=none))


PLAN = AnswerBank(
    function="plan",
    wrong=[
        Wrong(
            "never without a plan",
            _best_of(none='{smallest["name"]: num_layers}'),
            "What does the exercise ask for where none does?",
        ),
        Wrong("below the cap", _best_of(fits="< cap_bytes"), "Is that too much?"),
        Wrong(
            "no cap",
            _plan('return {by_flops[0]["name"]: num_layers}'),
            "How many bytes do all layers keep together?",
        ),
        Wrong(
            "one option for all",
            _best_of(plans="([each] * num_layers for each in options)"),
            "Could one layer keep more than another?",
        ),
        Wrong(
            "the cap for each layer",
            _best_of(
                plans="([each] * num_layers for each in options)",
                fits="<= num_layers * cap_bytes",
            ),
            "Your plan fits if the cap is that of one layer.",
        ),
        Wrong(
            "no option twice",
            _best_of(plans="combinations(options, num_layers)"),
            "May several layers take the same option?",
        ),
        Wrong(
            "two options at most",
            _best_of(
                plans="[p for pair in combinations(options, 2)"
                " for p in combinations_with_replacement(pair, num_layers)]"
            ),
            "When does a third come cheaper",
        ),
        Wrong(
            "a list of names",
            _plan('return [by_flops[0]["name"]] * num_layers'),
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "as little as possible",
            _best_of(plans="([smallest] * num_layers,)"),
            "Is there a prize for bytes that stay free?",
        ),
        Wrong(
            "two ends",
            _best_of(plans="combinations_with_replacement((by_flops[0], smallest), num_layers)"),
            "When does an option between them come cheaper?",
        ),
        Wrong(
            "layer by layer",
            _plan("""
chosen = []
for others in reversed(range(num_layers)):
    left = cap_bytes - bytes_of(chosen) - others * smallest["kept_bytes"]
    fitting = [each for each in by_flops if each["kept_bytes"] <= left]
    if not fitting:
        return {}
    chosen.append(fitting[0])
return counted(chosen)
"""),
            "Is the sum of good first choices the best plan?",
        ),
        Wrong(
            "first come, first served",
            _plan("""
chosen = []
for layer in range(num_layers):
    fitting = [e for e in by_flops if bytes_of(chosen) + e["kept_bytes"] <= cap_bytes]
    if fitting:
        chosen.append(fitting[0])
return counted(chosen)
"""),
            "Which layers has your plan forgotten?",
        ),
    ],
    right=[
        _best_of(),
        """
        def plan(num_layers, options, cap_bytes):
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
    "u05-selective-bytes": KEPT_BYTES,
}
