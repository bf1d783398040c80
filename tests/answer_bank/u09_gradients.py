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
            "the loss goes over the links",
            _share(*_COUNT, "comm.all_reduce(summed_loss)", "return summed_loss / total"),
            "Autograd sees only one rank",
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
            "a new zero that requires a gradient",
            _share(
                *_COUNT,
                "if num_targets == 0: return torch.zeros((), requires_grad=True)",
                "return summed_loss / total",
            ),
            "backward finds no weight from it",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "a count of 32 bits",
            _share(
                "total = torch.tensor([num_targets], dtype=torch.int32)",
                "comm.all_reduce(total)",
                "return summed_loss / total.clamp(min=1).sum()",
            ),
            "What is the largest number that its type holds?",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "the loss divided in place",
            _share(*_COUNT, "summed_loss /= total.clamp(min=1)", "return summed_loss"),
            "which operation writes into it?",
        ),
        Wrong(
            "a rank returns early",
            _share(
                "if num_targets == 0: return summed_loss * 0",
                *_COUNT,
                "return summed_loss / total",
            ),
            "which call of which rank would release it?",
            points=2 * _SCENARIO,
        ),
        Wrong(
            "a number",
            _share(*_COUNT, "return summed_loss.item() / max(1, total.item())"),
            "What type does the exercise ask for",
        ),
        Wrong(
            "a number goes over the links",
            _share("comm.all_reduce(num_targets)", "return summed_loss / num_targets"),
            "What could hold your number so that it can be written into?",
        ),
        Wrong(
            "what the call returns",
            _share(_COUNT[0], "total = comm.all_reduce(total)", "return summed_loss / total"),
            "a call that works in place and returns nothing?",
        ),
        Wrong(
            "nothing returned",
            _share(*_COUNT, "summed_loss / total.clamp(min=1)"),
            "Does every path through your function end in a",
        ),
    ],
    right=[
        _share(
            "count = torch.tensor([num_targets], dtype=torch.float64)",
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
        "many targets": lambda case: 2**15 <= sum(case["num_targets"]) < 2**24,
        "more than int32 holds": lambda case: sum(case["num_targets"]) >= 2**31,
        "none at all": lambda case: not any(case["num_targets"]),
        "one rank": lambda case: len(case["num_targets"]) == 1,
    },
)


_RING = """
    import torch

    def ring_all_reduce(comm, tensor):
        n, rank = comm.size, comm.rank
        parts = list(tensor.view(-1).tensor_split(n))
        for turn in range(2 * (n - 1)):
            outgoing, k = parts[(rank - turn) % n], (rank - turn - 1) % n
            theirs = torch.empty_like(parts[k])
            handle = comm.send(outgoing, (rank + 1) % n, async_op=True)
            comm.receive(theirs, (rank - 1) % n)
            handle.wait()
            parts[k][:] = theirs + (parts[k] if turn < n - 1 else 0)
    """


def _ring(*changes: tuple[str, str]) -> str:
    """A right answer with some pieces replaced."""
    source = _RING
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


RING_ALL_REDUCE = AnswerBank(
    function="ring_all_reduce",
    wrong=[
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
            "two collectives",
            """
            import torch

            def ring_all_reduce(comm, tensor):
                every = torch.empty(comm.size * tensor.numel(), dtype=tensor.dtype)
                comm.all_gather(every, tensor)
                tensor.copy_(every.view(comm.size, *tensor.shape).sum(0))
                comm.broadcast(tensor, 0)
            """,
            "A collective does the work",
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
        Wrong(
            "two steps too many, also alone",
            _ring(("2 * (n - 1)", "2 * n")),
            "Two messages too many",
        ),
        Wrong(
            "two parts further in the second round",
            _ring(
                ("(rank - turn) % n", "(rank - turn + turn // (n - 1)) % n"),
                ("(rank - turn - 1) % n", "(rank - turn - 1 + turn // (n - 1)) % n"),
            ),
            "With 1, 10 and 100 on three ranks",
        ),
        Wrong(
            "in float32",
            _ring(
                ("parts = ", "whole, tensor = tensor, tensor.float(); parts = "),
                ("else 0)", "else 0)\n        whole.copy_(tensor)"),
            ),
            "Your sums are right to some seven digits.",
        ),
        Wrong(
            "sends that block",
            _ring((", async_op=True)", ")"), ("handle.wait()", "pass")),
            "If every rank sends first",
        ),
        Wrong(
            "from the other neighbour",
            _ring(("theirs, (rank - 1)", "theirs, (rank + 1)")),
            "which call of which rank would release it?",
        ),
        Wrong("handles lost", _ring(("handle.wait()", "pass")), "who waits for it?"),
        Wrong(
            "into the part that is in flight",
            _ring(("receive(theirs", "receive(outgoing")),
            "while it is still in flight",
        ),
        Wrong(
            "a buffer as long as what goes out",
            _ring(("empty_like(parts[k])", "empty_like(outgoing)")),
            "Which part arrives there, and which part was sent?",
            points=1.0,
        ),
        Wrong(
            "a buffer in another precision",
            _ring(("empty_like(parts[k])", "empty(len(parts[k]))")),
            "Two precisions meet in one call.",
        ),
        Wrong(
            "chunks, which may be fewer",
            _ring(("tensor_split", "chunk")),
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
        _RING,
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
        "uneven parts": lambda case: math.prod(case["shape"]) % case["num_ranks"] > 0,
        "fewer numbers": lambda case: math.prod(case["shape"]) < case["num_ranks"],
        "rows": lambda case: len(case["shape"]) == 2,
        "an infinite number": lambda case: case["num_infinite"] == 1,
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
        Wrong(
            "before backward",
            _each(before="pass", frozen="if p.grad is None: continue", after=_BACKWARD),
            "is it there when your calls are made?",
        ),
        Wrong(
            "weights instead of gradients",
            _each(reduce="comm.all_reduce(p.data)"),
            "Rank 0 ends with the gradient of its own share",
        ),
        Wrong(
            "parameters without a gradient skipped",
            _each(frozen="if p.grad is None: continue"),
            "which call of which rank would release it?",
            points=1.0,
        ),
        Wrong(
            "no zeros",
            _each(zeros="pass"),
            "in which cases has nothing filled it?",
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
            "The ranks do not make the same calls",
            points=1.5,
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
        "a shared bias": lambda case: case["is_bias_shared"],
    },
)


def _flat(  # noqa: PLR0913, PLR0917  one for each line that can be wrong
    trainable: str = "[p for p in model.parameters() if p.requires_grad]",
    zeros: str = _ZEROS,
    flat: str = "torch.cat([p.grad.flatten() for p in trainable])",
    reduce: str = "comm.all_reduce(flat)",
    order: str = "trainable",
    write: str = "p.grad.copy_(flat[start : start + p.numel()].view_as(p))",
) -> str:
    return f"""
    import torch

    def backward_flat(comm, model, loss):
        loss.backward()
        trainable = {trainable}
        for p in trainable:
            {zeros}
        flat = {flat}
        {reduce}
        start = 0
        for p in {order}:
            {write}
            start += p.numel()
    """


_FLAT_SCENARIO = 0.4  # points of one scenario of five

BACKWARD_FLAT = AnswerBank(
    function="backward_flat",
    wrong=[
        Wrong(
            "frozen parameters too",
            _flat(trainable="list(model.parameters())"),
            "Frozen parameters take part",
            points=4 * _FLAT_SCENARIO,
        ),
        Wrong(
            "parameters without a gradient skipped",
            _flat(trainable="[p for p in model.parameters() if p.grad is not None]"),
            "What does one tensor have that the other lacks",
            points=1.2,
        ),
        Wrong(
            "no zeros",
            _flat(zeros="pass"),
            "in which cases has nothing",
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
            "a buffer in float32",
            _flat(flat="torch.cat([p.grad.flatten().float() for p in trainable])"),
            "Which precision has what you send",
        ),
        Wrong(
            "read in another order",
            _flat(order="reversed(trainable)"),
            "its numbers are in wrong places",
        ),
        Wrong(
            "joined without flattening",
            _flat(flat="torch.cat([p.grad for p in trainable])"),
            "what shape should each have first?",
        ),
        Wrong(
            "a flat part in grad",
            _flat(write="p.grad = flat[start : start + p.numel()]"),
            "What is the shape of the parameter",
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
            "a call that works in place and returns nothing?",
        ),
    ],
    right=[
        _flat(write="p.grad = flat[start : start + p.numel()].view(p.shape)"),
        """
        import torch

        def backward_flat(comm, model, loss):
            loss.backward()
            trainable = [p for p in model.parameters() if p.requires_grad]
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in trainable]
            flat = torch.hstack([grad.reshape(-1) for grad in grads])
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
        "transposed": lambda case: case["is_transposed"] and case["num_ranks"] > 1,
        "a shared bias": lambda case: case["is_bias_shared"],
    },
)

BANKS = {
    "u09-global-mean": SHARE_OF_MEAN,
    "u09-ring": RING_ALL_REDUCE,
    "u09-each": BACKWARD_EACH,
    "u09-flat": BACKWARD_FLAT,
}
