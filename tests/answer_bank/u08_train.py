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


_ZERO = "optimizer.zero_grad()\n            loss = 0.0"
_CLIP = "norm = clip_grad_norm_(model.parameters(), max_norm)"
_COUNT = "n = sum(int((targets != -100).sum()) for _, targets in group)"

_NO_STEP = "results.append(None)\n"
_NOTE = "loss += part.item()"

TRAIN = AnswerBank(
    function="train",
    wrong=[
        Wrong(
            "one divided by no targets",
            _train(("loss = 0.0", "loss, scale = 0.0, 1 / n")),
            "for which of these sizes is it zero?",
            points=2.5,
        ),
        Wrong(
            "an error where a gradient is not finite",
            _train((_CLIP, _CLIP.replace("max_norm)", "max_norm, error_if_nonfinite=True)"))),
            "What does the exercise want done with such a group?",
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
            "do they have to become one?",
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
            "tensors",
            _train((_NOTE, "loss = loss + part.detach()")),
            "what makes a number of a tensor?",
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
            "another key",
            _configuration().replace("num_micro_batches", "accumulation"),
            "should set the key",
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
