"""Answer banks of unit 05: a checkpoint, layers in segments, a loss in pieces."""

from tests.answer_bank import AnswerBank, Wrong

_CHECKPOINT = """
    import torch

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, function, dummy, *tensors):
            ctx.function = function
            ctx.random_state = torch.get_rng_state()
            ctx.is_autocast = torch.is_autocast_enabled("cpu")
            ctx.precision = torch.get_autocast_dtype("cpu")
            ctx.save_for_backward(*tensors)
            return function(*tensors)

        @staticmethod
        def backward(ctx, grad):
            inputs = [
                tensor.detach().requires_grad_(wants)
                for tensor, wants in zip(ctx.saved_tensors, ctx.needs_input_grad[2:])
            ]
            before = torch.get_rng_state()
            torch.set_rng_state(ctx.random_state)
            with torch.enable_grad():
                with torch.autocast("cpu", dtype=ctx.precision, enabled=ctx.is_autocast):
                    out = ctx.function(*inputs)
            torch.set_rng_state(before)
            torch.autograd.backward(out, grad)
            return None, None, *(each.grad for each in inputs)

    def checkpoint(function, *tensors):
        return Recompute.apply(function, torch.ones(1, requires_grad=True), *tensors)
"""


def _checkpoint(*changes: tuple[str, str]) -> str:
    """The answer above with some of its source replaced."""
    source = _CHECKPOINT
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


_NO_DUMMY = (
    ("function, dummy, *tensors):", "function, *tensors):"),
    ("ctx.needs_input_grad[2:]", "ctx.needs_input_grad[1:]"),
    ("return None, None,", "return None,"),
    ("function, torch.ones(1, requires_grad=True), *tensors)", "function, *tensors)"),
)
_NOT_RESTORED = ("torch.set_rng_state(ctx.random_state)", "pass")
_IN_BACKWARD = '"cpu", dtype=ctx.precision, enabled=ctx.is_autocast'
_FILL_IN = "torch.autograd.backward(out, grad)"
_GRADS = "*(each.grad for each in inputs)"

CHECKPOINT = AnswerBank(
    function="checkpoint",
    wrong=[
        Wrong(
            "no checkpoint at all",
            """
            def checkpoint(function, *tensors):
                return function(*tensors)
            """,
            "What may be let go of",
        ),
        Wrong(
            "keeps the graph of the first run",
            """
            import torch

            class Recompute(torch.autograd.Function):
                @staticmethod
                def forward(ctx, function, dummy, *tensors):
                    ctx.inputs = [t.detach().requires_grad_(t.requires_grad) for t in tensors]
                    with torch.enable_grad():
                        ctx.out = function(*ctx.inputs)
                    return ctx.out.detach()

                @staticmethod
                def backward(ctx, grad):
                    ctx.out.backward(grad)
                    return None, None, *(each.grad for each in ctx.inputs)

            def checkpoint(function, *tensors):
                return Recompute.apply(function, torch.ones(1, requires_grad=True), *tensors)
            """,
            "What may be let go of",
        ),
        Wrong(
            "tensors as attributes",
            _checkpoint(
                ("ctx.save_for_backward(*tensors)", "ctx.tensors = tensors"),
                ("ctx.saved_tensors", "ctx.tensors"),
            ),
            "Where do your tensors live until backward",
        ),
        Wrong(
            "keeps the result too",
            _checkpoint(
                ("ctx.save_for_backward(*tensors)", "out = function(*tensors)"),
                (
                    "return function(*tensors)",
                    "ctx.save_for_backward(*tensors, out)\n            return out",
                ),
                ("requires_grad_(wants)", "requires_grad_(wants)  # the result is left out by zip"),
            ),
            "Can backward make it again?",
        ),
        Wrong(
            "without recording alone",
            """
            import torch

            def checkpoint(function, *tensors):
                with torch.no_grad():
                    return function(*tensors)
            """,
            "what to do in backward?",
        ),
        Wrong(
            "nothing returned",
            """
            def checkpoint(function, *tensors):
                function(*tensors)
            """,
            "Does every way through your function end in a `return`?",
        ),
        Wrong(
            "twice in the forward pass",
            _checkpoint(
                (
                    "return function(*tensors)",
                    "function(*tensors)\n            return function(*tensors)",
                )
            ),
            "when is the second time?",
        ),
        Wrong(
            "a run for each of inputs and parameters",
            _checkpoint(
                (
                    "torch.set_rng_state(before)",
                    "torch.set_rng_state(ctx.random_state)\n"
                    "            with torch.enable_grad():\n"
                    "                with torch.autocast(\n"
                    "                    'cpu', dtype=ctx.precision, enabled=ctx.is_autocast\n"
                    "                ):\n"
                    "                    out = ctx.function(*inputs)\n"
                    "            torch.set_rng_state(before)",
                )
            ),
            "runs it again for each input?",
        ),
        Wrong(
            "no recording in backward",
            _checkpoint(("with torch.enable_grad():", "if True:")),
            "Was recording on where that tensor was made",
        ),
        Wrong(
            "no recording and only inputs",
            _checkpoint(
                ("with torch.enable_grad():", "if True:"),
                (_FILL_IN, "grads = torch.autograd.grad(out, inputs, grad)"),
                (_GRADS, "*grads"),
            ),
            "Was recording on where that tensor was made",
        ),
        Wrong(
            "not detached",
            _checkpoint(("tensor.detach().requires_grad_(wants)", "tensor")),
            "that of the second run alone",
        ),
        Wrong(
            "detached and nothing wanted",
            _checkpoint((".requires_grad_(wants)", "")),
            "What must a detached tensor want",
        ),
        Wrong(
            "everything wanted",
            _checkpoint((".requires_grad_(wants)", ".requires_grad_()")),
            "Which of the tensors wanted a gradient when they came in?",
            points=3.0,
        ),
        Wrong(
            "gradients of inputs alone",
            _checkpoint(
                (
                    _FILL_IN,
                    "wanting = [each for each in inputs if each.requires_grad]\n"
                    "            if wanting:\n"
                    "                grads = iter(torch.autograd.grad(out, wanting, grad))",
                ),
                (_GRADS, "*(next(grads) if x.requires_grad else None for x in inputs)"),
            ),
            "Inputs get their gradients, parameters none.",
        ),
        Wrong(
            "no gradient from behind",
            _checkpoint((_FILL_IN, "out.backward(torch.ones_like(out))")),
            "by what does the rest of the network want each number",
        ),
        Wrong(
            "backward without the gradient",
            _checkpoint((_FILL_IN, "out.backward()")),
            "Which gradient comes in from behind",
        ),
        Wrong(
            "one gradient too few",
            _checkpoint(("return None, None,", "return None,")),
            "what does backward return for each of those?",
        ),
        Wrong(
            "random numbers as they come",
            _checkpoint(_NOT_RESTORED),
            "Which ones does the second run draw",
            points=3.0,
        ),
        Wrong(
            "noted after the first run",
            _checkpoint(
                (
                    "return function(*tensors)",
                    "out = function(*tensors)\n"
                    "            ctx.random_state = torch.get_rng_state()\n"
                    "            return out",
                )
            ),
            "Which ones does the second run draw",
            points=3.0,
        ),
        Wrong(
            "random numbers not put back",
            _checkpoint(("torch.set_rng_state(before)", "pass")),
            "Where does the generator stand when your backward returns",
            points=3.0,
        ),
        Wrong(
            "a seed of its own",
            _checkpoint(
                ("return function(*tensors)", "torch.manual_seed(0); return function(*tensors)"),
                ("torch.set_rng_state(ctx.random_state)", "torch.manual_seed(0)"),
            ),
            "Who sets the seed in your forward",
            points=3.0,
        ),
        Wrong(
            "no dummy",
            _checkpoint(*_NO_DUMMY),
            "what could you hand to `apply`",
            points=3.0,
        ),
        Wrong(
            "no autocast",
            _checkpoint((f"with torch.autocast({_IN_BACKWARD}):", "if True:")),
            "backward is called when autocast is over",
            points=3.0,
        ),
        Wrong(
            "autocast always",
            _checkpoint((_IN_BACKWARD, '"cpu", dtype=torch.bfloat16')),
            "The second run has bfloat16 whatever the first had.",
            points=3.0,
        ),
        Wrong(
            "autocast only where it was on",
            _checkpoint(
                (
                    f"with torch.autocast({_IN_BACKWARD}):",
                    "from contextlib import nullcontext\n"
                    "                cast = torch.autocast('cpu', dtype=ctx.precision)\n"
                    "                with cast if ctx.is_autocast else nullcontext():",
                )
            ),
            "What does your backward do if autocast was off?",
            points=3.0,
        ),
        Wrong(
            "copies of the inputs",
            _checkpoint(
                (
                    "ctx.save_for_backward(*tensors)",
                    "ctx.save_for_backward(*(each.clone() for each in tensors))",
                )
            ),
            "You keep copies",
            points=2.0,
        ),
        Wrong(
            "a result that stays",
            _checkpoint(
                (
                    "return function(*tensors)",
                    "ctx.out = function(*tensors)\n            return ctx.out",
                )
            ),
            "What does your `ctx` hold on to",
        ),
        Wrong(
            "one state for all calls",
            _checkpoint(
                ("ctx.random_state = torch", "Recompute.random_state = torch"),
                (
                    "torch.set_rng_state(ctx.random_state)",
                    "torch.set_rng_state(Recompute.random_state)",
                ),
            ),
            "for how many calls is there room?",
            points=3.0,
        ),
        Wrong(
            "autocast without its precision",
            _checkpoint((_IN_BACKWARD, '"cpu", enabled=ctx.is_autocast')),
            "Which precision does autocast take if none is said",
            points=3.0,
        ),
        Wrong(
            "neither random numbers nor autocast",
            _checkpoint(_NOT_RESTORED, (f"with torch.autocast({_IN_BACKWARD}):", "if True:")),
            "Which ones does the second run draw",
            points=2.0,
        ),
        Wrong(
            "the first draft",
            """
            import torch

            class Recompute(torch.autograd.Function):
                @staticmethod
                def forward(ctx, function, *tensors):
                    ctx.function = function
                    ctx.save_for_backward(*tensors)
                    return function(*tensors)

                @staticmethod
                def backward(ctx, grad):
                    inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors]
                    with torch.enable_grad():
                        out = ctx.function(*inputs)
                    out.backward(grad)
                    return None, *(each.grad for each in inputs)

            def checkpoint(function, *tensors):
                return Recompute.apply(function, *tensors)
            """,
            "Which ones does the second run draw",
            points=1.0,
        ),
        Wrong(
            "PyTorch's",
            """
            import torch.utils.checkpoint

            def checkpoint(function, *tensors):
                return torch.utils.checkpoint.checkpoint(function, *tensors, use_reentrant=False)
            """,
            "with code of your own?",
        ),
        Wrong(
            "PyTorch's inside a function",
            """
            def checkpoint(function, *tensors):
                from torch.utils.checkpoint import checkpoint as again
                return again(function, *tensors, use_reentrant=True)
            """,
            "with code of your own?",
        ),
    ],
    right=[
        _checkpoint(),
        """
        import torch

        def checkpoint(function, *tensors):
            class Again(torch.autograd.Function):
                @staticmethod
                def forward(ctx, wanting, *inputs):
                    ctx.save_for_backward(torch.get_rng_state(), *inputs)
                    ctx.cast = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
                    with torch.no_grad():
                        return function(*inputs)

                @staticmethod
                def backward(ctx, grad):
                    state, *inputs = ctx.saved_tensors
                    wants = ctx.needs_input_grad[1:]
                    fresh = [x.detach().requires_grad_(w) for x, w in zip(inputs, wants)]
                    enabled, dtype = ctx.cast
                    with torch.random.fork_rng(devices=[]), torch.enable_grad():
                        torch.set_rng_state(state)
                        with torch.autocast("cpu", enabled=enabled, dtype=dtype):
                            result = function(*fresh)
                        result.backward(grad)
                    return None, *[x.grad for x in fresh]

            return Again.apply(torch.tensor(0.0, requires_grad=True), *tensors)
        """,
        """
        import torch

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, function, dummy, *tensors):
                ctx.function = function
                ctx.rng = torch.get_rng_state().clone()
                ctx.autocast = dict(
                    device_type="cpu",
                    enabled=torch.is_autocast_enabled("cpu"),
                    dtype=torch.get_autocast_dtype("cpu"),
                )
                ctx.save_for_backward(dummy, *tensors)
                return function(*tensors)

            @staticmethod
            def backward(ctx, grad):
                now = torch.get_rng_state()
                torch.set_rng_state(ctx.rng)
                inputs = []
                for tensor in ctx.saved_tensors[1:]:
                    copy = tensor.detach()
                    copy.requires_grad = tensor.requires_grad
                    inputs.append(copy)
                with torch.enable_grad(), torch.autocast(**ctx.autocast):
                    out = ctx.function(*inputs)
                    (out * grad).sum().backward()
                torch.set_rng_state(now)
                return (None, None) + tuple(each.grad for each in inputs)

        def checkpoint(function, *tensors):
            return Twice.apply(function, torch.empty(0, requires_grad=True), *tensors)
        """,
    ],
    features={
        "one layer": lambda case: case["num_layers"] == 1,
        "a chain": lambda case: case["num_layers"] > 1,
        "several inputs": lambda case: case["kind"] == "three inputs",
        "dropout": lambda case: case["kind"] == "dropout",
        "no gradient wanted": lambda case: case["kind"] == "data alone",
        "a mask": lambda case: case["kind"] == "a mask",
        "autocast": lambda case: case["kind"] == "float16",
        "no autocast": lambda case: case["kind"] == "off",
        "autocast in backward alone": lambda case: case["kind"] == "on in backward",
    },
)


def _segments(*lines: str) -> str:
    body = "".join(f"\n        {line}" for line in lines)
    return f"""
    from torch import nn

    def run_in_segments(layers, x, layers_per_segment, checkpoint):{body}
    """


_STARTS = "for start in range(0, len(layers), layers_per_segment):"
_STOP = "    stop = start + layers_per_segment"

SEGMENTS = AnswerBank(
    function="run_in_segments",
    wrong=[
        Wrong(
            "checkpoints in checkpoints",
            _segments(
                _STARTS,
                "    part = layers[start : start + layers_per_segment]",
                "    def segment(x, part=part):",
                "        for layer in part:",
                "            x = checkpoint(layer, x)",
                "        return x",
                "    x = checkpoint(segment, x)",
                "return x",
            ),
            "How many checkpoints does a layer lie in?",
        ),
        Wrong(
            "a plain loop",
            _segments("for layer in layers:", "    x = layer(x)", "return x"),
            "nothing is recomputed",
        ),
        Wrong(
            "the last segment unprotected",
            _segments(
                _STARTS,
                _STOP,
                "    segment = nn.Sequential(*layers[start:stop])",
                "    x = checkpoint(segment, x) if stop < len(layers) else segment(x)",
                "return x",
            ),
            "The layers of the last segment run once",
        ),
        Wrong(
            "variables that move on",
            _segments(
                _STARTS,
                "    def segment(x):",
                "        for layer in layers[start : start + layers_per_segment]:",
                "            x = layer(x)",
                "        return x",
                "    x = checkpoint(segment, x)",
                "return x",
            ),
            "When does your function look up its variables",
        ),
        Wrong(
            "a shorter last segment left out",
            _segments(
                "for number in range(len(layers) // layers_per_segment):",
                "    start = number * layers_per_segment",
                "    segment = layers[start : start + layers_per_segment]",
                "    x = checkpoint(nn.Sequential(*segment), x)",
                "return x",
            ),
            "Some layers never run.",
        ),
        Wrong(
            "one segment around everything",
            _segments("return checkpoint(nn.Sequential(*layers), x)"),
            "How many layers stand between two tensors that you keep?",
        ),
        Wrong(
            "each layer alone",
            _segments("for layer in layers:", "    x = checkpoint(layer, x)", "return x"),
            "The input of every layer is kept.",
        ),
        Wrong(
            "as many segments as each should have layers",
            _segments(
                "size = -(-len(layers) // layers_per_segment)",
                "for start in range(0, len(layers), size):",
                "    x = checkpoint(nn.Sequential(*layers[start : start + size]), x)",
                "return x",
            ),
            "how many segments there are, or how long each is?",
        ),
        Wrong(
            "from the beginning each time",
            _segments(
                "out = x",
                _STARTS,
                "    out = checkpoint(nn.Sequential(*layers[: start + layers_per_segment]), x)",
                "return out",
            ),
            "Where does each of your segments begin",
        ),
        Wrong(
            "the same input for every segment",
            _segments(
                _STARTS,
                _STOP,
                "    out = checkpoint(nn.Sequential(*layers[start:stop]), x)",
                "return out",
            ),
            "What comes into it?",
        ),
        Wrong(
            "nothing returned",
            _segments(
                _STARTS,
                _STOP,
                "    x = checkpoint(nn.Sequential(*layers[start:stop]), x)",
            ),
            "end in a `return`?",
        ),
        Wrong(
            "PyTorch's for layers in a row",
            _segments(
                "from torch.utils.checkpoint import checkpoint_sequential",
                "n = len(layers) // layers_per_segment",
                "return checkpoint_sequential(nn.Sequential(*layers), n, x, use_reentrant=False)",
            ),
            "with code of your own?",
        ),
    ],
    right=[
        _segments(
            _STARTS,
            "    def segment(x, start=start):",
            "        for layer in layers[start : start + layers_per_segment]:",
            "            x = layer(x)",
            "        return x",
            "    x = checkpoint(segment, x)",
            "return x",
        ),
        """
        import functools

        def run_in_segments(layers, x, k, checkpoint):
            def through(part, x):
                return functools.reduce(lambda x, layer: layer(x), part, x)

            rest = list(layers)
            while rest:
                part, rest = rest[:k], rest[k:]
                x = checkpoint(functools.partial(through, part), x)
            return x
        """,
        """
        from torch import nn

        def run_in_segments(layers, x, layers_per_segment, checkpoint):
            if not layers:
                return x
            first, rest = layers[:layers_per_segment], layers[layers_per_segment:]
            x = checkpoint(nn.Sequential(*first), x)
            return run_in_segments(rest, x, layers_per_segment, checkpoint)
        """,
    ],
    features={
        "one layer in each": lambda case: case["layers_per_segment"] == 1,
        "all layers in one": lambda case: case["layers_per_segment"] == case["num_layers"],
        "longer than all": lambda case: case["layers_per_segment"] > case["num_layers"],
        "a shorter last one": lambda case: case["num_layers"] % case["layers_per_segment"] > 0,
        "equal ones": lambda c: c["num_layers"] == 6 and c["layers_per_segment"] == 2,
    },
)


def _pieces(
    summed: str = "F.cross_entropy(part @ weight.T, wanted, reduction='sum')",
    divided: str = "total / len(targets)",
    call: str = "checkpoint(piece, part, weight, wanted)",
    parts: str = "hidden.tensor_split(num_pieces), targets.tensor_split(num_pieces)",
    before: str = "total = 0",
) -> str:
    return f"""
    import torch
    from torch.nn import functional as F

    def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
        def piece(part, weight, wanted):
            return {summed}

        {before}
        for part, wanted in zip({parts}):
            total = total + {call}
        return {divided}
    """


_MEAN = "F.cross_entropy(part @ weight.T, wanted)"

LOSS_IN_PIECES = AnswerBank(
    function="loss_in_pieces",
    wrong=[
        Wrong(
            "all at once",
            """
            from torch.nn import functional as F

            def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
                return F.cross_entropy(hidden @ weight.T, targets)
            """,
            "each keeps its log-softmax until backward",
        ),
        Wrong(
            "pieces without checkpoint",
            _pieces(call="piece(part, weight, wanted)"),
            "each keeps its log-softmax until backward",
        ),
        Wrong(
            "one piece around everything",
            """
            from torch.nn import functional as F

            def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
                def loss(hidden, weight):
                    return F.cross_entropy(hidden @ weight.T, targets)

                return checkpoint(loss, hidden, weight)
            """,
            "Where do you divide the tokens?",
        ),
        Wrong(
            "logits divided",
            _pieces(
                summed="F.cross_entropy(part, wanted, reduction='sum')",
                before="total, logits = 0, hidden @ weight.T",
                parts="logits.tensor_split(num_pieces), targets.tensor_split(num_pieces)",
            ),
            "Which product belongs inside of a piece?",
        ),
        Wrong(
            "logits in a list",
            """
            from torch.nn import functional as F

            def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
                every = []

                def piece(part, weight, wanted):
                    every.append(part @ weight.T)
                    return F.cross_entropy(every[-1], wanted, reduction="sum")

                pieces = zip(hidden.chunk(num_pieces), targets.chunk(num_pieces))
                return sum(checkpoint(piece, x, weight, t) for x, t in pieces) / len(targets)
            """,
            "Who holds them when a piece is done?",
        ),
        Wrong(
            "mean of means", _pieces(_MEAN, "total / num_pieces"), "the mean of the pieces' means"
        ),
        Wrong("sum of means", _pieces(_MEAN, "total"), "the sum of the pieces' means"),
        Wrong("not divided", _pieces(divided="total"), "the sum over all tokens"),
        Wrong(
            "a weight without gradient",
            _pieces(call="checkpoint(piece, part, weight.detach(), wanted)"),
            "one of two gradients is not",
        ),
        Wrong(
            "hidden states without gradient",
            _pieces(call="checkpoint(piece, part.detach(), weight, wanted)"),
            "one of two gradients is not",
        ),
        Wrong(
            "all logits in each piece",
            """
            import torch
            from torch.nn import functional as F

            def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
                total = 0
                for indices in torch.arange(len(targets)).tensor_split(num_pieces):
                    def piece(hidden, weight, targets, indices=indices):
                        logits = hidden @ weight.T
                        return F.cross_entropy(logits[indices], targets[indices], reduction="sum")

                    total = total + checkpoint(piece, hidden, weight, targets)
                return total / len(targets)
            """,
            "How many tokens does the product inside of a piece see?",
        ),
        Wrong("nothing returned", _pieces().replace("return total", "total"), "end in a `return`?"),
    ],
    right=[
        _pieces(),
        _pieces(
            summed=f"{_MEAN} * (len(part) / len(targets))",
            divided="total",
            parts="hidden.chunk(num_pieces), targets.chunk(num_pieces)",
        ),
        """
        import torch

        def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
            size = -(-len(targets) // num_pieces)
            losses = []
            for start in range(0, len(targets), size):
                wanted = targets[start : start + size, None]

                def piece(part, weight, wanted=wanted):
                    logits = part @ weight.T
                    return (logits.logsumexp(1) - logits.gather(1, wanted)[:, 0]).sum()

                losses.append(checkpoint(piece, hidden[start : start + size], weight))
            return torch.stack(losses).sum() / len(targets)
        """,
        """
        from torch.nn import functional as F

        def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
            losses, counts = [], []
            for part, wanted in zip(hidden.chunk(num_pieces), targets.chunk(num_pieces)):
                losses.append(
                    checkpoint(lambda x, w, t: F.cross_entropy(x @ w.T, t), part, weight, wanted)
                )
                counts.append(len(wanted))
            return sum(loss * n for loss, n in zip(losses, counts)) / sum(counts)
        """,
    ],
    features={
        "one piece": lambda case: case["num_pieces"] == 1,
        "pieces of one length": lambda c: c["num_tokens"] % c["num_pieces"] == 0,
        "pieces of two lengths": lambda c: c["num_tokens"] % c["num_pieces"] > 0,
    },
)

BANKS = {
    "u05-checkpoint": CHECKPOINT,
    "u05-segments": SEGMENTS,
    "u05-loss-in-pieces": LOSS_IN_PIECES,
}
