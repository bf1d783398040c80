"""Drawers of unit 08: a training loop over groups of micro-batches, and a configuration."""

from tests.drawers import Drawer, Wrong

_LOOP = """
    import math

    import torch
    from torch.nn import functional as F
    from torch.nn.utils import clip_grad_norm_

    def train(model, optimizer, scheduler, batches, micro_batches_per_step, max_norm):
        results = []
        for start in range(0, len(batches), micro_batches_per_step):
            group = batches[start : start + micro_batches_per_step]
            n = sum(int((targets != -100).sum()) for _, targets in group)
            if n == 0:
                results.append("no targets")
                continue
            optimizer.zero_grad()
            loss = 0.0
            for ids, targets in group:
                logits = model(ids).flatten(0, 1)
                part = F.cross_entropy(logits, targets.flatten(), reduction="sum") / n
                part.backward()
                loss += part.item()
            norm = clip_grad_norm_(model.parameters(), max_norm)
            if not math.isfinite(loss) or not math.isfinite(norm):
                results.append("not finite")
                continue
            optimizer.step()
            scheduler.step()
            results.append(loss)
        return results
"""


def _train(*changes: tuple[str, str]) -> str:
    """The answer above with some lines in another form."""
    source = _LOOP
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


_PART = 'F.cross_entropy(logits, targets.flatten(), reduction="sum") / n'
_MEAN = "F.cross_entropy(logits, targets.flatten())"
_ZERO = "optimizer.zero_grad()\n            loss = 0.0"
_GUARD = "if not math.isfinite(loss) or not math.isfinite(norm):"
_CLIP = "norm = clip_grad_norm_(model.parameters(), max_norm)"
_NO_CLIP = "norm = clip_grad_norm_(model.parameters(), math.inf)"
_BACKWARD = "part.backward()\n"
_EMPTY = "if n == 0:"
_STEP = "optimizer.step()\n            scheduler.step()"

_NO_TARGETS = 'results.append("no targets")\n'
_NOT_FINITE = 'results.append("not finite")\n'
_NOTE = "loss += part.item()"
_ALONE = "optimizer.step()"  # without the scheduler

TRAIN = Drawer(
    function="train",
    wrong=[
        Wrong(
            "no guard",
            _train((_GUARD, "if False:")),
            "What do you look at before the optimizer steps?",
            points=2.5,
        ),
        Wrong(
            "only the loss looked at",
            _train((_GUARD, "if not math.isfinite(loss):")),
            "The loss is finite, and the gradient that goes into the weights is not.",
            points=2.5,
        ),
        Wrong(
            "only the gradient looked at",
            _train((_GUARD, "if not math.isfinite(norm):")),
            "its gradient happens to be finite",
            points=2.5,
        ),
        Wrong(
            "divided by no targets, no guard",
            _train((_EMPTY, "if False:"), (_GUARD, "if False:")),
            "What can it have learnt?",
            points=2.0,
        ),
        Wrong(
            "no targets taken for not finite",
            _train((_EMPTY, "if False:")),
            "What is the mean of no numbers",
            points=2.5,
        ),
        Wrong(
            "a number divided by no targets",
            _train((_EMPTY, "if False:"), ("loss = 0.0", "loss, scale = 0.0, 1 / n")),
            "for which of these sizes is it zero?",
            points=2.5,
        ),
        Wrong(
            "a step without targets",
            _train((_EMPTY, "if False:"), (_PART, _PART.replace("/ n", "/ max(n, 1)"))),
            "What can it have learnt?",
            points=2.5,
        ),
        Wrong(
            "mean of means",
            _train((_PART, f"{_MEAN} / len(group)")),
            "Every micro-batch counts the same in a group",
        ),
        Wrong(
            "mean of means, by a full group",
            _train((_PART, f"{_MEAN} / micro_batches_per_step")),
            "Every micro-batch counts the same in a group",
        ),
        Wrong("sum of means", _train((_PART, _MEAN)), "The means of the micro-batches are added"),
        Wrong("sum", _train((" / n", "")), "The losses of all targets are added up"),
        Wrong(
            "clipped each time",
            _train(
                (_BACKWARD, f"part.backward()\n                {_CLIP}\n"),
                (f"            {_CLIP}\n            if", "            if"),
            ),
            "clipped after every micro-batch",
            points=2.5,
        ),
        Wrong("not clipped", _train((_CLIP, _NO_CLIP)), "not clipped, or too late", points=2.5),
        Wrong(
            "clipped too late",
            _train(
                (_CLIP, _NO_CLIP),
                ("results.append(loss)", f"results.append(loss)\n            {_CLIP}"),
            ),
            "not clipped, or too late",
            points=2.5,
        ),
        Wrong(
            "values clipped",
            _train(
                (
                    _CLIP,
                    f"{_NO_CLIP}\n"
                    "            torch.nn.utils.clip_grad_value_(model.parameters(), max_norm)",
                )
            ),
            "clipped by itself",
            points=2.5,
        ),
        Wrong(
            "zeroed each time",
            _train((_BACKWARD, "optimizer.zero_grad()\n                part.backward()\n")),
            "Only the last micro-batch of each group moves the weights.",
        ),
        Wrong(
            "never zeroed",
            _train((_ZERO, "loss = 0.0")),
            "The gradients of a group are still there in the next one.",
        ),
        Wrong(
            "zeroed after a step alone",
            _train((_ZERO, "loss = 0.0"), (_STEP, f"{_STEP}\n            optimizer.zero_grad()")),
            "What of it is left in the gradients",
            points=2.5,
        ),
        Wrong(
            "the scheduler first",
            _train((_STEP, "scheduler.step()\n            optimizer.step()")),
            "Who goes first, the optimizer or the scheduler?",
            points=1.5,
        ),
        Wrong(
            "the scheduler each time",
            _train(
                (_BACKWARD, "part.backward()\n                scheduler.step()\n"), (_STEP, _ALONE)
            ),
            "The scheduler advances with every micro-batch.",
        ),
        Wrong("no scheduler", _train((_STEP, _ALONE)), "The scheduler never advances."),
        Wrong(
            "the scheduler for every group",
            _train(
                (_NO_TARGETS, f"{_NO_TARGETS}                scheduler.step()\n"),
                (_NOT_FINITE, f"{_NOT_FINITE}                scheduler.step()\n"),
            ),
            "also advances with groups that make no step",
            points=2.0,
        ),
        Wrong(
            "the last group dropped",
            _train(
                (
                    "range(0, len(batches), micro_batches_per_step)",
                    "range(0, len(batches) - micro_batches_per_step + 1, micro_batches_per_step)",
                )
            ),
            "Why throw it away?",
            points=2.5,
        ),
        Wrong(
            "a step each time",
            _train(
                (
                    _BACKWARD,
                    "part.backward()\n"
                    "                optimizer.step()\n"
                    "                optimizer.zero_grad()\n",
                ),
                (_STEP, "scheduler.step()"),
            ),
            "The optimizer steps after every micro-batch.",
        ),
        Wrong(
            "no entry without a step",
            _train((_NO_TARGETS, "pass\n"), (_NOT_FINITE, "pass\n")),
            "has not one entry for each group",
            points=2.0,
        ),
        Wrong(
            "None without a step",
            _train(
                (_NO_TARGETS, "results.append(None)\n"), (_NOT_FINITE, "results.append(None)\n")
            ),
            "not reported in the card's words",
            points=2.0,
        ),
        Wrong(
            "the loss of the last",
            _train((_NOTE, "loss = part.item()")),
            "the loss of the last micro-batch only",
        ),
        Wrong(
            "the sum of the losses",
            _train((_NOTE, "loss += part.item() * n")),
            "Over which targets goes the mean of a group",
        ),
        Wrong(
            "tensors",
            _train((_NOTE, "loss = loss + part.detach()")),
            "what type has it?",
        ),
        Wrong(
            "nothing returned",
            _train(("return results", "pass")),
            "What does the card ask your function to return?",
        ),
    ],
    right=[
        _LOOP,
        _train(
            (
                _CLIP,
                "norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))\n"
                "            for p in model.parameters():\n"
                "                p.grad *= min(1, max_norm / norm)",
            )
        ),
        """
        import torch
        from torch.nn import functional as F
        from torch.nn.utils import clip_grad_norm_

        def train(model, optimizer, scheduler, batches, micro_batches_per_step, max_norm):
            results, group = [], []
            for number, batch in enumerate(batches, 1):
                group.append(batch)
                if len(group) == micro_batches_per_step or number == len(batches):
                    results.append(step(model, optimizer, scheduler, group, max_norm))
                    group = []
            return results

        def step(model, optimizer, scheduler, group, max_norm):
            total, count = torch.zeros((), dtype=torch.float64), 0
            for ids, targets in group:
                logits = model(ids).transpose(1, 2)
                loss = F.cross_entropy(logits, targets, reduction="sum")
                loss.backward()
                total += loss.detach()
                count += int((targets >= 0).sum())
            try:
                if not count:
                    return "no targets"
                for parameter in model.parameters():
                    parameter.grad /= count
                norm = clip_grad_norm_(model.parameters(), max_norm)
                if not (torch.isfinite(norm) and torch.isfinite(total)):
                    return "not finite"
                optimizer.step()
                scheduler.step()
                return (total / count).item()
            finally:
                model.zero_grad()
        """,
    ],
    features={
        "ragged": lambda case: case["scenario"] == "ragged",
        "a gradient that is too long": lambda case: case["max_norm"] < 1,
        "a learning rate that falls": lambda case: case["scenario"] == "schedule",
        "a short last group": lambda c: len(c["lengths"]) % c["micro_batches_per_step"] > 0,
        "a group without targets": lambda case: case["scenario"] == "no targets",
        "an infinite loss": lambda case: case["kind"] == "loss",
        "an infinite gradient": lambda case: case["kind"] == "gradient",
    },
)


def _configuration(
    each: str = "global_batch_tokens // seq_len // num_devices",
    b: str = "max(n for n in range(1, max_micro_batch + 1) if each % n == 0)",
    steps: str = "each // b",
    tokens: str = "num_devices * b * steps * seq_len",
) -> str:
    return f"""
    def configuration(global_batch_tokens, seq_len, num_devices, max_micro_batch):
        each = {each}
        b = {b}
        steps = {steps}
        return {{
            "micro_batch_size": b,
            "num_accumulation_steps": steps,
            "tokens_per_step": {tokens},
        }}
    """


CONFIGURATION = Drawer(
    function="configuration",
    wrong=[
        Wrong(
            "tokens as sequences",
            _configuration("global_batch_tokens // num_devices"),
            "How many tokens is one of them?",
        ),
        Wrong(
            "does not divide",
            _configuration(b="min(each, max_micro_batch)"),
            "so that tokens get lost",
        ),
        Wrong(
            "does not divide, rounded up",
            _configuration(b="min(each, max_micro_batch)", steps="-(-each // b)"),
            "so that the step is larger than asked for",
        ),
        Wrong(
            "one device",
            _configuration("global_batch_tokens // seq_len", tokens="b * steps * seq_len"),
            "This is right for one device that does all the work.",
        ),
        Wrong(
            "passes of all devices",
            _configuration(
                steps="global_batch_tokens // seq_len // b",
                tokens="each * num_devices * seq_len",
            ),
            "Your passes are those of all devices",
            points=1.0,
        ),
        Wrong(
            "tokens of a micro-batch",
            _configuration(tokens="b * seq_len"),
            "the tokens of one pass of one device",
            points=1.0,
        ),
        Wrong(
            "tokens of a pass",
            _configuration(tokens="num_devices * b * seq_len"),
            "the tokens of one pass of all devices",
            points=1.0,
        ),
        Wrong(
            "tokens of a device",
            _configuration(tokens="b * steps * seq_len"),
            "These are the tokens of one device.",
            points=1.0,
        ),
        Wrong(
            "sequences for tokens",
            _configuration(tokens="num_devices * b * steps"),
            "How many tokens are they?",
            points=1.0,
        ),
        Wrong(
            "tokens as asked for",
            _configuration(tokens="global_batch_tokens"),
            "You give back the tokens that were asked for.",
            points=1.0,
        ),
        Wrong(
            "sequences left over",
            _configuration(tokens="global_batch_tokens // seq_len * seq_len"),
            "they do not come out even over the devices",
            points=1.0,
        ),
        Wrong(
            "one at a time", _configuration(b="1"), "always comes out even, and slowly", points=0.5
        ),
        Wrong(
            "another key",
            _configuration().replace("num_accumulation_steps", "accumulation"),
            "on the card and not in your dictionary?",
        ),
    ],
    right=[
        _configuration(),
        """
        def configuration(global_batch_tokens, seq_len, num_devices, max_micro_batch):
            sequences = global_batch_tokens // (seq_len * num_devices)
            steps = -(-sequences // max_micro_batch)
            while sequences % steps:
                steps += 1
            return dict(
                micro_batch_size=sequences // steps,
                num_accumulation_steps=steps,
                tokens_per_step=sequences * num_devices * seq_len,
            )
        """,
    ],
    features={
        "one device": lambda case: case["num_devices"] == 1,
        "several devices": lambda case: case["num_devices"] > 1,
        "comes out even": lambda case: case["global_batch_tokens"] % case["seq_len"] == 0,
        "does not come out even": lambda case: case["global_batch_tokens"] % case["seq_len"] > 0,
        "one sequence fits": lambda case: case["max_micro_batch"] == 1,
        "all fit": lambda case: case["max_micro_batch"] == 32,
    },
)

DRAWERS = {"u08-train": TRAIN, "u08-configure": CONFIGURATION}
