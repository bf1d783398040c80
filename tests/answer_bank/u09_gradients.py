"""Answer banks of unit 09: shares of a mean, a ring, gradients summed after backward."""

import math

from tests.answer_bank import AnswerBank, Wrong


def _share(*lines: str) -> str:
    body = "\n        ".join(lines)
    return f"""
    import torch

    def share_of_mean(comm, summed_loss, num_targets):
        {body}
    """


_COUNT = ("total = torch.tensor(num_targets)", "comm.all_reduce(total)")
_SCENARIO = 0.5  # points of one scenario of three

SHARE_OF_MEAN = AnswerBank(
    function="share_of_mean",
    wrong=[
        Wrong(
            "mean of means",
            _share("return summed_loss / num_targets / comm.size"),
            "The mean of the ranks' means",
        ),
        Wrong(
            "mean of means, guarded",
            _share("return summed_loss / max(1, num_targets) / comm.size"),
            "The mean of the ranks' means",
        ),
        Wrong(
            "its own mean",
            _share("return summed_loss / max(1, num_targets)"),
            "The sum of the ranks' means",
        ),
        Wrong(
            "the loss goes over the links",
            _share(*_COUNT, "comm.all_reduce(summed_loss)", "return summed_loss / total"),
            "Autograd sees one rank only",
        ),
        Wrong(
            "the loss without its history",
            _share(
                *_COUNT,
                "loss = summed_loss.detach().clone()",
                "comm.all_reduce(loss)",
                "return loss / total.clamp(min=1)",
            ),
            "Every rank gives the mean of all",
        ),
        Wrong(
            "as for an average of gradients",
            _share(*_COUNT, "return summed_loss * comm.size / total.clamp(min=1)"),
            "The shares are added up, not averaged",
        ),
        Wrong(
            "an average of the counts",
            _share(*_COUNT, "return summed_loss / (total / comm.size).clamp(min=1e-9)"),
            "or divide by it on the way?",
        ),
        Wrong(
            "the loss as a plain number",
            _share(*_COUNT, "return summed_loss.item() / total"),
            "What is left of a loss's history in a plain number?",
        ),
        Wrong(
            "nan replaced",
            _share(*_COUNT, "return (summed_loss / total).nan_to_num(0)"),
            "its gradient is not a number",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "nan masked",
            _share(
                *_COUNT,
                "share = summed_loss / total",
                "return torch.where(total > 0, share, summed_loss * 0)",
            ),
            "its gradient is not a number",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "a weighted mean",
            _share(
                *_COUNT,
                "total = total.clamp(min=1)",
                "return (summed_loss / max(1, num_targets)) * (num_targets / total)",
            ),
            "Right but for some digits",
        ),
        Wrong(
            "times one over the count",
            _share(*_COUNT, "return summed_loss * (1 / total.clamp(min=1))"),
            "Right but for some digits",
        ),
        Wrong(
            "counted in bfloat16",
            _share(
                "total = torch.tensor(num_targets, dtype=torch.bfloat16)",
                "comm.all_reduce(total)",
                "return summed_loss / max(1, total.item())",
            ),
            "In which precision do you count",
        ),
        Wrong(
            "counted in float16",
            _share(
                "total = torch.tensor(num_targets, dtype=torch.float16)",
                "comm.all_reduce(total)",
                "return summed_loss / max(1, total.item())",
            ),
            "In which precision do you count",
        ),
        Wrong(
            "divided by ranks too",
            _share(*_COUNT, "return summed_loss / total.clamp(min=1) / comm.size"),
            "what is left to divide by?",
        ),
        Wrong(
            "counted twice",
            _share(*_COUNT, "comm.all_reduce(total)", "return summed_loss / total.clamp(min=1)"),
            "a second time?",
        ),
        Wrong(
            "not divided",
            _share(*_COUNT, "return summed_loss * 1"),
            "What makes a mean of it?",
        ),
        Wrong(
            "no guard",
            _share(*_COUNT, "return summed_loss / total"),
            "the share is not a number",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "a new zero",
            _share(
                *_COUNT,
                "if num_targets == 0: return torch.zeros(())",
                "return summed_loss / total",
            ),
            "backward cannot start from it",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "a new zero for all",
            _share(
                *_COUNT,
                "if total == 0: return torch.zeros(())",
                "return summed_loss / total",
            ),
            "your zero is a new tensor",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "a rank returns early",
            _share(
                "if num_targets == 0: return summed_loss * 0",
                *_COUNT,
                "return summed_loss / total",
            ),
            "which call of which rank would let it go on?",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "two calls",
            _share(
                *_COUNT,
                "loss = summed_loss.detach().clone()",
                "comm.all_reduce(loss)",
                "return summed_loss / total.clamp(min=1)",
            ),
            "the ranks talk twice",
        ),
        Wrong(
            "a number",
            _share(*_COUNT, "return summed_loss.item() / max(1, total.item())"),
            "What type does the exercise ask for",
        ),
        Wrong(
            "a number goes over the links",
            _share("comm.all_reduce(num_targets)", "return summed_loss / num_targets"),
            "What holds your number so that it can be written into?",
        ),
        Wrong(
            "what the call returns",
            _share(_COUNT[0], "total = comm.all_reduce(total)", "return summed_loss / total"),
            "a call that works in place and gives nothing back?",
        ),
        Wrong(
            "nothing returned",
            _share(*_COUNT, "summed_loss / total.clamp(min=1)"),
            "Does every way through your function end in a",
        ),
    ],
    right=[
        _share(
            "count = torch.tensor([float(num_targets)])",
            "handle = comm.all_reduce(count, async_op=True)",
            "handle.wait()",
            "return summed_loss / max(1.0, count.item())",
        ),
        _share(
            "counts = torch.zeros(comm.size, dtype=torch.long)",
            "comm.all_gather(counts, torch.tensor([num_targets]))",
            "n = int(counts.sum())",
            "return summed_loss * (1 / n if n else 0.0)",
        ),
    ],
    features={
        "ragged": lambda case: len(set(case["num_targets"])) > 1,
        "a rank without": lambda case: 0 in case["num_targets"] and any(case["num_targets"]),
        "many targets": lambda case: max(case["num_targets"]) > 2048,
        "none at all": lambda case: not any(case["num_targets"]),
        "one rank": lambda case: len(case["num_targets"]) == 1,
    },
)


def _ring(  # noqa: PLR0913, PLR0917  one for each line that can be wrong
    parts: str = "tensor.view(-1).tensor_split(n)",
    send: str = "handle = comm.send(parts[sent % n], (rank + 1) % n, async_op=True)",
    wait: str = "handle.wait()",
    steps: str = "n - 1",
    first: str = "mine += theirs",
    second: str = "mine.copy_(theirs)",
    offset: str = "rank + 1 - step",
    before: str = "pass",
    after: str = "pass",
    source: str = "(rank - 1) % n",
) -> str:
    return f"""
    import torch

    def ring_all_reduce(comm, tensor):
        n, rank = comm.size, comm.rank
        {before}
        parts = {parts}
        for step in range({steps}):
            sent = rank - step
            mine = parts[(sent - 1) % n]
            theirs = torch.empty_like(mine)
            {send}
            comm.receive(theirs, {source})
            {wait}
            {first}
        for step in range({steps}):
            sent = {offset}
            mine = parts[(sent - 1) % n]
            theirs = torch.empty_like(mine)
            {send}
            comm.receive(theirs, {source})
            {wait}
            {second}
        {after}
    """


_IN_PAIRS = """if rank % 2 == 0:
                comm.send(parts[sent % n], (rank + 1) % n)
                comm.receive(theirs, (rank - 1) % n)
            else:
                comm.receive(theirs, (rank - 1) % n)
                comm.send(parts[sent % n], (rank + 1) % n)"""


def _in_pairs() -> str:
    receive = "            comm.receive(theirs, (rank - 1) % n)\n            pass\n"
    source = _ring(send=_IN_PAIRS, wait="pass")
    assert source.count(receive) == 2
    return source.replace(receive, "")


_ONLY_HALF = """
    import torch

    def ring_all_reduce(comm, tensor):
        n, rank = comm.size, comm.rank
        parts = tensor.view(-1).tensor_split(n)
        for step in range(n - 1):
            mine = parts[(rank - step - 1) % n]
            theirs = torch.empty_like(mine)
            handle = comm.send(parts[(rank - step) % n], (rank + 1) % n, async_op=True)
            comm.receive(theirs, (rank - 1) % n)
            handle.wait()
            mine += theirs
    """

RING_ALL_REDUCE = AnswerBank(
    function="ring_all_reduce",
    wrong=[
        Wrong(
            "a collective",
            """
            def ring_all_reduce(comm, tensor):
                comm.all_reduce(tensor)
            """,
            "A collective does the work",
        ),
        Wrong(
            "nothing",
            """
            def ring_all_reduce(comm, tensor):
                pass
            """,
            "No rank sends anything",
        ),
        Wrong(
            "through rank 0",
            """
            import torch

            def ring_all_reduce(comm, tensor):
                others = range(1, comm.size)
                if comm.rank > 0:
                    comm.send(tensor, 0)
                    comm.receive(tensor, 0)
                    return
                for other in others:
                    theirs = torch.empty_like(tensor)
                    comm.receive(theirs, other)
                    tensor += theirs
                for other in others:
                    comm.send(tensor, other)
            """,
            "One rank talks to all others",
        ),
        Wrong(
            "everything to everyone",
            """
            import torch

            def ring_all_reduce(comm, tensor):
                others = [r for r in range(comm.size) if r != comm.rank]
                mine = tensor.clone()
                handles = [comm.send(mine, r, async_op=True) for r in others]
                for r in others:
                    theirs = torch.empty_like(tensor)
                    comm.receive(theirs, r)
                    tensor += theirs
                for handle in handles:
                    handle.wait()
            """,
            "Every rank sends the whole tensor",
        ),
        Wrong(
            "the whole tensor around the ring",
            """
            import torch

            def ring_all_reduce(comm, tensor):
                n, travelling = comm.size, tensor.clone()
                for step in range(n - 1):
                    theirs = torch.empty_like(tensor)
                    handle = comm.send(travelling, (comm.rank + 1) % n, async_op=True)
                    comm.receive(theirs, (comm.rank - 1) % n)
                    handle.wait()
                    tensor += theirs
                    travelling = theirs
            """,
            "Every rank sends the whole tensor",
        ),
        Wrong("only the first round", _ONLY_HALF, "Half of the messages"),
        Wrong(
            "a step too many in each round",
            _ring(steps="n if n > 1 else 0"),
            "Two messages too many",
        ),
        Wrong(
            "a step too many, also alone",
            _ring(steps="n"),
            "Two messages too many",
        ),
        Wrong(
            "parts of whole rows",
            _ring(parts="tensor.tensor_split(n)"),
            "where a tensor has rows",
            points=2.0,
        ),
        Wrong(
            "a copy is summed",
            _ring(before="tensor = tensor.clone()"),
            "every tensor is as it was.",
        ),
        Wrong(
            "the rest dropped",
            _ring(
                parts="[tensor.view(-1)[k * (tensor.numel() // n) :][: tensor.numel() // n] "
                "for k in range(n)]"
            ),
            "The last numbers of a tensor stay as they were",
            points=1.0,
        ),
        Wrong(
            "one part further in the second round",
            _ring(offset="rank - step"),
            "With 1, 10 and 100 on three ranks",
        ),
        Wrong(
            "copied, not added",
            _ring(first="mine.copy_(theirs)"),
            "With 1, 10 and 100 on three ranks",
        ),
        Wrong(
            "added in both rounds",
            _ring(second="mine += theirs"),
            "With 1, 10 and 100 on three ranks",
        ),
        Wrong(
            "sends that block",
            _ring(send="comm.send(parts[sent % n], (rank + 1) % n)", wait="pass"),
            "If every rank sends first",
        ),
        Wrong(
            "from the other neighbour",
            _ring(source="(rank + 1) % n"),
            "which call of which rank would let it go on?",
        ),
        Wrong(
            "handles lost",
            _ring(wait="pass"),
            "who waits for it?",
        ),
        Wrong(
            "into the part that is in flight",
            _ring(source="(rank - 1) % n").replace("receive(theirs", "receive(parts[sent % n]"),
            "while it is still on its way",
        ),
        Wrong(
            "new names",
            _ring(first="mine = mine + theirs", second="mine = theirs"),
            "give the name of a part to a new tensor?",
        ),
        Wrong(
            "a new name in the second round",
            _ring(second="mine = theirs"),
            "some turns write nothing into the tensor.",
        ),
        Wrong(
            "a new name in the first round",
            _ring(first="mine = mine + theirs"),
            "some turns write nothing into the tensor.",
        ),
        Wrong(
            "a list of new parts, in the first round",
            _ring(
                parts="list(tensor.view(-1).tensor_split(n))",
                first="parts[(sent - 1) % n] = mine + theirs",
            ),
            "some turns write nothing into the tensor.",
        ),
        Wrong(
            "a list of new parts, in the second round",
            _ring(
                parts="list(tensor.view(-1).tensor_split(n))",
                second="parts[(sent - 1) % n] = theirs",
            ),
            "some turns write nothing into the tensor.",
        ),
        Wrong(
            "a list of new parts",
            _ring(
                parts="list(tensor.view(-1).tensor_split(n))",
                first="parts[(sent - 1) % n] = mine + theirs",
                second="parts[(sent - 1) % n] = theirs",
            ),
            "give the name of a part to a new tensor?",
        ),
        Wrong(
            "empty messages skipped",
            _ring(
                send="handle = parts[sent % n].numel() "
                "and comm.send(parts[sent % n], (rank + 1) % n, async_op=True)",
                wait="handle and handle.wait()",
            ).replace("comm.receive(", "mine.numel() and comm.receive("),
            "What does the exercise say of empty ones?",
            points=2.0,
        ),
        Wrong(
            "a buffer as long as what goes out",
            _ring().replace("torch.empty_like(mine)", "torch.empty_like(parts[sent % n])"),
            "Which part arrives there, and is it the one that goes out?",
            points=1.0,
        ),
        Wrong(
            "a buffer in another precision",
            _ring().replace("torch.empty_like(mine)", "torch.empty(len(mine))"),
            "Two precisions meet in one call.",
        ),
        Wrong("in pairs", _in_pairs(), "which of yours wait for another pair?"),
        Wrong(
            "chunks, which may be fewer",
            _ring(parts="tensor.view(-1).chunk(n)"),
            "which one does that line ask for?",
            points=1.0,
        ),
    ],
    right=[
        """
        import torch

        def ring_all_reduce(comm, tensor):
            n, rank = comm.size, comm.rank
            length = -(-tensor.numel() // n)
            padded = torch.zeros(n * length, dtype=tensor.dtype)
            padded[: tensor.numel()] = tensor.view(-1)
            rows = padded.view(n, length)
            right, left = (rank + 1) % n, (rank - 1) % n
            for step in range(2 * (n - 1)):
                outgoing, incoming = (rank - step) % n, (rank - step - 1) % n
                theirs = torch.empty(length, dtype=tensor.dtype)
                sending = comm.send(rows[outgoing], right, async_op=True)
                receiving = comm.receive(theirs, left, async_op=True)
                sending.wait()
                receiving.wait()
                rows[incoming] = theirs + (rows[incoming] if step < n - 1 else 0)
            tensor.copy_(padded[: tensor.numel()].view_as(tensor))
        """,
        _ring(
            parts="list(tensor.view(-1).tensor_split(n))",
            first="parts[(sent - 1) % n] += theirs",
            second="parts[(sent - 1) % n][:] = theirs",
        ),
        """
        import torch

        def ring_all_reduce(comm, tensor):
            # the other way round the ring
            n, rank = comm.size, comm.rank
            parts = list(torch.tensor_split(tensor.flatten(), n))
            for phase in (0, 1):
                for step in range(n - 1):
                    k = (rank + step - phase) % n
                    handle = comm.send(parts[k].clone(), (rank - 1) % n, async_op=True)
                    buffer = torch.zeros_like(parts[(k + 1) % n])
                    comm.receive(buffer, (rank + 1) % n)
                    handle.wait()
                    if phase == 0:
                        buffer += parts[(k + 1) % n]
                    parts[(k + 1) % n].copy_(buffer)
        """,
        """
        import torch

        def ring_all_reduce(comm, tensor):
            # no ring: each rank sums one part of all, and all messages are in flight at once
            n, rank = comm.size, comm.rank
            parts = list(tensor.view(-1).tensor_split(n))
            sources, targets = ([(rank + sign * k) % n for k in range(1, n)] for sign in (-1, 1))
            terms = [torch.empty_like(parts[rank]) for _ in sources]
            in_flight = [comm.send(parts[to], to, async_op=True) for to in targets]
            in_flight += [comm.receive(t, s, async_op=True) for t, s in zip(terms, sources)]
            for each in in_flight:
                each.wait()
            for term in terms:
                parts[rank] += term
            in_flight = [comm.send(parts[rank], to, async_op=True) for to in targets]
            in_flight += [comm.receive(parts[s], s, async_op=True) for s in sources]
            for each in in_flight:
                each.wait()
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "two ranks": lambda case: case["num_ranks"] == 2,
        "a rest": lambda case: math.prod(case["shape"]) % case["num_ranks"] > 0,
        "fewer numbers": lambda case: math.prod(case["shape"]) < case["num_ranks"],
        "rows": lambda case: len(case["shape"]) == 2,
    },
)


_BACKWARD = "loss.backward()"
_ZEROS = "if p.grad is None: p.grad = torch.zeros_like(p)"


def _each(
    reduce: str = "comm.all_reduce(p.grad)",
    before: str = _BACKWARD,
    after: str = "pass",
    frozen: str = "if not p.requires_grad: continue",
    zeros: str = _ZEROS,
) -> str:
    return f"""
    import torch

    def backward_each(comm, model, loss):
        {before}
        for p in model.parameters():
            {frozen}
            {zeros}
            {reduce}
        {after}
    """


BACKWARD_EACH = AnswerBank(
    function="backward_each",
    wrong=[
        Wrong("backward alone", _each(reduce="pass"), "Nothing goes over the links"),
        Wrong(
            "before backward",
            _each(before="pass", frozen="if p.grad is None: continue", after=_BACKWARD),
            "is it there when your calls are made?",
        ),
        Wrong(
            "zeros before backward",
            _each(before="pass", after=_BACKWARD),
            "Rank 0 ends with the gradient of its own share",
        ),
        Wrong(
            "an average",
            _each(reduce="comm.all_reduce(p.grad); p.grad /= comm.size"),
            "what does your division divide?",
        ),
        Wrong(
            "weights instead of gradients",
            _each(reduce="comm.all_reduce(p.data)"),
            "Rank 0 ends with the gradient of its own share",
        ),
        Wrong(
            "copies",
            _each(reduce="comm.all_reduce(p.grad.clone())"),
            "Into which tensors does your call write",
        ),
        Wrong(
            "twice",
            _each(reduce="comm.all_reduce(p.grad); comm.all_reduce(p.grad)"),
            "Twice as many calls as parameters",
        ),
        Wrong(
            "parameters without a gradient skipped",
            _each(frozen="if p.grad is None: continue"),
            "which call of which rank would let it go on?",
            points=1.5,
        ),
        Wrong(
            "no zeros",
            _each(zeros="pass"),
            "in which of the cases has nothing filled it?",
            points=1.5,
        ),
        Wrong(
            "the gradient itself is None",
            _each(reduce="comm.all_reduce(None)"),
            "What is None there",
        ),
        Wrong(
            "frozen parameters too", _each(frozen="pass"), "Frozen parameters take part", points=1.5
        ),
        Wrong(
            "gradients zeroed",
            _each(before="model.zero_grad(); loss.backward()"),
            "Who may set them to zero?",
            points=1.5,
        ),
        Wrong(
            "what the call returns",
            _each(reduce="p.grad = comm.all_reduce(p.grad)"),
            "Afterwards grad is None.",
        ),
        Wrong("no backward", _each(before="pass"), "Backward never runs"),
        Wrong(
            "the loss too",
            _each(before="loss.backward(); comm.all_reduce(loss.detach())"),
            "one call more than there are gradients",
        ),
        Wrong(
            "times the ranks",
            _each(reduce="comm.all_reduce(p.grad); p.grad *= comm.size"),
            "what is your factor for?",
        ),
        Wrong(
            "the loss times the ranks",
            _each(before="(loss * comm.size).backward()"),
            "what is your factor for?",
        ),
        Wrong(
            "the new part alone summed",
            _each(
                before="old = [p.grad for p in model.parameters()]; "
                "model.zero_grad(); loss.backward()",
                after="for p, was in zip(model.parameters(), old): "
                "p.grad = p.grad if was is None else p.grad + was",
            ),
            "What was in grad before stays on its rank",
            points=1.5,
        ),
        Wrong(
            "in hooks, as gradients come",
            """
            def backward_each(comm, model, loss):
                trained = [p for p in model.parameters() if p.requires_grad]
                def hook(p):
                    comm.all_reduce(p.grad)
                hooks = [p.register_post_accumulate_grad_hook(hook) for p in trained]
                loss.backward()
                for each in hooks:
                    each.remove()
            """,
            "Ranks do not make the same calls",
            points=1.5,
        ),
        Wrong(
            "in float32",
            _each(reduce="comm.all_reduce(p.grad.float())"),
            "Which precision has what you send",
        ),
        Wrong(
            "in float32 and back",
            _each(reduce="g = p.grad.float(); comm.all_reduce(g); p.grad.copy_(g)"),
            "Which precision has what you send",
        ),
        Wrong(
            "handles lost",
            _each(reduce="comm.all_reduce(p.grad, async_op=True)"),
            "who waits for it?",
        ),
        Wrong(
            "all at once",
            """
            import torch

            def backward_each(comm, model, loss):
                loss.backward()
                trainable = [p for p in model.parameters() if p.requires_grad]
                for p in trainable:
                    if p.grad is None: p.grad = torch.zeros_like(p)
                flat = torch.cat([p.grad.flatten() for p in trainable])
                comm.all_reduce(flat)
                for p, part in zip(trainable, flat.split([p.numel() for p in trainable])):
                    p.grad.copy_(part.view_as(p))
            """,
            "One call where the exercise asks for one for each parameter",
        ),
    ],
    right=[
        _each(reduce="comm.all_reduce(p.grad, async_op=True).wait()"),
        """
        import torch

        def backward_each(comm, model, loss):
            trainable = [p for p in model.parameters() if p.requires_grad]
            loss.backward()
            handles = []
            for p in reversed(trainable):
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                handles.append(comm.all_reduce(p.grad, async_op=True))
            for handle in handles:
                handle.wait()
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "many ranks": lambda case: case["num_ranks"] == 4,
        "unused": lambda case: case["scenario"] == "unused on a rank",
        "frozen": lambda case: case["scenario"] == "frozen",
        "gradients before": lambda case: case["scenario"] == "gradients before",
    },
)


def _flat(  # noqa: PLR0913, PLR0917  one for each line that can be wrong
    before: str = _BACKWARD,
    trainable: str = "[p for p in model.parameters() if p.requires_grad]",
    zeros: str = _ZEROS,
    flat: str = "torch.cat([p.grad.flatten() for p in trainable])",
    reduce: str = "comm.all_reduce(flat)",
    order: str = "trainable",
    write: str = "p.grad.copy_(flat[start : start + p.numel()].view_as(p))",
    after: str = "pass",
) -> str:
    return f"""
    import torch
    kept = []

    def backward_flat(comm, model, loss):
        {before}
        trainable = {trainable}
        for p in trainable:
            {zeros}
        flat = {flat}
        {reduce}
        start = 0
        for p in {order}:
            {write}
            start += p.numel()
        {after}
    """


_FLAT_SCENARIO = 0.4  # points of one scenario of five

BACKWARD_FLAT = AnswerBank(
    function="backward_flat",
    wrong=[
        Wrong("nothing sent", _flat(reduce="pass"), "Nothing goes over the links"),
        Wrong(
            "not written back",
            _flat(write="pass"),
            "Rank 0 ends with the gradient of its own share",
        ),
        Wrong(
            "an average",
            _flat(reduce="comm.all_reduce(flat); flat /= comm.size"),
            "what does your division divide?",
        ),
        Wrong(
            "gradients zeroed",
            _flat(before="model.zero_grad(); loss.backward()"),
            "Who may set them to zero?",
            points=4 * _FLAT_SCENARIO,
        ),
        Wrong(
            "frozen parameters too",
            _flat(trainable="list(model.parameters())"),
            "Frozen parameters take part",
            points=4 * _FLAT_SCENARIO,
        ),
        Wrong(
            "parameters without a gradient skipped",
            _flat(trainable="[p for p in model.parameters() if p.grad is not None]"),
            "What is in the one that the other lacks",
            points=4 * _FLAT_SCENARIO,
        ),
        Wrong(
            "no zeros",
            _flat(zeros="pass"),
            "in which of the cases has nothing",
            points=4 * _FLAT_SCENARIO,
        ),
        Wrong(
            "a call for each",
            """
            import torch

            def backward_flat(comm, model, loss):
                loss.backward()
                for p in model.parameters():
                    if p.requires_grad:
                        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                        comm.all_reduce(p.grad)
            """,
            "There is still a call for each parameter",
        ),
        Wrong(
            "twice",
            _flat(reduce="comm.all_reduce(flat); comm.all_reduce(flat)"),
            "Two calls.",
        ),
        Wrong(
            "a buffer in float32",
            _flat(flat="torch.cat([p.grad.flatten().float() for p in trainable])"),
            "Which precision has what you send",
        ),
        Wrong(
            "added to its own",
            _flat(write="p.grad.add_(flat[start : start + p.numel()].view_as(p))"),
            "Which operation puts new numbers in the place of old ones?",
        ),
        Wrong(
            "read in another order",
            _flat(order="reversed(trainable)"),
            "its numbers are in wrong places",
        ),
        Wrong("no backward", _flat(before="pass"), "Backward never runs"),
        Wrong(
            "the loss times the ranks",
            _flat(before="(loss * comm.size).backward()"),
            "what is your factor for?",
        ),
        Wrong(
            "joined without flattening",
            _flat(flat="torch.cat([p.grad for p in trainable])"),
            "which form has each of them before?",
        ),
        Wrong(
            "a flat part in grad",
            _flat(write="p.grad = flat[start : start + p.numel()]"),
            "Which shape has the parameter",
        ),
        Wrong(
            "parts counted in bytes",
            _flat(write="p.grad.copy_(flat[start : start + p.nbytes].view_as(p))"),
            "Are they counted in numbers",
        ),
        Wrong(
            "parts for frozen parameters too",
            _flat(
                order="model.parameters()",
                write="p.grad = flat[start : start + p.numel()].view_as(p)",
            ),
            "do pieces and shapes belong to the same tensors?",
            points=4 * _FLAT_SCENARIO,
        ),
        Wrong(
            "what the call returns",
            _flat(reduce="flat = comm.all_reduce(flat)"),
            "a call that works in place and gives nothing back?",
        ),
        Wrong(
            "every part copied first",
            _flat(
                flat="[p.grad.flatten().clone() for p in trainable]",
                reduce="flat = torch.cat(parts := flat); comm.all_reduce(flat)",
            ),
            "three sets of gradients",
            points=4 * _FLAT_SCENARIO,
        ),
        Wrong(
            "the buffer kept",
            _flat(after="kept.append(flat)"),
            "Who still holds the buffer?",
            points=4 * _FLAT_SCENARIO,
        ),
    ],
    right=[
        _flat(write="p.grad = flat[start : start + p.numel()].view(p.shape)"),
        """
        import torch
        from torch.nn.utils import parameters_to_vector

        def backward_flat(comm, model, loss):
            loss.backward()
            trainable = [p for p in model.parameters() if p.requires_grad]
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in trainable]
            flat = parameters_to_vector(grads)
            comm.all_reduce(flat)
            for p, part in zip(trainable, flat.split([p.numel() for p in trainable])):
                p.grad = part.reshape(p.shape)
        """,
        """
        import torch

        def backward_flat(comm, model, loss):
            # the buffer is there first, and backward adds into it
            trainable = [p for p in model.parameters() if p.requires_grad]
            total = sum(p.numel() for p in trainable)
            flat, start = torch.zeros(total, dtype=trainable[0].dtype), 0
            for p in trainable:
                view = flat[start : start + p.numel()].view_as(p)
                if p.grad is not None:
                    view.copy_(p.grad)
                p.grad, start = view, start + p.numel()
            loss.backward()
            comm.all_reduce(flat)
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "unused": lambda case: case["scenario"] == "unused on a rank",
        "frozen": lambda case: case["scenario"] == "frozen",
        "gradients before": lambda case: case["scenario"] == "gradients before",
        "memory": lambda case: case["scenario"] == "memory",
    },
)

BANKS = {
    "u09-global-mean": SHARE_OF_MEAN,
    "u09-ring": RING_ALL_REDUCE,
    "u09-each": BACKWARD_EACH,
    "u09-flat": BACKWARD_FLAT,
}
