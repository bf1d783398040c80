"""Answer banks of unit 09: accumulation, hidden communication, equal starts, unused, buckets."""

from itertools import pairwise

from tests.answer_bank import AnswerBank, Wrong


def _changed(source: str, *changes: tuple[str, str]) -> str:
    """An answer with some lines replaced."""
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


_TOGETHER = """
    def accumulate_together(comm, model, micro_batches, backward):
        for micro_batch in micro_batches[:-1]:
            micro_batch().backward()
        backward(comm, model, micro_batches[-1]())
"""


def _together(body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body.strip("\n").split("\n"))
    return f"\n    def accumulate_together(comm, model, micro_batches, backward):\n{lines}"


TOGETHER = AnswerBank(
    function="accumulate_together",
    wrong=[
        Wrong(
            "forward twice",
            _together(
                "for each in micro_batches:\n"
                "    value = each()\n"
                "    value.backward()\n"
                "    model.zero_grad()\n"
                "for each in micro_batches[:-1]:\n"
                "    each().backward()\n"
                "backward(comm, model, micro_batches[-1]())"
            ),
            "Micro-batches run forward twice.",
        ),
        Wrong(
            "a zero of all parameters for the trainer",
            _together(
                "for each in micro_batches:\n"
                "    each().backward()\n"
                "backward(comm, model, sum(p.sum() for p in model.parameters()) * 0)"
            ),
            "The trainer gets a loss that no micro-batch has made.",
        ),
        Wrong(
            "no micro-batch is called",
            _together("for each in model.parameters():\n    each.grad = None"),
            "No micro-batch is called.",
        ),
    ],
    right=[
        _TOGETHER,
        _together(
            "for number in range(len(micro_batches)):\n"
            "    is_last = number == len(micro_batches) - 1\n"
            "    loss = micro_batches[number]()\n"
            "    backward(comm, model, loss) if is_last else loss.backward()"
        ),
    ],
    features={
        "one micro-batch": lambda case: case["num_micro_batches"] == 1,
        "several": lambda case: case["num_micro_batches"] > 2,
        "three ranks": lambda case: case["num_ranks"] == 3,
        "one micro-batch and calls in hooks": lambda case: (
            case["num_micro_batches"] == 1 and case["trainer"] == "calls in hooks"
        ),
        "several and calls in hooks": lambda case: (
            case["num_micro_batches"] > 2 and case["trainer"] == "calls in hooks"
        ),
    },
)

_PARAMETERS = "num_params, num_ranks, bytes_per_element, bytes_per_second, flops_per_second"


HIDDEN = AnswerBank(
    function="min_tokens",
    wrong=[
        Wrong(
            "two times as floats",
            f"""
            import math

            def min_tokens({_PARAMETERS}):
                sent = 2 * (num_ranks - 1) / num_ranks * num_params * bytes_per_element
                return math.ceil((sent / bytes_per_second) / (4 * num_params / flops_per_second))
            """,
            "What does a float make of a third",
        ),
        Wrong(
            "rounded down as a float, and one more",
            f"""
            import math

            def min_tokens({_PARAMETERS}):
                share = (num_ranks - 1) / num_ranks
                tokens = share * bytes_per_element * flops_per_second / (2 * bytes_per_second)
                return math.floor(tokens) + (tokens % 1 > 0)
            """,
            "What does a float make of a third",
        ),
        Wrong(
            "a fraction",
            """
            def min_tokens(n, d, b, w, f):
                return b * (d - 1) * f / (2 * d * w)
            """,
            "?",
        ),
    ],
    right=[
        """
        def min_tokens(n, d, b, w, f):
            return (b * (d - 1) * f + 2 * d * w - 1) // (2 * d * w)
        """,
        f"""
        from fractions import Fraction
        from math import ceil

        def min_tokens({_PARAMETERS}):
            sent = Fraction(2 * (num_ranks - 1), num_ranks) * num_params * bytes_per_element
            seconds_of_token = Fraction(4 * num_params, flops_per_second)
            return ceil(sent / bytes_per_second / seconds_of_token)
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "comes out even": lambda case: (
            (case["bytes_per_element"] * (case["num_ranks"] - 1) * case["flops_per_second"])
            % (2 * case["num_ranks"] * case["bytes_per_second"])
            == 0
        ),
        "nearly even": lambda case: case["num_ranks"] > 500,
        "few parameters": lambda case: case["num_params"] < 5,
        "four bytes": lambda case: case["bytes_per_element"] == 4,
    },
)


def _begin(
    weights: str = "comm.broadcast(each, 0)", seed: str = "torch.manual_seed(seed + comm.rank)"
) -> str:
    return f"""
    import torch

    def start_equal(comm, model, seed):
        with torch.no_grad():
            for each in [*model.parameters(), *model.buffers()]:
                {weights}
        {seed}
    """


BEGIN = AnswerBank(
    function="start_equal",
    wrong=[
        Wrong(
            "a mean",
            _begin("comm.all_reduce(each); each.copy_(each / comm.size)"),
            "What does an all-reduce make of weights?",
        ),
        Wrong(
            "all made anew from one seed",
            _begin("torch.manual_seed(seed); each.copy_(torch.rand(each.shape))"),
            "no weight was sent",
        ),
        Wrong(
            "gathered from all",
            _begin(
                "every = each.new_empty(comm.size, *each.shape)\n"
                "                comm.all_gather(every, each[None])\n"
                "                each.copy_(every[0])"
            ),
            "Which call needs the numbers of one rank only?",
        ),
        Wrong(
            "its own source",
            _begin("comm.broadcast(each, comm.rank)"),
            "Which rank has what the others need?",
        ),
        Wrong(
            "one flat tensor of two types",
            """
            import torch

            def start_equal(comm, model, seed):
                tensors = [*(each.data for each in model.parameters()), *model.buffers()]
                flat = torch.cat([each.flatten() for each in tensors])
                comm.broadcast(flat, source=0)
                for each, part in zip(tensors, flat.split([t.numel() for t in tensors])):
                    each.copy_(part.view_as(each))
                torch.manual_seed(seed + comm.rank)
            """,
            "what does joining tensors of two types make of them?",
        ),
        Wrong(
            "times rank",
            _begin(seed="torch.manual_seed(seed * 2 + comm.rank + 1)"),
            "Random numbers differ from rank to rank",
        ),
    ],
    right=[
        _begin(),
        """
        import torch

        def start_equal(comm, model, seed):
            every = [*model.buffers(), *(each.data for each in model.parameters())]
            for dtype in sorted({each.dtype for each in every}, key=str):
                tensors = [each for each in every if each.dtype == dtype]
                flat = torch.cat([each.flatten() for each in tensors])
                comm.broadcast(flat, source=0)
                for each, part in zip(tensors, flat.split([t.numel() for t in tensors])):
                    each.copy_(part.view_as(each))
            torch.default_generator.manual_seed(comm.rank + seed)
        """,
    ],
    features={
        "two ranks": lambda case: case["num_ranks"] == 2,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a counter, and a buffer that is not saved": lambda case: case["kind"] == "counting",
        "nested, and frozen": lambda case: case["kind"] == "nested",
        "shared": lambda case: case["kind"] == "shared",
    },
)

_UNUSED = """
    import torch

    def backward_with_unused(comm, model, loss, bucket_bytes):
        buckets, held = [[]], 0
        for p in reversed(list(model.parameters())):
            if held >= bucket_bytes:
                buckets.append([])
                held = 0
            buckets[-1].append(p)
            held += p.nbytes
        missing = [set(bucket) for bucket in buckets]
        sent = []

        def send():
            bucket = buckets[len(sent)]
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
            flat = torch.cat([grad.flatten() for grad in grads])
            sent.append((comm.all_reduce(flat, async_op=True), flat))

        def hook(parameter):
            for each in missing:
                each.discard(parameter)
            while len(sent) < len(buckets) and not missing[len(sent)]:
                send()

        hooks = [p.register_post_accumulate_grad_hook(hook) for p in model.parameters()]
        try:
            loss.backward()
        finally:
            for each in hooks:
                each.remove()
        while len(sent) < len(buckets):
            send()
        for bucket, (handle, flat) in zip(buckets, sent):
            handle.wait()
            for p, part in zip(bucket, flat.split([each.numel() for each in bucket])):
                p.grad = part.view_as(p)
"""

UNUSED = AnswerBank(
    function="backward_with_unused",
    wrong=[
        Wrong(
            "buckets of what is complete",
            """
            import torch

            def backward_with_unused(comm, model, loss, bucket_bytes):
                waiting, sent = [], []

                def send():
                    flat = torch.cat([p.grad.flatten() for p in waiting])
                    sent.append((comm.all_reduce(flat, async_op=True), flat, list(waiting)))
                    waiting.clear()

                def collect(parameter):
                    waiting.append(parameter)
                    if sum(p.grad.nbytes for p in waiting) >= bucket_bytes:
                        send()

                hooks = [
                    p.register_post_accumulate_grad_hook(collect) for p in model.parameters()
                ]
                try:
                    loss.backward()
                finally:
                    for hook in hooks:
                        hook.remove()
                if waiting:
                    send()
                for handle, flat, parameters in sent:
                    handle.wait()
                    for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
                        p.grad = part.view_as(p)
            """,
            "make the same call",  # or calls: which of the two fails first depends on the case
        ),
        Wrong(
            "an empty bucket at the end",
            _changed(
                _UNUSED,
                (
                    "            if held >= bucket_bytes:\n"
                    "                buckets.append([])\n"
                    "                held = 0\n"
                    "            buckets[-1].append(p)\n"
                    "            held += p.nbytes\n",
                    "            buckets[-1].append(p)\n"
                    "            held += p.nbytes\n"
                    "            if held >= bucket_bytes:\n"
                    "                buckets.append([])\n"
                    "                held = 0\n",
                ),
            ),
            "In which cases is there nothing to join?",
        ),
        Wrong(
            "unused parameters skipped",
            _changed(
                _UNUSED,
                (
                    "grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]",
                    "grads = [p.grad for p in bucket if p.grad is not None]",
                ),
            ),
            "What does one tensor have that the other lacks",
        ),
        Wrong(
            "no backward",
            _changed(_UNUSED, ("loss.backward()", "pass")),
            "Backward never runs",
        ),
        Wrong(
            "None sent",
            _changed(_UNUSED, ("torch.zeros_like(p) if p.grad is None else p.grad", "p.grad")),
            "What is None there",
        ),
        Wrong(
            "as they become ready",
            _changed(
                _UNUSED,
                (
                    "            while len(sent) < len(buckets) and not missing[len(sent)]:\n"
                    "                send()\n",
                    "            for k, each in enumerate(missing):\n"
                    "                if not each and k not in order:\n"
                    "                    send(k)\n",
                ),
                (
                    "        def send():\n            bucket = buckets[len(sent)]\n",
                    "        order = []\n"
                    "\n"
                    "        def send(k):\n"
                    "            order.append(k)\n"
                    "            bucket = buckets[k]\n",
                ),
                (
                    "        while len(sent) < len(buckets):\n            send()\n",
                    "        for k in range(len(buckets)):\n"
                    "            if k not in order:\n"
                    "                send(k)\n",
                ),
                (
                    "        for bucket, (handle, flat) in zip(buckets, sent):\n",
                    "        buckets = [buckets[k] for k in order]\n"
                    "        for bucket, (handle, flat) in zip(buckets, sent):\n",
                ),
            ),
            "What does one tensor have that the other lacks",
        ),
    ],
    right=[
        _UNUSED,
        """
        import torch

        def backward_with_unused(comm, model, loss, bucket_bytes):
            flats, members, waiting_for, calls = [], [], [], []
            part = []
            every = list(model.parameters())[::-1]
            for p in every:
                part.append(p)
                if sum(each.nbytes for each in part) >= bucket_bytes or p is every[-1]:
                    members.append(part)
                    waiting_for.append({id(each) for each in part})
                    part = []

            def start(bucket):
                for p in bucket:
                    if p.grad is None:
                        p.grad = torch.zeros_like(p)
                flats.append(torch.cat([p.grad.view(-1) for p in bucket]))
                calls.append(comm.all_reduce(flats[-1], async_op=True))

            def hook(p):
                for each in waiting_for:
                    each -= {id(p)}
                while len(calls) < len(members) and waiting_for[len(calls)] == set():
                    start(members[len(calls)])

            hooks = [p.register_post_accumulate_grad_hook(hook) for p in every]
            try:
                loss.backward()
            finally:
                [each.remove() for each in hooks]
            for bucket in members[len(calls):]:
                start(bucket)
            for bucket, flat, call in zip(members, flats, calls):
                call.wait()
                for p, piece in zip(bucket, flat.split([p.numel() for p in bucket])):
                    p.grad.copy_(piece.view(p.shape))
        """,
    ],
    features={
        "unused on one rank": lambda case: case["unused"][0] != case["unused"][1],
        "unused on all ranks": lambda case: set.intersection(*map(set, case["unused"])),
        "all used": lambda case: not any(case["unused"]) and case["kind"] == "exact",
        "shared": lambda case: case["kind"] == "shared",
        "out of order": lambda case: case["kind"] == "reordered",
        "three ranks": lambda case: len(case["unused"]) == 3,
        "a large member first": lambda case: case["kind"] == "swapped",
        "single precision": lambda case: case["kind"] == "float32",
    },
)

_VIEWS = """
    import torch

    def make_buckets(model, bucket_bytes):
        members, held = [[]], 0
        for p in reversed(list(model.parameters())):
            if held >= bucket_bytes:
                members.append([])
                held = 0
            members[-1].append(p)
            held += p.nbytes
        flats = []
        for bucket in members:
            length = sum(p.numel() for p in bucket)
            flat, start = torch.zeros(length, dtype=bucket[0].dtype), 0
            for p in bucket:
                part = flat[start : start + p.numel()]
                p.grad = part.view_as(p)
                start += p.numel()
            flats.append(flat)
        return flats
"""

MEMORY = AnswerBank(
    function="make_buckets",
    wrong=[
        Wrong(
            "nothing in grad",
            _changed(_VIEWS, ("                p.grad = part.view_as(p)\n", "")),
            "and what is in grad?",
        ),
        Wrong(
            "in float32",
            _changed(_VIEWS, ("torch.zeros(length, dtype=bucket[0].dtype)", "torch.zeros(length)")),
            "What is the precision of the parameter",
        ),
        Wrong(
            "flat parts",
            _changed(_VIEWS, ("p.grad = part.view_as(p)", "p.grad = part")),
            "What is the shape of the parameter",
        ),
        Wrong(
            "nothing returned",
            _changed(_VIEWS, ("        return flats\n", "")),
            "Does every path through your function end in a",
        ),
    ],
    right=[
        _VIEWS,
        """
        import torch

        def make_buckets(model, bucket_bytes):
            waiting, made = [], []
            every = list(model.parameters())[::-1]
            for p in every:
                waiting.append(p)
                if sum(q.nbytes for q in waiting) >= bucket_bytes or p is every[-1]:
                    sizes = [q.numel() for q in waiting]
                    flat = p.new_zeros(sum(sizes))
                    for q, part in zip(waiting, flat.split(sizes)):
                        q.grad = part.view(q.shape)
                    made.append(flat)
                    waiting = []
            return tuple(made)
        """,
    ],
    features={
        "one for all": lambda case: case["bucket_bytes"] > _total_bytes(case),
        "one for each": lambda case: case["bucket_bytes"] == 8,
        "single precision": lambda case: case["precision"] == "float32",
        "three matrices": lambda case: len(case["widths"]) == 4,
    },
)


def _total_bytes(case: dict[str, list[int]]) -> int:
    return sum(8 * a * b for a, b in pairwise(case["widths"]))


BANKS = {
    "u09-memory": MEMORY,
    "u09-no-sync": TOGETHER,
    "u09-hidden": HIDDEN,
    "u09-dropout": BEGIN,
    "u09-unused": UNUSED,
}
