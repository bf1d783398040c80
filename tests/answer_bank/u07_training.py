"""Answer banks of unit 07: master weights, a loss scaler, autocast, dense peak, best scale."""

from autograder.exercises.u07.master import idle_index
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
            "the product in bf16",
            _update("master -= learning_rate * weight.grad", _ROUND, _FREE),
            "as if each update had 8 bits",
        ),
        Wrong(
            "the product turned to fp32 too late",
            _update("master -= (learning_rate * weight.grad).float()", _ROUND, _FREE),
            "as if each update had 8 bits",
        ),
        Wrong(
            "the weight alone",
            _update("weight -= learning_rate * weight.grad.float()", _FREE),
            "as they were before the first step",
        ),
        Wrong(
            "the weight, and the master from it",
            _update("weight -= learning_rate * weight.grad.float()", "master.copy_(weight)", _FREE),
            "numbers of 8 bits, as bf16 does",
        ),
        Wrong(
            "a master from the weight in every step",
            _update("master.copy_(weight)", _STEP, _ROUND, _FREE),
            "begin every step at the rounded weights",
        ),
        Wrong(
            "a new master",
            _update("master = master - learning_rate * weight.grad.float()", _ROUND, _FREE),
            "as they were before the first step",
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
            "as they were before the first step",
        ),
        Wrong(
            "a new weight",
            _update(_STEP, _FREE, "weight = master.bfloat16()"),
            "the weights do not follow",
        ),
        Wrong("no new weight", _update(_STEP, _FREE), "the weights do not follow"),
        Wrong(
            "the master as the weight",
            _update(_STEP, _FREE, "weight.data = master"),
            "Your weights are in fp32 now",
        ),
        Wrong(
            "rounded into new memory",
            _update(_STEP, _FREE, "weight.data = master.bfloat16()"),
            "Who else may hold the old tensors",
        ),
        Wrong("gradients stay", _update(_STEP, _ROUND), "so that its memory is freed"),
        Wrong(
            "gradients of zero",
            _update(_STEP, _ROUND, "weight.grad.zero_()"),
            "so that its memory is freed",
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
            "upwards",
            _update("master += learning_rate * weight.grad.float()", _ROUND, _FREE),
            "Which sign has a step of SGD",
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
            "When is one of them needed no more",
            points=2.0,
        ),
        Wrong(
            "every weight has a gradient",
            _update(_STEP, _ROUND, _FREE, skip="pass"),
            "What is None there",
            points=2.0,
        ),
        Wrong(
            "ends at a weight without gradient",
            _update(_STEP, _ROUND, _FREE, skip="if weight.grad is None: return"),
            "Does your loop go on there, or end",
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
            "should autograd record that line",
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
            f"the {place} without gradient": lambda case, at=at: (
                idle_index(case["scenario"], case["num_weights"], case["num_steps"]) == at
            )
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
            "not scaled",
            _scaler(("return loss * self.scale", "return loss")),
            "The loss comes back as it went in",
        ),
        Wrong(
            "scaled in place",
            _scaler(("return loss * self.scale", "loss *= self.scale\n            return loss")),
            "Which operation makes a new tensor",
        ),
        Wrong(
            "the first group alone",
            _scaler(("in optimizer.param_groups:", "in optimizer.param_groups[:1]:")),
            "How many groups of weights can an optimizer have",
        ),
        Wrong(
            "ends at the first overflow",
            _scaler(
                (
                    "self.overflow = True",
                    "self.overflow = True\n                        return False",
                ),
            ),
            "those behind the first bad one are still multiplied",
            points=3.0,
        ),
        Wrong(
            "nothing is an overflow",
            _scaler(("continue", "self.overflow = True; continue")),
            "Is what is not there an overflow",
            points=3.0,
        ),
        Wrong(
            "changes the scale in the step too",
            _scaler(
                ("if self.overflow:\n                return False", "self.update()"),
                (
                    "optimizer.step()\n            return True",
                    "if not self.overflow: optimizer.step()\n            return not self.overflow",
                ),
            ),
            "Your scale changes twice in one step",
            points=0.0,
        ),
        Wrong(
            "changes the scale in good steps too",
            _scaler(("optimizer.step()", "optimizer.step(); self.update()")),
            "After a good step your scale changes twice",
            points=1.0,
        ),
        Wrong(
            "one finite number is enough",
            _scaler((_TEST, "if not torch.isfinite(weight.grad).any():")),
            "Must one number be finite, or each",
            points=1.0,
        ),
        Wrong("not unscaled", _scaler((_DIVIDE, "pass")), "gradients that are still multiplied"),
        Wrong(
            "unscaled twice",
            _scaler(
                (
                    _DIVIDE,
                    f"{_DIVIDE}\n                    weight.grad = weight.grad / self.scale",
                )
            ),
            "they are divided twice",
        ),
        Wrong(
            "a copy unscaled",
            _scaler((_DIVIDE, "gradient = weight.grad / self.scale")),
            "gradients that are still multiplied",
        ),
        Wrong(
            "multiplied once more",
            _scaler((_DIVIDE, "weight.grad *= self.scale")),
            "multiplied instead of divided",
        ),
        Wrong(
            "never skips",
            _scaler(_SKIP),
            "What must not happen after an overflow",
            points=1.0,
        ),
        Wrong(
            "only infinities",
            _scaler((_TEST, "if torch.isinf(weight.grad).any():")),
            "Infinities are found, and NaN passes",
            points=1.0,
        ),
        Wrong(
            "only NaN",
            _scaler((_TEST, "if torch.isnan(weight.grad).any():")),
            "NaN is found, and infinities pass",
            points=1.0,
        ),
        Wrong(
            "skips the bad weight alone",
            _scaler(
                (
                    "self.overflow = True",
                    "self.overflow = True\n                        weight.grad = None",
                ),
                (_END, "optimizer.step()\n            return not self.overflow"),
            ),
            "Is half a step one that the loss asked for",
            points=1.0,
        ),
        Wrong(
            "zeros instead",
            _scaler(
                (
                    "self.overflow = True",
                    "self.overflow = True\n"
                    "            for group in optimizer.param_groups:\n"
                    "                for weight in group['params']:\n"
                    "                    if weight.grad is not None:\n"
                    "                        weight.grad.nan_to_num_(0.0, 0.0, 0.0)",
                ),
                (_SKIP[0], "if self.overflow:\n                optimizer.step(); return False"),
            ),
            "What does momentum do with a gradient of zero",
            points=1.0,
        ),
        Wrong(
            "the last weight decides",
            _scaler(
                (_TEST, "self.overflow = not torch.isfinite(weight.grad).all()"),
                ("                        self.overflow = True\n", ""),
            ),
            "forgotten when the next one is looked at",
            points=2.0,
        ),
        Wrong(
            "all weights have to be bad",
            _scaler(
                ("self.overflow = False\n            for", "self.overflow = True\n            for"),
                (_TEST, "if torch.isfinite(weight.grad).all():"),
                ("self.overflow = True\n            if", "self.overflow = False\n            if"),
            ),
            "How many bad ones are enough",
            points=2.0,
        ),
        Wrong(
            "skips for good",
            _scaler(("self.overflow = False\n            for", "for")),
            "Where is your note of it taken back",
            points=1.0,
        ),
        Wrong(
            "asks the loss",
            _scaler(
                (
                    "return loss * self.scale",
                    "self.loss = loss\n            return loss * self.scale",
                ),
                (_TEST, "if not torch.isfinite(self.loss):"),
            ),
            "Can that be finite while a gradient is not",
            points=3.0,
        ),
        Wrong(
            "divided by the factor",
            _scaler(("self.scale *= self.backoff_factor", "self.scale /= self.backoff_factor")),
            "multiplied or divided by?",
            points=1.0,
        ),
        Wrong(
            "scale stays after an overflow",
            _scaler((_AFTER_OVERFLOW, "self.num_good = 0")),
            "Would the next step overflow again",
            points=1.0,
        ),
        Wrong(
            "never grows",
            _scaler(("self.scale *= self.growth_factor", "pass")),
            "When could a larger one have been tried",
            points=1.0,
        ),
        Wrong(
            "grows one step late",
            _scaler(
                ("self.num_good == self.growth_interval", "self.num_good > self.growth_interval")
            ),
            "grows one good step too late",
            points=1.0,
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
            "count goes on after growth",
            _scaler(
                ("self.num_good == self.growth_interval", "self.num_good >= self.growth_interval"),
                _NO_RESET_AFTER_GROWTH,
            ),
            "Once it has grown, your scale grows at every step",
            points=1.0,
        ),
        Wrong(
            "grows only once",
            _scaler(_NO_RESET_AFTER_GROWTH),
            "It grows once, and then never again",
            points=1.0,
        ),
        Wrong(
            "count goes on after an overflow",
            _scaler((_AFTER_OVERFLOW, "self.scale *= self.backoff_factor")),
            "Your count goes on after an overflow where it stood",
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
            "A skipped step counts as a good one",
            points=2.0,
        ),
        Wrong(
            "returns nothing",
            _scaler(("return False", "return"), ("            return True\n", "")),
            "All is right but what your step returns",
        ),
        Wrong(
            "returns whether it skipped",
            _scaler(("return False", "return 1"), ("return True", "return 0")),
            "All is right but what your step returns",
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
                self.stepped = all(math.isfinite(grad.abs().sum().item()) for grad in grads)
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
        "by growing": lambda case: "large" in case["steps"],
        "every step grows": lambda case: case["growth_interval"] == 1,
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
        Wrong("no copies", _kept("0"), "cost nothing", points=0.75),
        Wrong("copies in fp32", _kept(f"2 * {_COPIES}"), "4 bytes for each number", points=0.75),
        Wrong(
            "copies for each call",
            _kept("2 * h * f * (2 * n if wants else 2 * n - 1)"),
            "A weight is copied for each call with you. What",
            points=0.75,
        ),
        Wrong(
            "both for each call",
            _kept("2 * h * f * 2 * n"),
            "also one that no gradient needs",
            points=0.75,
        ),
        Wrong("both always", _kept("2 * h * f * 2"), "Both copies are always kept", points=0.75),
        Wrong(
            "the second call's input is data",
            _kept("2 * h * f * (2 if wants else 1)"),
            "What is the input of the second call",
            points=0.75,
        ),
        Wrong("biases", _kept(f"{_COPIES} + 2 * (h + f)"), "a bias stand", points=0.75),
        Wrong(
            "activations in fp32",
            _kept(_COPIES, "4 * n * s * (h + 2 * f)"),
            "those that came in or those that the products read",
            points=0.75,
        ),
        Wrong(
            "the input in fp32",
            _kept(_COPIES, "2 * n * s * (h + 2 * f) + 2 * s * h"),
            "The input is kept in fp32",
            points=0.75,
        ),
        Wrong(
            "the input twice",
            _kept(_COPIES, "2 * n * s * (h + 2 * f) + 4 * s * h"),
            "The input is kept twice",
            points=0.75,
        ),
        Wrong(
            "GELU in fp32",
            _kept(_COPIES, "2 * n * s * (h + 2 * f + f)"),
            "arrive at GELU",
            points=0.75,
        ),
        Wrong(
            "one inner tensor",
            _kept(_COPIES, "2 * n * s * (h + f)"),
            "What goes into GELU",
            points=0.75,
        ),
        Wrong(
            "the result too",
            _kept(_COPIES, "2 * n * s * (2 * h + 2 * f)"),
            "the result of the block as well",
            points=0.75,
        ),
        Wrong("one call", _kept(_COPIES, "2 * s * (h + 2 * f)"), "those of one call", points=0.75),
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
    },
)


def _peak(dense: str = "2 * cores * fma * mhz * 10**6", mfu: str = "flops * tokens / dense") -> str:
    return f"""
    def dense_peak(cores, fma, mhz, flops, tokens):
        dense = 2 * cores * fma * mhz * 10**6
        return {{"dense_flops_per_second": {dense}, "mfu": {mfu}}}
    """


PEAK = AnswerBank(
    function="dense_peak",
    wrong=[
        Wrong(
            "one operation",
            _peak("cores * fma * mhz * 10**6"),
            "a multiplication and an addition as one",
            points=0.75,
        ),
        Wrong("sparse", _peak("4 * cores * fma * mhz * 10**6"), "twice the dense one", points=0.75),
        Wrong("MHz", _peak("2 * cores * fma * mhz"), "What does the M in MHz say", points=0.75),
        Wrong("kHz", _peak("2 * cores * fma * mhz * 10**9"), "step from MHz to Hz", points=0.75),
        Wrong("one core", _peak("2 * fma * mhz * 10**6"), "that of one core", points=0.75),
        Wrong(
            "whole division",
            _peak(mfu="flops * tokens // dense"),
            "a division with // make",
            points=0.75,
        ),
        Wrong("percent", _peak(mfu="100 * flops * tokens / dense"), "a percentage", points=0.75),
        Wrong(
            "sparse below the line",
            _peak(mfu="flops * tokens / (2 * dense)"),
            "the figure with sparsity",
            points=0.75,
        ),
        Wrong(
            "half below the line",
            _peak(mfu="2 * flops * tokens / dense"),
            "Which peak stands below the line",
            points=0.75,
        ),
        Wrong("no tokens", _peak(mfu="flops / dense"), "how many tokens there are", points=0.75),
        Wrong("tokens alone", _peak(mfu="tokens / dense"), "how much a token costs", points=0.75),
        Wrong("turned over", _peak(mfu="dense / (flops * tokens)"), "turned over", points=0.75),
        Wrong(
            "one operation, in both",
            """
            def dense_peak(cores, fma, mhz, flops, tokens):
                dense = cores * fma * mhz * 10**6
                return {"dense_flops_per_second": dense, "mfu": flops * tokens / dense}
            """,
            "a multiplication and an addition as one",
        ),
    ],
    right=[
        _peak(),
        """
        def dense_peak(num_tensor_cores, per_clock, clock_mhz, flops_per_token, tokens_per_second):
            multiply_adds = num_tensor_cores * per_clock * clock_mhz * 1_000_000
            peak = 2 * multiply_adds
            share = (flops_per_token / peak) * tokens_per_second
            return dict(mfu=share, dense_flops_per_second=peak)
        """,
    ],
    features={
        "an A100": lambda case: case["num_tensor_cores"] == 432,
        "an H100": lambda case: case["clock_mhz"] == 1830,
    },
)


def _scale(
    limit: str = "65520",
    condition: str = "<",
    largest: str = "max(abs(g) for g in gradients)",
    scale: str = "scale",
    zeros: str = "sum(g != 0 and abs(g) * scale <= 2**-25 for g in gradients)",
) -> str:
    return f"""
    def best_scale(gradients):
        largest, scale = {largest}, 2.0**-60
        while largest * scale * 2 {condition} {limit}:
            scale *= 2
        return {{"scale": {scale}, "still_zero": {zeros}}}
    """


BEST_SCALE = AnswerBank(
    function="best_scale",
    wrong=[
        Wrong(
            "with its sign",
            _scale(largest="max(gradients)", limit="65504", condition="<="),
            "How large is -3 to a format",
        ),
        Wrong(
            "below the largest number",
            _scale(limit="65504", condition="<="),
            "Up to where does fp16 round down",
        ),
        Wrong(
            "no power of two",
            _scale(scale="65504 / largest"),
            "Your scale is no power of two",
            points=0.5,
        ),
        Wrong("at least one", _scale(scale="max(1.0, scale)"), "beyond fp16 already", points=0.5),
        Wrong("half", _scale(scale="scale / 2"), "half of what is possible", points=0.5),
        Wrong("twice", _scale(scale="scale * 2"), "twice as large as possible", points=0.5),
        Wrong(
            "old zeros too",
            _scale(zeros="sum(abs(g) * scale <= 2**-25 for g in gradients)"),
            "that were zero before",
            points=0.5,
        ),
        Wrong(
            "zeros without a scale",
            _scale(zeros="sum(g != 0 and abs(g) <= 2**-25 for g in gradients)"),
            "the zeros that there are without a scale",
            points=0.5,
        ),
        Wrong(
            "below normal",
            _scale(zeros="sum(g != 0 and abs(g) * scale < 2**-14 for g in gradients)"),
            "the smallest normal number",
            points=0.5,
        ),
        Wrong(
            "below the smallest",
            _scale(zeros="sum(g != 0 and abs(g) * scale < 2**-24 for g in gradients)"),
            "rounded up to that number",
            points=0.5,
        ),
        Wrong(
            "a tie upwards",
            _scale(zeros="sum(g != 0 and abs(g) * scale < 2**-25 for g in gradients)"),
            "To which of two neighbours",
            points=0.5,
        ),
    ],
    right=[
        _scale(),
        """
        import torch

        def best_scale(gradients):
            numbers = torch.tensor(gradients, dtype=torch.float32)
            power = 60
            while not (numbers * 2.0**power).half().isfinite().all():
                power -= 1
            halves = (numbers * 2.0**power).half()
            lost = int(((halves == 0) & (numbers != 0)).sum())
            return {"scale": 2.0**power, "still_zero": lost}
        """,
    ],
    features={
        "a negative one leads": lambda c: max(map(abs, c["gradients"])) == -min(c["gradients"]),
        "beyond fp16": lambda c: max(map(abs, c["gradients"])) > 2**16 + 16,
        "zeros": lambda c: 0.0 in c["gradients"],
    },
)

BANKS = {
    "u07-master": MASTER,
    "u07-scaler": SCALER,
    "u07-autocast-bytes": AUTOCAST_BYTES,
    "u07-peak": PEAK,
    "u07-best-scale": BEST_SCALE,
}
