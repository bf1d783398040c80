"""Answer banks of unit 08: a training loop over groups of micro-batches, and a configuration."""

from tests.answer_bank import AnswerBank, Wrong

_LOOP = """
    import math

    import torch
    from torch.nn import functional as F
    from torch.nn.utils import clip_grad_norm_

    def train(model, optimizer, scheduler, micro_batches, micro_batches_per_step, max_norm):
        results = []
        for start in range(0, len(micro_batches), micro_batches_per_step):
            group = micro_batches[start : start + micro_batches_per_step]
            n = sum(int((targets != -100).sum()) for _, targets in group)
            optimizer.zero_grad()
            loss = 0.0
            for ids, targets in group:
                logits = model(ids).flatten(0, 1)
                part = F.cross_entropy(logits, targets.flatten(), reduction="sum") / n
                part.backward()
                loss += part.item()
            norm = clip_grad_norm_(model.parameters(), max_norm)
            if not math.isfinite(loss) or not math.isfinite(norm):
                results.append(None)
                continue
            optimizer.step()
            scheduler.step()
            results.append(loss)
        return results
"""


def _train(*changes: tuple[str, str]) -> str:
    """The loop above with some lines replaced."""
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
_COUNT = "n = sum(int((targets != -100).sum()) for _, targets in group)"
_STEP = "optimizer.step()\n            scheduler.step()"

_NO_STEP = "results.append(None)\n"
_NOTE = "loss += part.item()"
_ALONE = "optimizer.step()"  # without the scheduler

TRAIN = AnswerBank(
    function="train",
    wrong=[
        Wrong(
            "no guard",
            _train((_GUARD, "if False:")),
            "What do you look at before the optimizer steps?",
            points=2.5,
        ),
        Wrong(
            "only the loss checked",
            _train((_GUARD, "if not math.isfinite(loss):")),
            "The loss is finite, and the gradient that goes into the weights is not.",
            points=2.5,
        ),
        Wrong(
            "only the gradient checked",
            _train((_GUARD, "if not math.isfinite(norm):")),
            "its gradient happens to be",
            points=2.5,
        ),
        Wrong(
            "one divided by no targets",
            _train(("loss = 0.0", "loss, scale = 0.0, 1 / n")),
            "for which of these sizes is it zero?",
            points=2.5,
        ),
        Wrong(
            "a step without targets",
            _train((_PART, _PART.replace("/ n", "/ max(n, 1)"))),
            "What can it have learnt?",
            points=2.5,
        ),
        Wrong(
            "ends where no step is made",
            _train((f"{_NO_STEP}                continue", f"{_NO_STEP}                break")),
            "What happens to those after it?",
            points=2.5,
        ),
        Wrong(
            "an error where a gradient is not finite",
            _train((_CLIP, _CLIP.replace("max_norm)", "max_norm, error_if_nonfinite=True)"))),
            "What does the exercise want of such a group?",
            points=2.5,
        ),
        Wrong(
            "micro-batches joined",
            _train((_COUNT, f"{_COUNT}\n            group = [joined(*zip(*group))]")).replace(
                "def train(",
                "def joined(ids, targets):\n"
                "        return torch.cat(ids), torch.cat(targets)\n\n"
                "    def train(",
            ),
            "need they become one?",
        ),
        Wrong(
            "micro-batches padded and joined",
            _train((_COUNT, f"{_COUNT}\n            group = [joined(*zip(*group))]")).replace(
                "def train(",
                "def joined(ids, targets):\n"
                "        longest = max(each.shape[1] for each in ids)\n"
                "        def filled(each, value):\n"
                "            return F.pad(each, (0, longest - each.shape[1]), value=value)\n"
                "        targets = torch.cat([filled(each, -100) for each in targets])\n"
                "        return torch.cat([filled(each, 0) for each in ids]), targets\n\n"
                "    def train(",
            ),
            "Why does the exercise hand it to you in pieces?",
            points=2.5,
        ),
        Wrong(
            "one backward at the end of a group",
            _train(
                (_BACKWARD, "loss = loss + part\n"),
                ("                loss += part.item()\n", ""),
                (_CLIP, f"loss.backward()\n            loss = loss.item()\n            {_CLIP}"),
            ),
            "and does it let go of them?",
            points=2.5,
        ),
        Wrong(
            "the graph kept for one more round",
            _train((_BACKWARD, "part.backward(retain_graph=True)\n")),
            "what lives on between two rounds of your loop?",
            points=2.5,
        ),
        Wrong(
            "mean of means",
            _train((_PART, f"{_MEAN} / len(group)")),
            "Every micro-batch counts the same in a group",
        ),
        Wrong("sum of means", _train((_PART, _MEAN)), "The means of the micro-batches are added"),
        Wrong("sum", _train((" / n", "")), "The losses of all targets are added up"),
        Wrong(
            "padding counted",
            _train((_COUNT, "n = sum(targets.numel() for _, targets in group)")),
            "Which of them have a loss?",
        ),
        Wrong(
            "divided by all targets",
            _train((_COUNT, "n = sum(int((y != -100).sum()) for _, y in micro_batches)")),
            "Whose loss goes into one step?",
        ),
        Wrong(
            "clipped each time",
            _train(
                (_BACKWARD, f"part.backward()\n                {_CLIP}\n"),
                (f"            {_CLIP}\n            if", "            if"),
            ),
            "clipped after every micro-batch",
            points=2.5,
        ),
        Wrong(
            "clipped each time and at the end",
            _train((_BACKWARD, f"part.backward()\n                {_CLIP}\n")),
            "and once more at the end",
            points=2.5,
        ),
        Wrong(
            "each tensor clipped",
            _train(
                (
                    _CLIP,
                    f"{_NO_CLIP}\n"
                    "            for p in model.parameters():\n"
                    "                clip_grad_norm_(p, max_norm)",
                )
            ),
            "Of which vector is the norm?",
            points=2.5,
        ),
        Wrong("not clipped", _train((_CLIP, _NO_CLIP)), "not clipped, or too late", points=2.5),
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
            "zeroed before the first group, and after a step",
            _train(
                (_ZERO, "loss = 0.0"),
                ("results = []", "results = []\n        model.zero_grad()"),
                (_STEP, f"{_STEP}\n            optimizer.zero_grad()"),
            ),
            "What of it is left in the gradients",
            points=2.5,
        ),
        Wrong(
            "zeroed after a group",
            _train(
                (_ZERO, "loss = 0.0"),
                ("results.append(loss)", "results.append(loss)\n            model.zero_grad()"),
                (_NO_STEP, f"{_NO_STEP}                model.zero_grad()\n"),
            ),
            "for the first time?",
            points=2.5,
        ),
        Wrong(
            "zeroed only after a step",
            _train((_ZERO, "loss = 0.0"), (_STEP, f"{_STEP}\n            optimizer.zero_grad()")),
            "for the first time?",
            points=2.0,
        ),
        Wrong(
            "the scheduler first",
            _train((_STEP, "scheduler.step()\n            optimizer.step()")),
            "Who goes first, the optimizer or the scheduler?",
            points=2.0,
        ),
        Wrong(
            "the scheduler with every micro-batch",
            _train(
                (_BACKWARD, "part.backward()\n                scheduler.step()\n"), (_STEP, _ALONE)
            ),
            "The scheduler advances with every micro-batch.",
        ),
        Wrong("no scheduler", _train((_STEP, _ALONE)), "The scheduler never advances."),
        Wrong(
            "the scheduler for every group",
            _train((_NO_STEP, f"{_NO_STEP}                scheduler.step()\n")),
            "also advances with groups that make no step",
            points=2.5,
        ),
        Wrong(
            "the last group dropped",
            _train(
                (
                    "range(0, len(micro_batches), micro_batches_per_step)",
                    "range(0, len(micro_batches) + 1 - micro_batches_per_step, "
                    "micro_batches_per_step)",
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
            _train((_NO_STEP, "pass\n")),
            "has not one entry for each group",
            points=2.5,
        ),
        Wrong(
            "the loss without a step",
            _train((_NO_STEP, "results.append(loss)\n")),
            "not reported as the exercise wants it",
            points=2.5,
        ),
        Wrong(
            "the loss of the last micro-batch",
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
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        _LOOP,
        _train(
            (
                _CLIP,
                "norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))\n"
                "            for p in model.parameters():\n"
                "                p.grad *= min(1, max_norm / (norm + 1e-6))",
            )
        ),
        """
        import torch
        from torch.nn import functional as F
        from torch.nn.utils import clip_grad_norm_

        def train(model, optimizer, scheduler, micro_batches, micro_batches_per_step, max_norm):
            results, group = [], []
            model.zero_grad()
            for number, batch in enumerate(micro_batches, 1):
                group.append(batch)
                if len(group) == micro_batches_per_step or number == len(micro_batches):
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
                    return None
                for parameter in model.parameters():
                    parameter.grad /= count
                norm = clip_grad_norm_(model.parameters(), max_norm)
                if not (torch.isfinite(norm) and torch.isfinite(total)):
                    return None
                optimizer.step()
                scheduler.step()
                return (total / count).item()
            finally:
                model.zero_grad()
        """,
        """
        import math
        from torch.nn.utils import clip_grad_norm_
        from course_utils.reference import token_loss

        def train(model, optimizer, scheduler, micro_batches, micro_batches_per_step, max_norm):
            results = []
            for start in range(0, len(micro_batches), micro_batches_per_step):
                group = micro_batches[start : start + micro_batches_per_step]
                counts = [(y != -100).sum().item() for _, y in group]
                optimizer.zero_grad()
                mean = 0 if any(counts) else math.nan
                for (x, y), count in zip(group, counts):
                    if count:
                        loss = token_loss(model(x), y) * count / sum(counts)
                        loss.backward()
                        mean += loss.item()
                norm = clip_grad_norm_(model.parameters(), max_norm)
                if math.isfinite(mean + norm):
                    optimizer.step()
                    scheduler.step()
                    results.append(mean)
                else:
                    results.append(None)
            return results
        """,
    ],
    features={
        "ragged": lambda case: case["scenario"] == "accumulation",
        "large activations": lambda case: max(map(max, case["lengths"])) > 100,
        "a gradient that is too long": lambda case: case["max_norm"] < 1,
        "a learning rate that falls": lambda case: case["scenario"] == "schedule",
        "a short last group": lambda c: len(c["lengths"]) % c["micro_batches_per_step"] > 0,
        "gradients before": lambda case: case["scenario"] == "old gradients",
        "a group without targets": lambda case: case["kind"] == "targets",
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
            "num_micro_batches": steps,
            "tokens_per_step": {tokens},
        }}
    """


CONFIGURATION = AnswerBank(
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
            "passes first",
            _configuration(
                b="each // -(-each // max_micro_batch)",
                steps="-(-each // max_micro_batch)",
                tokens="num_devices * each * seq_len",
            ),
            "You take the fewest passes",
            points=0.5,
        ),
        Wrong(
            "one before the largest",
            _configuration(b="max(n for n in range(1, max(2, max_micro_batch)) if each % n == 0)"),
            "Your search ends before the largest micro-batch that fits.",
            points=0.5,
        ),
        Wrong(
            "greatest common divisor",
            _configuration(b="__import__('math').gcd(each, max_micro_batch)"),
            "Must b divide what fits?",
            points=0.5,
        ),
        Wrong(
            "powers of two",
            _configuration(
                b="max(n for n in (1, 2, 4, 8, 16, 32) if n <= max_micro_batch and each % n == 0)"
            ),
            "Your micro-batches are powers of two.",
            points=0.5,
        ),
        Wrong(
            "smallest divisor",
            _configuration(
                b="next((n for n in range(2, max_micro_batch + 1) if each % n == 0), 1)"
            ),
            "Which end of the divisors is asked for?",
            points=0.5,
        ),
        Wrong(
            "rounded up",
            _configuration("-(-global_batch_tokens // (seq_len * num_devices))"),
            "In which direction do you round",
        ),
        Wrong(
            "another key",
            _configuration().replace("num_micro_batches", "accumulation"),
            "in the exercise's text and not in your dictionary?",
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
                num_micro_batches=steps,
                tokens_per_step=sequences * num_devices * seq_len,
            )
        """,
    ],
    features={
        "one device": lambda case: case["num_devices"] == 1,
        "several devices": lambda case: case["num_devices"] > 1,
        "comes out even": lambda case: case["global_batch_tokens"] % case["seq_len"] == 0,
        "does not come out even": lambda case: case["global_batch_tokens"] % case["seq_len"] > 0,
        "the largest divides": lambda c: (
            c["max_micro_batch"] > 1
            and c["global_batch_tokens"] // c["seq_len"] // c["num_devices"] % c["max_micro_batch"]
            == 0
        ),
        "one sequence fits": lambda case: case["max_micro_batch"] == 1,
        "all fit": lambda case: case["max_micro_batch"] == 32,
    },
)

BANKS = {"u08-train": TRAIN, "u08-configure": CONFIGURATION}
