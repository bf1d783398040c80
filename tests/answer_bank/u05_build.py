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


_FILL_IN = "torch.autograd.backward(out, grad)"
_GRADS = "*(each.grad for each in inputs)"

CHECKPOINT = AnswerBank(
    function="checkpoint",
    wrong=[
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
            "What may be freed",
        ),
        Wrong(
            "nothing returned",
            """
            def checkpoint(function, *tensors):
                function(*tensors)
            """,
            "Does every path through your function end in a `return`?",
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
            "only that of the second run",
        ),
        Wrong(
            "without an autograd function",
            """
            import torch

            def checkpoint(function, *tensors):
                state, made, number = torch.get_rng_state(), [], iter(range(1000))
                on, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
                hooks = torch.autograd.graph.saved_tensors_hooks

                def unpack(index):
                    if not made:
                        before = torch.get_rng_state()
                        torch.set_rng_state(state)
                        with torch.enable_grad(), torch.autocast("cpu", dtype=dtype, enabled=on):
                            with hooks(made.append, lambda nothing: nothing):
                                function(*tensors)
                        torch.set_rng_state(before)
                    return made[index]

                with hooks(lambda tensor: next(number), unpack):
                    return function(*tensors)
            """,
            "Where do your tensors live until backward",
        ),
        Wrong(
            "backward without the gradient",
            _checkpoint((_FILL_IN, "out.backward()")),
            "Which gradient does backward receive",
        ),
        Wrong(
            "one gradient too few",
            _checkpoint(("return None, None,", "return None,")),
            "what does backward return for each of those?",
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
            "neither random numbers nor autocast",
            _checkpoint(
                ("torch.set_rng_state(ctx.random_state)", "pass"),
                (
                    'with torch.autocast("cpu", dtype=ctx.precision, enabled=ctx.is_autocast):',
                    "if True:",
                ),
            ),
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
            "random numbers right, and no more",
            """
            import torch

            class Recompute(torch.autograd.Function):
                @staticmethod
                def forward(ctx, function, *tensors):
                    ctx.function, ctx.state = function, torch.get_rng_state()
                    ctx.save_for_backward(*tensors)
                    return function(*tensors)

                @staticmethod
                def backward(ctx, grad):
                    inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors]
                    before = torch.get_rng_state()
                    torch.set_rng_state(ctx.state)
                    with torch.enable_grad():
                        out = ctx.function(*inputs)
                    torch.set_rng_state(before)
                    torch.autograd.backward(out, grad)
                    return None, *(each.grad for each in inputs)

            def checkpoint(function, *tensors):
                return Recompute.apply(function, *tensors)
            """,
            "Which of the tensors required a gradient",
            points=2.0,
        ),
        Wrong(
            "answers of needs_input_grad from the first on",
            _checkpoint(("ctx.needs_input_grad[2:]", "ctx.needs_input_grad")),
            "How many answers does it hold",
        ),
        Wrong(
            "answers of needs_input_grad from the second on",
            _checkpoint(("ctx.needs_input_grad[2:]", "ctx.needs_input_grad[1:]")),
            "How many answers does it hold",
            points=3.0,
        ),
        Wrong(
            "the first input alone",
            _checkpoint(
                (
                    "return Recompute.apply(function, torch.ones(1, requires_grad=True), *tensors)",
                    "def of_first(first):\n"
                    "            return function(first, *tensors[1:])\n\n"
                    "        flag = torch.ones(1, requires_grad=True)\n"
                    "        return Recompute.apply(of_first, flag, tensors[0])",
                )
            ),
            "Which inputs do you hand to `apply`",
            points=2.0,
        ),
        Wrong(
            "the second result stays",
            _checkpoint((_FILL_IN, f"ctx.out = out\n            {_FILL_IN}")),
            "What still refers to it",
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
        "frozen numbers": lambda case: case["kind"] == "data and a scale",
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
            "nothing returned",
            _segments(
                _STARTS,
                _STOP,
                "    x = checkpoint(nn.Sequential(*layers[start:stop]), x)",
            ),
            "end in a `return`?",
        ),
        Wrong(
            "a checkpoint of one's own",
            """
            import torch
            from torch import nn

            class Again(torch.autograd.Function):
                @staticmethod
                def forward(ctx, function, x):
                    ctx.function = function
                    ctx.save_for_backward(x)
                    return function(x)

                @staticmethod
                def backward(ctx, grad):
                    x = ctx.saved_tensors[0].detach().requires_grad_()
                    with torch.enable_grad():
                        out = ctx.function(x)
                    torch.autograd.backward(out, grad)
                    return None, x.grad

            def run_in_segments(layers, x, k, checkpoint):
                for start in range(0, len(layers), k):
                    x = Again.apply(nn.Sequential(*layers[start : start + k]), x)
                return x
            """,
            "Where does the one that you call come from?",
        ),
        Wrong(
            "a list that is cleared",
            _segments(
                "some = []",
                "def run(x):",
                "    for layer in some:",
                "        x = layer(x)",
                "    return x",
                "for number, layer in enumerate(layers, 1):",
                "    some.append(layer)",
                "    if number % layers_per_segment == 0 or number == len(layers):",
                "        x = checkpoint(run, x)",
                "        some.clear()",
                "return x",
            ),
            "what have you done to it since?",
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
        "lengths that could be more even": lambda c: list(c.values())[:2] == [7, 3],
    },
)


def _pieces(
    summed: str = "F.cross_entropy(part @ weight.T, wanted, reduction='sum')",
    divided: str = "total / len(targets)",
    parts: str = "hidden.tensor_split(num_pieces), targets.tensor_split(num_pieces)",
) -> str:
    return f"""
    import torch
    from torch.nn import functional as F

    def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
        def piece(part, weight, wanted):
            return {summed}

        total = 0
        for part, wanted in zip({parts}):
            total = total + checkpoint(piece, part, weight, wanted)
        return {divided}
    """


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
            "How many tokens does the product inside a piece see?",
        ),
        Wrong("nothing returned", _pieces().replace("return total", "total"), "end in a `return`?"),
        Wrong(
            "targets of the last piece",
            """
            from torch.nn import functional as F

            def loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint):
                total = 0
                for part, wanted in zip(hidden.chunk(num_pieces), targets.chunk(num_pieces)):
                    def piece(part, weight):
                        return F.cross_entropy(part @ weight.T, wanted, reduction="sum")

                    total = total + checkpoint(piece, part, weight)
                return total / len(targets)
            """,
            "When does your function look up its variables",
        ),
    ],
    right=[
        _pieces(),
        _pieces(
            summed="F.cross_entropy(part @ weight.T, wanted) * (len(part) / len(targets))",
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
