"""Answer banks of unit 08: weights of tokens, gradients of micro-batches, buffers in fp32."""

from tests.answer_bank import AnswerBank, Wrong


def _weights(
    weight: str, steps: str = "-(-len(lengths) // micro_batch_size)", end: str = "return weights"
) -> str:
    return f"""
    def token_weights(lengths, micro_batch_size):
        steps = {steps}
        weights = []
        for start in range(0, len(lengths), micro_batch_size):
            group = lengths[start : start + micro_batch_size]
            weights += [{weight} for length in group]
        {end}
    """


TOKEN_WEIGHTS = AnswerBank(
    function="token_weights",
    wrong=[
        Wrong(
            "in fp32",
            """
            import torch

            def token_weights(lengths, micro_batch_size):
                parts = torch.tensor(lengths, dtype=torch.float32).split(micro_batch_size)
                return [(1 / p.sum() / len(parts)).item() for p in parts for _ in p]
            """,
            "Is it a rounding of yours or a rounded constant?",
        ),
        Wrong(
            "one for each micro-batch",
            """
            def token_weights(lengths, micro_batch_size):
                starts = range(0, len(lengths), micro_batch_size)
                groups = [lengths[start : start + micro_batch_size] for start in starts]
                return [1 / (sum(group) * len(groups)) for group in groups]
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "a generator",
            _weights("1 / (sum(group) * steps)", end="return (each for each in weights)"),
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "nothing returned",
            _weights("1 / (sum(group) * steps)", end="pass"),
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "a list that is emptied",
            """
            def token_weights(lengths, micro_batch_size):
                num_micro_batches, weights = -(-len(lengths) // micro_batch_size), []
                while lengths:
                    group = [lengths.pop(0) for _ in range(min(micro_batch_size, len(lengths)))]
                    weights += [1 / (num_micro_batches * sum(group)) for _ in group]
                return weights
            """,
            "what could your function change instead?",
        ),
    ],
    right=[
        _weights("1 / sum(group) / steps"),
        """
        def token_weights(lengths, micro_batch_size):
            owner = [n // micro_batch_size for n in range(len(lengths))]
            tokens = {}
            for number, length in zip(owner, lengths):
                tokens[number] = tokens.get(number, 0) + length
            return [1 / tokens[number] / len(tokens) for number in owner]
        """,
        """
        import torch

        def token_weights(lengths, micro_batch_size):
            parts = torch.tensor(lengths, dtype=torch.float64).split(micro_batch_size)
            return [1 / (p.sum().item() * len(parts)) for p in parts for _ in p]
        """,
    ],
    features={
        "ragged": lambda case: len(set(case["lengths"])) > 1,
        "equal": lambda case: len(set(case["lengths"])) == 1,
        "a smaller last one": lambda c: len(c["lengths"]) % c["micro_batch_size"] > 0,
        "one sequence each": lambda case: case["micro_batch_size"] == 1,
        "all in one": lambda case: case["micro_batch_size"] >= len(case["lengths"]),
    },
)


_SUM = "F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction='sum')"
_MEAN = "F.cross_entropy(model(x).flatten(0, 1), y.flatten())"


def _accumulate(  # noqa: PLR0913, PLR0917  one for each line that can be wrong
    loss: str = f"{_SUM} / n",
    backward: str = "loss.backward()",
    note: str = "mean += loss.item()",
    end: str = "return mean",
    before: str = "if n == 0: return 0.0",
    cut: str = "zip(ids.split(micro_batch_size), targets.split(micro_batch_size))",
) -> str:
    return f"""
    import torch
    from torch.nn import functional as F

    def accumulate(model, ids, targets, micro_batch_size):
        n = int((targets != -100).sum())
        steps = -(-len(ids) // micro_batch_size)
        {before}
        mean = 0.0
        for x, y in {cut}:
            loss = {loss}
            {backward}
            {note}
        {end}
    """


_SCENARIO = 0.5  # points of one scenario of seven

ACCUMULATE = AnswerBank(
    function="accumulate",
    wrong=[
        Wrong(
            "the running mean without a guard",
            _accumulate(f"{_MEAN} / steps", before="pass"),
            "the mean of the micro-batches' means",
            points=3 * _SCENARIO,
        ),
        Wrong(
            "gradients zeroed at the start, without a guard",
            _accumulate(before="model.zero_grad(); n = max(n, 1)"),
            "Who may set them to zero",
            points=4 * _SCENARIO,
        ),
        Wrong(
            "all gradients divided at the end, without a guard",
            _accumulate(
                loss=_SUM,
                before="n = max(n, 1)",
                note="mean += loss.item() / n",
                end="for p in model.parameters(): p.grad /= n\n        return mean",
            ),
            "What can you divide before it goes into the sum?",
            points=4 * _SCENARIO,
        ),
        Wrong(
            "backward at the end, without a guard",
            _accumulate(
                before="n = max(n, 1)",
                backward="pass",
                note="mean = mean + loss",
                end="mean.backward()\n        return mean.item()",
            ),
            "The activations of all micro-batches are held at once",
            points=5 * _SCENARIO,
        ),
        Wrong(
            "gradients in a list",
            """
            import torch
            from torch.nn import functional as F

            def accumulate(model, ids, targets, micro_batch_size):
                n = int((targets != -100).sum())
                if n == 0:
                    return 0.0
                weights, mean = list(model.parameters()), 0.0
                every = [[0 if w.grad is None else w.grad for w in weights]]
                for x, y in zip(ids.split(micro_batch_size), targets.split(micro_batch_size)):
                    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n
                    every.append(torch.autograd.grad(loss, weights))
                    mean += loss.item()
                for weight, grads in zip(weights, zip(*every)):
                    weight.grad = sum(grads)
                return mean
            """,
            "A set of all gradients is held for each micro-batch.",
            points=6 * _SCENARIO,
        ),
        Wrong(
            "clones in a list",
            """
            import torch
            from torch.nn import functional as F

            def accumulate(model, ids, targets, micro_batch_size):
                n = int((targets != -100).sum())
                if n == 0:
                    return 0.0
                weights, mean = list(model.parameters()), 0.0
                every = [[0 if w.grad is None else w.grad.clone() for w in weights]]
                for x, y in zip(ids.split(micro_batch_size), targets.split(micro_batch_size)):
                    model.zero_grad()
                    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / n
                    loss.backward()
                    every.append([w.grad.clone() for w in weights])
                    mean += loss.item()
                for weight, grads in zip(weights, zip(*every)):
                    weight.grad = sum(grads)
                return mean
            """,
            "A set of all gradients is held for each micro-batch.",
            points=6 * _SCENARIO,
        ),
        Wrong(
            "weighted means without any guard",
            _accumulate(f"{_MEAN} * (y != -100).sum() / n", before="n = torch.tensor(n)"),
            "does multiplying it by zero help?",
            points=5 * _SCENARIO,
        ),
        Wrong(
            "as many pieces, of nearly equal sizes",
            _accumulate(cut="zip(ids.chunk(steps), targets.chunk(steps))"),
            "the size of a piece, or the number of pieces?",
            points=6 * _SCENARIO,
        ),
        Wrong(
            "classes in the last dimension",
            _accumulate(loss="F.cross_entropy(model(x), y, reduction='sum') / n"),
            "In which dimension does `cross_entropy` expect the classes?",
            points=0.5,
        ),
        Wrong(
            "a tensor",
            _accumulate(note="mean += loss.detach()"),
            "What does the exercise ask your function to return?",
            points=0.5,
        ),
        Wrong(
            "nothing returned", _accumulate(end="pass"), "What does the exercise ask", points=0.5
        ),
    ],
    right=[
        _accumulate(),
        _accumulate(
            before="import numpy as np\n        if n == 0: return np.float64(0)",
            end="return np.float64(mean)",
        ),
        """
        from course_utils.reference import token_loss

        def accumulate(model, ids, targets, micro_batch_size):
            counts = [int((y != -100).sum()) for y in targets.split(micro_batch_size)]
            parts = zip(ids.split(micro_batch_size), targets.split(micro_batch_size), counts)
            mean = 0.0
            for x, y, count in parts:
                if count:
                    loss = token_loss(model(x), y) * count / sum(counts)
                    loss.backward()
                    mean += loss.item()
            return mean
        """,
        """
        import torch

        def accumulate(model, ids, targets, micro_batch_size):
            num_targets = (targets != -100).sum().item()
            total = torch.zeros(())
            for start in range(0, len(ids), micro_batch_size):
                some = slice(start, start + micro_batch_size)
                counts = targets[some] != -100
                if not counts.any():
                    continue
                logits = model(ids[some])
                scores = logits.log_softmax(-1)[counts]
                loss = -scores.gather(1, targets[some][counts][:, None]).sum() / num_targets
                loss.backward()
                total = total.double() + loss
            return float(total)
        """,
        """
        from torch.nn import functional as F

        def accumulate(model, ids, targets, micro_batch_size):
            n = (targets != -100).sum()
            mean = 0.0
            for x, y in zip(ids.split(micro_batch_size), targets.split(micro_batch_size)):
                mine = (y != -100).sum()
                if mine > 0:
                    logits = model(x).transpose(1, 2)
                    loss = F.cross_entropy(logits, y) * (mine / n).double()
                    loss = F.cross_entropy(logits, y) * (int(mine) / int(n))
                    loss.backward()
                    mean += float(loss)
            return mean
        """,
    ],
    features={
        "equal": lambda case: case["scenario"] == "equal",
        "one sequence each": lambda c: c["scenario"] == "ragged" and c["micro_batch_size"] == 1,
        "a smaller last one": lambda c: len(c["lengths"]) % c["micro_batch_size"] > 0,
        "a rest that is not evened out": lambda c: (
            c["scenario"] == "remainder" and c["micro_batch_size"] == 4
        ),
        "a micro-batch without targets": lambda case: case["scenario"] == "empty micro-batch",
        "no targets at all": lambda case: not any(case["lengths"]),
        "gradients before": lambda case: case["scenario"] == "existing gradients",
        "large weights": lambda case: case["width"] == 48,
        "large activations": lambda case: max(case["lengths"]) > 100,
    },
)


def _buffers(
    zeros: str = "torch.zeros_like(p, dtype=torch.float32)",
    add: str = "b.add_(p.grad)",
    free: str = "p.grad = None",
    trainable: str = "[p for p in model.parameters() if p.requires_grad]",
    default: str = ", b=b",
) -> str:
    return f"""
    import torch

    def sum_in_fp32(model):
        trainable = {trainable}
        buffers = [{zeros} for p in trainable]
        for p, b in zip(trainable, buffers):
            def move(p{default}):
                {add}
                {free}

            if p.requires_grad:
                p.register_post_accumulate_grad_hook(move)
        return buffers
    """


SUM_IN_FP32 = AnswerBank(
    function="sum_in_fp32",
    wrong=[
        Wrong(
            "zeroed, not freed",
            _buffers(free="p.grad.zero_()"),
            "What does the exercise want to find there?",
        ),
        Wrong(
            "added once, without a hook",
            """
            import torch

            def sum_in_fp32(model):
                trainable = [p for p in model.parameters() if p.requires_grad]
                buffers = [torch.zeros_like(p, dtype=torch.float32) for p in trainable]
                for p, b in zip(trainable, buffers):
                    if p.grad is not None:
                        b += p.grad
                        p.grad = None
                return buffers
            """,
            "Which of your lines runs in a backward pass",
        ),
        Wrong(
            "a hook for frozen parameters",
            """
            import torch

            def sum_in_fp32(model):
                buffers = []
                for p in model.parameters():
                    buffer = torch.zeros_like(p, dtype=torch.float32)
                    buffers.append(buffer)

                    def move(p, buffer=buffer):
                        buffer.add_(p.grad)
                        p.grad = None

                    p.register_post_accumulate_grad_hook(move)
                return buffers
            """,
            "Which of the parameters ever get a gradient?",
        ),
        Wrong(
            "a hook that returns its sum",
            """
            import torch

            def sum_in_fp32(model):
                trainable = [p for p in model.parameters() if p.requires_grad]
                buffers = [torch.zeros_like(p, dtype=torch.float32) for p in trainable]
                for p, b in zip(trainable, buffers):
                    p.register_post_accumulate_grad_hook(lambda q, b=b: b.add_(q.grad))
                return buffers
            """,
            "What must a hook return",
        ),
        Wrong(
            "nothing returned",
            _buffers().replace("return buffers", "pass"),
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "added before grad is filled",
            _buffers(add="b.add_(p)", free="pass").replace("post_accumulate_grad_", ""),
            "What does the exercise want to find there?",
        ),
        Wrong(
            "sums in new tensors, put into the list",
            """
            import torch

            def sum_in_fp32(model):
                trainable = [p for p in model.parameters() if p.requires_grad]
                buffers = [torch.zeros(p.shape) for p in trainable]
                for number, p in enumerate(trainable):
                    def add(p, number=number):
                        buffers[number] = buffers[number] + p.grad
                        p.grad = None

                    p.register_post_accumulate_grad_hook(add)
                return buffers
            """,
            "into the memory that you return, or into a new tensor?",
        ),
        Wrong(
            "a generator",
            _buffers().replace("return buffers", "return (b for b in buffers)"),
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        _buffers(),
        _buffers(add="b += p.grad.float()", zeros="torch.zeros(p.shape)"),
        """
        import torch

        def sum_in_fp32(model):
            trainable = [p for p in model.parameters() if p.requires_grad]
            buffers = [torch.zeros(p.shape) for p in trainable]
            for number, p in enumerate(trainable):
                def add(p, number=number):
                    buffers[number].data = buffers[number] + p.grad
                    p.grad = None

                p.register_post_accumulate_grad_hook(add)
            return buffers
        """,
        """
        import torch

        class Mover:
            def __init__(self, shape):
                self.total = torch.zeros(shape)

            def __call__(self, parameter):
                self.total.copy_(self.total + parameter.grad.float())
                parameter.grad = None

        def sum_in_fp32(model):
            movers = []
            for parameter in model.parameters():
                if parameter.requires_grad:
                    movers.append(Mover(parameter.shape))
                    parameter.register_post_accumulate_grad_hook(movers[-1])
            return [mover.total for mover in movers]
        """,
    ],
    features={
        "one micro-batch": lambda case: case["num_micro_batches"] == 1,
        "many micro-batches": lambda case: case["num_micro_batches"] == 6,
        "a frozen layer": lambda case: case["kind"] == "frozen",
        "a shared weight": lambda case: case["kind"] == "shared",
    },
)

BANKS = {
    "u08-mean-of-means": TOKEN_WEIGHTS,
    "u08-accumulate": ACCUMULATE,
    "u08-buffer": SUM_IN_FP32,
}
