"""Answer banks of unit 07: master weights, a loss scaler, autocast, dense peak, best scale."""

from autograder.observing.u07.master import idle_index
from tests.answer_bank import AnswerBank, Wrong


def _update(
    *lines: str,
    before: str = "",
    loop: str = "for weight, master in zip(weights, masters):",
    skip: str = "if weight.grad is None: continue",
) -> str:
    """An answer with these lines for each weight and its master."""
    body = "\n".join(" " * 12 + line for line in (skip, *lines))
    return f"""
import torch

def update(weights, masters, learning_rate):
    with torch.no_grad():
        {before or "pass"}
        {loop}
{body}
"""


_STEP = "master -= learning_rate * weight.grad.float()"
_ROUND = "weight.copy_(master)"
_FREE = "weight.grad = None"

MASTER = AnswerBank(
    function="update",
    wrong=[
        Wrong(
            "the weight alone",
            _update("weight -= learning_rate * weight.grad.float()", _FREE),
            "Your masters have not moved.",
        ),
        Wrong(
            "new masters in the list",
            """
            import torch

            def update(weights, masters, learning_rate):
                with torch.no_grad():
                    for n, weight in enumerate(weights):
                        if weight.grad is not None:
                            masters[n] = masters[n] - learning_rate * weight.grad.float()
                            weight.copy_(masters[n])
                            weight.grad = None
            """,
            "Your masters have not moved.",
        ),
        Wrong(
            "everything rebound",
            _update(
                "master = master - learning_rate * weight.grad.float()",
                "weight = master.bfloat16()",
                _FREE,
            ),
            "Your masters have not moved.",
        ),
        Wrong(
            "a new weight",
            _update(_STEP, _FREE, "weight = master.bfloat16()"),
            "the weights do not follow",
        ),
        Wrong(
            "rounded into new memory",
            _update(_STEP, _FREE, "weight.data = master.bfloat16()"),
            "Who else may hold the old tensors",
        ),
        Wrong(
            "gradients of the masters stay",
            _update(
                "master.grad = weight.grad.float()",
                "master -= learning_rate * master.grad",
                _ROUND,
                _FREE,
            ),
            "so that its memory is freed",
        ),
        Wrong(
            "every weight has a gradient",
            _update(_STEP, _ROUND, _FREE, skip="pass"),
            "What is None there",
            points=2.0,
        ),
        Wrong(
            "rounds every master",
            """
            import torch

            def update(weights, masters, learning_rate):
                with torch.no_grad():
                    for weight, master in zip(weights, masters):
                        if weight.grad is not None:
                            master -= learning_rate * weight.grad.float()
                            weight.grad = None
                        weight.copy_(master)
            """,
            "A weight without a gradient has changed",
            points=2.0,
        ),
        Wrong(
            "recorded",
            """
            def update(weights, masters, learning_rate):
                for weight, master in zip(weights, masters):
                    if weight.grad is not None:
                        master -= learning_rate * weight.grad.float()
                        weight.copy_(master)
                        weight.grad = None
            """,
            "Should it record that line",
        ),
        Wrong(
            "all gradients in fp32 first",
            _update(
                "master -= learning_rate * gradient",
                _ROUND,
                _FREE,
                before="every = [None if w.grad is None else w.grad.float() for w in weights]",
                loop="for weight, master, gradient in zip(weights, masters, every):",
            ),
            "When is each of them no longer needed",
            points=2.0,
        ),
    ],
    right=[
        _update(_STEP, _ROUND, _FREE),
        """
        import torch

        @torch.no_grad()
        def update(weights, masters, learning_rate):
            for n in range(len(weights)):
                gradient = weights[n].grad
                if gradient is None:
                    continue
                gradient = gradient.to(torch.float32)
                weights[n].grad = None
                masters[n].sub_(gradient, alpha=learning_rate)
                weights[n].data.copy_(masters[n].to(torch.bfloat16))
        """,
        """
        import torch

        def update(weights, masters, learning_rate):
            for weight, master in zip(weights, masters):
                if weight.grad is None:
                    continue
                master.grad = weight.grad.float()
                torch.optim.SGD([master], lr=learning_rate, foreach=False).step()
                master.grad = None
                weight.data[...] = master
                weight.grad = None
        """,
        """
        def update(weights, masters, learning_rate):
            for weight, master in zip(weights, masters):
                if weight.grad is not None:
                    new = master - learning_rate * weight.grad.detach().float()
                    master[:] = new
                    weight.data.copy_(new)
                    weight.grad = None
        """,
    ],
    features={
        "one number": lambda case: case["num_numbers"] == 1,
        "one step": lambda case: case["num_steps"] == 1,
        "many weights": lambda case: case["num_weights"] >= 6,
        **{
            f"the {place} without gradient": lambda case, at=at: idle_index(case) == at
            for at, place in enumerate(("first", "second", "third"))
        },
    },
)

_SCALER = """
    import torch

    class LossScaler:
        def __init__(self, scale, growth_factor, backoff_factor, growth_interval):
            self.scale = scale
            self.growth_factor = growth_factor
            self.backoff_factor = backoff_factor
            self.growth_interval = growth_interval
            self.num_good = 0
            self.overflow = False

        def scaled(self, loss):
            return loss * self.scale

        def step(self, optimizer):
            self.overflow = False
            for group in optimizer.param_groups:
                for weight in group["params"]:
                    if weight.grad is None:
                        continue
                    weight.grad /= self.scale
                    if not torch.isfinite(weight.grad).all():
                        self.overflow = True
            if self.overflow:
                return False
            optimizer.step()
            return True

        def update(self):
            if self.overflow:
                self.scale *= self.backoff_factor
                self.num_good = 0
            else:
                self.num_good += 1
                if self.num_good == self.growth_interval:
                    self.scale *= self.growth_factor
                    self.num_good = 0
"""


def _scaler(*changes: tuple[str, str]) -> str:
    """The answer above with some of its source replaced."""
    source = _SCALER
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


_DIVIDE = "weight.grad /= self.scale"
_TEST = "if not torch.isfinite(weight.grad).all():"
_SKIP = ("if self.overflow:\n                return False", "")
_END = f"{_SKIP[0]}\n            optimizer.step()\n            return True"
_NO_RESET_AFTER_GROWTH = (
    "self.scale *= self.growth_factor\n                    self.num_good = 0",
    "self.scale *= self.growth_factor",
)
_AFTER_OVERFLOW = "self.scale *= self.backoff_factor\n                self.num_good = 0"

SCALER = AnswerBank(
    function="LossScaler",
    wrong=[
        Wrong(
            "ends at the first overflow",
            _scaler(
                (
                    "self.overflow = True",
                    "self.overflow = True\n                        return False",
                ),
            ),
            "those after the first bad one are still multiplied",
            points=3.0,
        ),
        Wrong(
            "nothing is an overflow",
            _scaler(("continue", "self.overflow = True; continue")),
            "Is a missing gradient an overflow",
            points=3.0,
        ),
        Wrong(
            "only gradients in fp16",
            _scaler((_TEST, f"if weight.grad.dtype == torch.float16 and {_TEST[3:]}")),
            "Which gradients does your test look at",
            points=1.0,
        ),
        Wrong(
            "no step without gradients",
            _scaler(
                (
                    _END,
                    "every = [w.grad for g in optimizer.param_groups for w in g['params']]\n"
                    "            if self.overflow or not any(g is not None for g in every):\n"
                    "                return False\n"
                    "            optimizer.step()\n"
                    "            return True",
                )
            ),
            "Where no weight has a gradient you skip the step.",
            points=3.0,
        ),
        Wrong(
            "a copy unscaled",
            _scaler((_DIVIDE, "gradient = weight.grad / self.scale")),
            "gradients that are still multiplied",
        ),
        Wrong(
            "the last weight decides",
            _scaler(
                (_TEST, "self.overflow = not torch.isfinite(weight.grad).all()"),
                ("                        self.overflow = True\n", ""),
            ),
            "You forget an overflow in one weight",
            points=2.0,
        ),
        Wrong(
            "compares before it counts",
            _scaler(
                (
                    "self.num_good += 1\n                if self.num_good == self.growth_interval:",
                    "if self.num_good < self.growth_interval:\n"
                    "                    self.num_good += 1\n"
                    "                else:",
                )
            ),
            "grows one good step too late",
            points=1.0,
        ),
        Wrong(
            "count goes on after an overflow",
            _scaler((_AFTER_OVERFLOW, "self.scale *= self.backoff_factor")),
            "your count goes on from where it was.",
            points=2.0,
        ),
        Wrong(
            "counts skipped steps",
            """
            import torch

            class LossScaler:
                def __init__(self, scale, growth_factor, backoff_factor, growth_interval):
                    self.scale, self.growth, self.backoff = scale, growth_factor, backoff_factor
                    self.interval, self.count, self.bad = growth_interval, 0, False

                def scaled(self, loss):
                    return self.scale * loss

                def step(self, optimizer):
                    weights = [w for g in optimizer.param_groups for w in g["params"]]
                    grads = [w.grad for w in weights if w.grad is not None]
                    for grad in grads:
                        grad.div_(self.scale)
                    self.bad = any(not grad.isfinite().all() for grad in grads)
                    if not self.bad:
                        optimizer.step()
                    return not self.bad

                def update(self):
                    self.count += 1
                    if self.bad:
                        self.scale *= self.backoff
                    if self.count == self.interval:
                        self.scale *= self.growth
                        self.count = 0
            """,
            "You count a skipped step as a good one.",
            points=2.0,
        ),
        Wrong(
            "returns nothing",
            _scaler(("return False", "return"), ("            return True\n", "")),
            "All is right but what your `step` returns",
        ),
        Wrong(
            "returns whether it skipped",
            _scaler(("return False", "return 1"), ("return True", "return 0")),
            "All is right but what your `step` returns",
        ),
        Wrong(
            "every weight has a gradient",
            _scaler(("if weight.grad is None:\n                        continue", "pass")),
            "What is None there",
            points=3.0,
        ),
        Wrong(
            "PyTorch's",
            """
            import torch

            class LossScaler:
                def __init__(self, scale, growth_factor, backoff_factor, growth_interval):
                    self.inner = torch.amp.GradScaler(
                        "cpu", scale, growth_factor, backoff_factor, growth_interval
                    )
                    self.scale = scale

                def scaled(self, loss):
                    return self.inner.scale(loss)

                def step(self, optimizer):
                    self.inner.step(optimizer)

                def update(self):
                    self.inner.update()
                    self.scale = self.inner.get_scale()
            """,
            "with code of your own?",
        ),
    ],
    right=[
        _scaler(),
        """
        import math
        import torch

        class LossScaler:
            def __init__(self, scale, growth_factor, backoff_factor, growth_interval):
                self.scale = torch.tensor(scale)
                self.factors = (growth_factor, backoff_factor)
                self.left = self.interval = growth_interval
                self.stepped = None

            def scaled(self, loss):
                return self.scale * loss

            def step(self, optimizer):
                every = [p for group in optimizer.param_groups for p in group["params"]]
                grads = [p.grad for p in every if p.grad is not None]
                for grad in grads:
                    grad.mul_(1 / self.scale)
                self.stepped = all(math.isfinite(grad.abs().max().item()) for grad in grads)
                if self.stepped:
                    optimizer.step()
                return self.stepped

            def update(self):
                growth, backoff = self.factors
                self.left = self.left - 1 if self.stepped else self.interval
                if not self.stepped:
                    self.scale = self.scale * backoff
                elif self.left == 0:
                    self.scale, self.left = self.scale * growth, self.interval
        """,
        """
        import torch

        def is_bad(tensor):
            return bool((tensor.isnan() | tensor.isinf()).any())

        class LossScaler:
            def __init__(self, scale, growth_factor, backoff_factor, growth_interval):
                vars(self).update(locals())
                self.history = []

            def scaled(self, loss):
                return loss.float() * self.scale

            def step(self, optimizer):
                weights = []
                for group in optimizer.param_groups:
                    weights += [weight for weight in group["params"] if weight.grad is not None]
                bad = 0
                for weight in weights:
                    weight.grad = weight.grad / self.scale
                    bad += is_bad(weight.grad)
                self.history.append(bad == 0)
                if bad == 0:
                    optimizer.step()
                return self.history[-1]

            def update(self):
                last = self.history[-self.growth_interval :]
                if not self.history[-1]:
                    self.scale = self.scale * self.backoff_factor
                    self.history = []
                elif len(last) == self.growth_interval and all(last):
                    self.scale = self.scale * self.growth_factor
                    self.history = []
        """,
    ],
    features={
        "an overflow first": lambda case: case["steps"][0] == "inf",
        "NaN": lambda case: "nan" in case["steps"],
        "several in a row": lambda case: "inf inf inf" in " ".join(case["steps"]),
        "one of two": lambda case: "inf in the first" in case["steps"],
        "by growing": lambda case: "large" in case["steps"] and "inf" not in case["steps"],
        "every step grows": lambda case: case["growth_interval"] == 1,
        "gradients with an infinite sum": lambda case: "huge" in case["steps"],
        "infinities of both signs": lambda case: "opposite" in case["steps"],
        "all numbers infinite": lambda case: "all" in case["steps"],
        "a small scale": lambda case: case["scale"] == 4 and case["steps"].count("inf") == 3,
        "no gradient at all": lambda case: "nothing" in case["steps"],
        "no gradient": lambda case: case["scenario"] == "one without gradient",
    },
)


def _kept(weights: str, activations: str = "2 * n * s * (h + 2 * f)") -> str:
    return f"""
    def kept_bytes(s, h, f, n, wants):
        first = wants or n > 1
        return {{"weights": {weights}, "activations": {activations}}}
    """


_COPIES = "2 * h * f * (2 if first else 1)"

AUTOCAST_BYTES = AnswerBank(
    function="kept_bytes",
    wrong=[
        Wrong(
            "the sum of both",
            """
            def kept_bytes(s, h, f, n, wants):
                return 2 * h * f * (2 if wants or n > 1 else 1) + 2 * n * s * (h + 2 * f)
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong("floats", _kept(f"1.0 * {_COPIES}", "2.0 * n * s * (h + 2 * f)"), "a float"),
        Wrong("a float on the way", _kept(f"int(1.0 * {_COPIES})"), "a float", points=0.75),
        Wrong(
            "the result of each call too",
            _kept(_COPIES, "2 * n * s * (2 * h + 2 * f)"),
            "In each call you count one tensor of width h too many",
            points=0.75,
        ),
        Wrong(
            "counted",
            """
            import torch

            def kept_bytes(s, h, f, n, wants):
                from course_utils.instruments import count_saved_bytes

                with torch.autocast("cpu", torch.bfloat16):
                    saved = count_saved_bytes(lambda: torch.nn.Linear(h, f)(torch.ones(s, h)))
                return {"weights": saved.total_bytes, "activations": 0}
            """,
            "How would you work it out with code of your own?",
        ),
    ],
    right=[
        _kept(_COPIES),
        """
        def kept_bytes(num_tokens, hidden_size, ffn_size, num_calls, wants_input_grad):
            activations, copies = 0, {"second"}
            wants = wants_input_grad
            for _ in range(num_calls):
                activations += 2 * num_tokens * hidden_size
                activations += 2 * 2 * num_tokens * ffn_size
                if wants:
                    copies.add("first")
                wants = True
            weights = len(copies) * 2 * hidden_size * ffn_size
            return {"activations": activations, "weights": weights}
        """,
    ],
    features={
        "one call on data": lambda c: c["num_calls"] == 1 and not c["wants_input_grad"],
        "one call behind others": lambda c: c["num_calls"] == 1 and c["wants_input_grad"],
        "several on data": lambda c: c["num_calls"] > 1 and not c["wants_input_grad"],
        "several behind others": lambda c: c["num_calls"] > 1 and c["wants_input_grad"],
        "more than a float holds": lambda c: 2 * c["hidden_size"] * c["ffn_size"] > 2**53,
    },
)


BANKS = {
    "u07-master": MASTER,
    "u07-scaler": SCALER,
    "u07-autocast-bytes": AUTOCAST_BYTES,
}
