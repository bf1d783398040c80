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
            "every micro-batch exchanged",
            _together("for each in micro_batches:\n    backward(comm, model, each())"),
            "Every micro-batch is exchanged, and every exchange sums up what is in grad",
        ),
        Wrong(
            "every micro-batch exchanged on its own",
            _together(
                "sums = [0 for _ in model.parameters()]\n"
                "for each in micro_batches:\n"
                "    model.zero_grad()\n"
                "    backward(comm, model, each())\n"
                "    sums = [a + p.grad for a, p in zip(sums, model.parameters())]\n"
                "for p, total in zip(model.parameters(), sums):\n"
                "    p.grad = total"
            ),
            "Every micro-batch is exchanged. After which one",
        ),
        Wrong(
            "all forward first",
            _together(
                "losses = [each() for each in micro_batches]\n"
                "for loss in losses[:-1]:\n"
                "    loss.backward()\n"
                "backward(comm, model, losses[-1])"
            ),
            "All micro-batches run forward before the first one runs backward",
        ),
        Wrong(
            "the sum of all losses",
            _together("backward(comm, model, sum(each() for each in micro_batches))"),
            "All micro-batches run forward before the first one runs backward",
        ),
        Wrong(
            "looks ahead",
            _together(
                "loss = None\n"
                "for each in micro_batches:\n"
                "    following = each()\n"
                "    if loss is not None:\n"
                "        loss.backward()\n"
                "    loss = following\n"
                "backward(comm, model, loss)"
            ),
            "Two micro-batches are in memory",
        ),
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
            "the last dropped",
            _together(
                "for each in micro_batches[:-2]:\n"
                "    each().backward()\n"
                "for each in micro_batches[:-1][-1:]:\n"
                "    backward(comm, model, each())"
            ),
            "One micro-batch is missing.",
        ),
        Wrong(
            "in reverse order",
            _together(
                "while len(micro_batches) > 1:\n"
                "    micro_batches.pop()().backward()\n"
                "backward(comm, model, micro_batches.pop()())"
            ),
            "Micro-batches run in another order",
        ),
        Wrong(
            "the first exchanged",
            _together(
                "backward(comm, model, micro_batches[0]())\n"
                "for each in micro_batches[1:]:\n"
                "    each().backward()"
            ),
            "The first micro-batch is exchanged",
        ),
        Wrong(
            "the last twice",
            _together(
                "for each in micro_batches:\n"
                "    each().backward()\n"
                "backward(comm, model, micro_batches[-1]())"
            ),
            "One forward pass too many.",
        ),
        Wrong(
            "divided by ranks",
            _TOGETHER + "        for p in model.parameters():\n            p.grad /= comm.size\n",
            "The gradient is too short by a factor, the number of ranks.",
        ),
        Wrong(
            "never exchanged",
            _together("for each in micro_batches:\n    each().backward()"),
            "The trainer is never called, and",
        ),
        Wrong(
            "exchanged once more",
            _TOGETHER
            + "        for p in model.parameters():\n            comm.all_reduce(p.grad)\n",
            "Gradients are exchanged once more than the trainer does.",
        ),
        Wrong(
            "zeroed each time",
            _together(
                "for each in micro_batches[:-1]:\n"
                "    each().backward()\n"
                "    model.zero_grad()\n"
                "backward(comm, model, micro_batches[-1]())"
            ),
            "Only the last micro-batch is in your gradients.",
        ),
        Wrong(
            "zeroed in the loop",
            _together(
                "for each in micro_batches[:-1]:\n"
                "    model.zero_grad()\n"
                "    each().backward()\n"
                "backward(comm, model, micro_batches[-1]())"
            ),
            "Only the last two micro-batches are in your gradients.",
        ),
        Wrong(
            "the first kept for the trainer",
            _together(
                "for each in micro_batches[1:]:\n"
                "    each().backward()\n"
                "backward(comm, model, micro_batches[0]())"
            ),
            "Micro-batches run in another order",
        ),
        Wrong(
            "its own exchange",
            _together(
                "for each in micro_batches:\n"
                "    each().backward()\n"
                "for p in model.parameters():\n"
                "    comm.all_reduce(p.grad)"
            ),
            "You exchange gradients by yourself",
        ),
        Wrong(
            "a zero for the trainer",
            _together(
                "import torch\n"
                "for each in micro_batches:\n"
                "    each().backward()\n"
                "backward(comm, model, torch.zeros((), requires_grad=True))"
            ),
            "The trainer gets a loss that no micro-batch has made.",
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
            "the last graph twice",
            _together(
                "for each in micro_batches:\n"
                "    loss = each()\n"
                "    loss.backward(retain_graph=True)\n"
                "backward(comm, model, loss * 0)"
            ),
            "A micro-batch runs backward once by itself and once more in the trainer.",
        ),
        Wrong(
            "divided by micro-batches",
            _together(
                "n = len(micro_batches)\n"
                "for each in micro_batches[:-1]:\n"
                "    (each() / n).backward()\n"
                "backward(comm, model, micro_batches[-1]() / n)"
            ),
            "The gradient is too short by a factor, the number of micro-batches.",
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
        "one micro-batch in buckets": lambda case: (
            case["num_micro_batches"] == 1 and case["trainer"] == "buckets"
        ),
        "several in buckets": lambda case: (
            case["num_micro_batches"] > 2 and case["trainer"] == "buckets"
        ),
    },
)

_PARAMETERS = "num_params, num_ranks, bytes_per_element, bytes_per_second, flops_per_second"


_VALUE = "bytes_per_element * (num_ranks - 1) * flops_per_second"
_BY = "2 * num_ranks * bytes_per_second"


def _tokens(value: str = _VALUE, by: str = _BY, rounded: str = "-(-value // by)") -> str:
    return f"""
    def min_tokens({_PARAMETERS}):
        value = {value}
        by = {by}
        return {rounded}
    """


HIDDEN = AnswerBank(
    function="min_tokens",
    wrong=[
        Wrong(
            "times parameters",
            _tokens(f"{_VALUE} * num_params"),
            "You multiply by the number of parameters.",
        ),
        Wrong(
            "over parameters",
            _tokens(by=f"{_BY} * num_params"),
            "Your number falls with the number of parameters.",
        ),
        Wrong("half a ring", _tokens(by=f"2 * {_BY}"), "each sum is then on one rank alone"),
        Wrong(
            "forward too",
            _tokens(f"2 * {_VALUE}", f"3 * {_BY}"),
            "You hide communication behind the forward pass",
        ),
        Wrong("two FLOPs", _tokens(f"2 * {_VALUE}"), "Twice as many."),
        Wrong(
            "without the ring's part",
            _tokens("bytes_per_element * flops_per_second", "2 * bytes_per_second"),
            "Every rank sends all bytes twice in your ring.",
        ),
        Wrong(
            "elements",
            _tokens("(num_ranks - 1) * flops_per_second"),
            "Elements are counted where bytes travel.",
        ),
        Wrong(
            "the tokens of all ranks",
            _tokens(f"{_VALUE} * num_ranks"),
            "These are the tokens of all ranks together.",
        ),
        Wrong(
            "rounded down",
            _tokens(rounded="value // by"),
            "One token too few wherever it does not come out even.",
        ),
        Wrong(
            "one token more",
            _tokens(rounded="value // by + 1"),
            "One token too many wherever it comes out even.",
        ),
        Wrong("bits", _tokens(f"8 * {_VALUE}"), "count bytes or bits?"),
        Wrong(
            "at least one",
            _tokens(rounded="max(1, -(-value // by))"),
            "On one rank nothing travels.",
        ),
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
            "one quotient as a float",
            f"""
            import math

            def min_tokens({_PARAMETERS}):
                return math.ceil({_VALUE} / ({_BY}))
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
            "whole bytes",
            f"""
            def min_tokens({_PARAMETERS}):
                sent = 2 * (num_ranks - 1) * num_params * bytes_per_element // num_ranks
                return -(-sent * flops_per_second // (4 * num_params * bytes_per_second))
            """,
            "The ring moves a part of a byte less in your formula",
        ),
        Wrong(
            "whole seconds",
            f"""
            def min_tokens({_PARAMETERS}):
                sent = 2 * (num_ranks - 1) * num_params * bytes_per_element
                seconds = -(-sent // (num_ranks * bytes_per_second))
                return -(-seconds * flops_per_second // (4 * num_params))
            """,
            "Seconds are rounded before tokens are counted.",
        ),
        Wrong("a fraction", _tokens(rounded="value / by"), "?"),
    ],
    right=[
        _tokens(),
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
    weights: str = "comm.broadcast(each, 0)",
    every: str = "[*model.parameters(), *model.buffers()]",
    seed: str = "torch.manual_seed(seed + comm.rank)",
    more: str = "",
) -> str:
    return f"""
    import torch

    def start_equal(comm, model, seed):
        with torch.no_grad():
            for each in {every}:
                {weights}
        {more}
        {seed}
    """


BEGIN = AnswerBank(
    function="start_equal",
    wrong=[
        Wrong(
            "seeds alone", _begin("pass"), "Every rank still has the weights that it began with."
        ),
        Wrong(
            "a mean",
            _begin("comm.all_reduce(each); each /= comm.size"),
            "even rank 0 has others now",
        ),
        Wrong(
            "no buffers",
            _begin(every="model.parameters()"),
            "Weights are equal, buffers are not.",
        ),
        Wrong(
            "frozen",
            _begin("comm.broadcast(each.requires_grad_(False), 0)"),
            "The weights want no gradient any more.",
        ),
        Wrong(
            "sent twice",
            _begin(every="[*model.parameters(), *model.buffers(), *model.parameters()]"),
            "Which tensors do two of your loops share?",
        ),
        Wrong(
            "its own source",
            _begin("comm.broadcast(each, comm.rank)"),
            "Which rank has what all others want?",
        ),
        Wrong(
            "in messages",
            _begin(
                "if comm.rank: comm.receive(each, 0)\n"
                "                for rank in range(1, comm.size) if comm.rank == 0 else ():\n"
                "                    comm.send(each, rank)"
            ),
            "Which call brings it to all of them at once?",
        ),
        Wrong(
            "the shared weight twice",
            _begin(every="model.state_dict().values()"),
            "A weight that two layers share is sent twice.",
        ),
        Wrong(
            "module by module",
            _begin(every="[t for m in model.modules() for t in (*m.parameters(), *m.buffers())]"),
            "What lies in a module inside another one is sent with both.",
        ),
        Wrong(
            "a multiple of the seed",
            _begin(seed="torch.manual_seed(seed * (comm.rank + 1))"),
            "By how much do the seeds of two neighbours differ",
        ),
        Wrong(
            "one seed",
            _begin(seed="torch.manual_seed(seed)"),
            "All ranks draw the same random numbers",
        ),
        Wrong(
            "times rank",
            _begin(seed="torch.manual_seed(seed * 2 + comm.rank + 1)"),
            "Random numbers differ from rank to rank",
        ),
        Wrong("no seed", _begin(seed="pass"), "Random numbers differ from rank to rank"),
        Wrong(
            "something drawn",
            _begin(seed="torch.manual_seed(seed + comm.rank)\n        torch.rand(1)"),
            "is anything drawn after it is set?",
        ),
    ],
    right=[
        _begin(),
        """
        import torch

        def start_equal(comm, model, seed):
            tensors = [*model.buffers(), *(each.data for each in model.parameters())]
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
        "nested": lambda case: case["kind"] == "nested",
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
        loss.backward()
        for each in hooks:
            each.remove()
        while len(sent) < len(buckets):
            send()
        for bucket, (handle, flat) in zip(buckets, sent):
            handle.wait()
            for p, part in zip(bucket, flat.split([each.numel() for each in bucket])):
                p.grad = part.view_as(p)
"""


_ASYNC = "            sent.append((comm.all_reduce(flat, async_op=True), flat))\n"

_SEND_ALL = "            while len(sent) < len(buckets) and not missing[len(sent)]:\n"
_LIST = "reversed(list(model.parameters()))"
_BY_MODULE = "[p for m in model.modules() for p in m.parameters(recurse=False)][::-1]"
_ASSIGN = "p.grad = part.view_as(p)"

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
                loss.backward()
                for hook in hooks:
                    hook.remove()
                if waiting:
                    send()
                for handle, flat, parameters in sent:
                    handle.wait()
                    for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
                        p.grad = part.view_as(p)
            """,
            "What is in the one that the other lacks",
        ),
        Wrong(
            "one bucket in each hook",
            _changed(_UNUSED, (_SEND_ALL, _SEND_ALL.replace("while", "if"))),
            "leaves one gradient late",
        ),
        Wrong(
            "listed by module",
            _changed(_UNUSED, (_LIST, _BY_MODULE)),
            "A parameter that two modules share travels twice.",
        ),
        Wrong(
            "None where the sum is zero",
            _changed(_UNUSED, (_ASSIGN, "p.grad = part.view_as(p) if part.any() else None")),
            "what is a sum of zeros?",
        ),
        Wrong(
            "a gradient only where one was",
            _changed(_UNUSED, (_ASSIGN, "if p.grad is not None: p.grad = part.view_as(p)")),
            "Into what do you write the sum there?",
        ),
        Wrong(
            "added to its own",
            _changed(
                _UNUSED,
                (
                    _ASSIGN,
                    "p.grad = part.view_as(p) + (0 if p.grad is None else p.grad)",
                ),
            ),
            "Which operation puts new numbers in the place of old ones?",
        ),
        Wrong(
            "each by itself",
            _changed(_UNUSED, ("if held >= bucket_bytes:", "if held:")),
            "Each parameter travels by itself.",
        ),
        Wrong(
            "from the first parameter",
            _changed(_UNUSED, ("reversed(list(model.parameters()))", "model.parameters()")),
            "Buckets begin with the first parameter.",
        ),
        Wrong(
            "waits in the hook",
            _changed(
                _UNUSED,
                (
                    _ASYNC,
                    "            handle = comm.all_reduce(flat, async_op=True)\n"
                    "            handle.wait()\n"
                    "            sent.append((handle, flat))\n",
                ),
            ),
            "Backward stands still until a bucket has arrived.",
        ),
        Wrong(
            "after backward",
            _changed(
                _UNUSED,
                ("while len(sent) < len(buckets) and not missing[len(sent)]:", "while False:"),
            ),
            "All buckets are sent only when backward is over.",
        ),
        Wrong(
            "hooks left",
            _changed(_UNUSED, ("            each.remove()\n", "            pass\n")),
            "Your hooks are still there when the function returns",
        ),
        Wrong(
            "more than full",
            _changed(_UNUSED, ("if held >= bucket_bytes:", "if held > bucket_bytes:")),
            "A bucket that is exactly full waits for one parameter more.",
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
            "In which of the cases is there nothing to join?",
        ),
        Wrong(
            "divided by ranks",
            _changed(
                _UNUSED, ("handle.wait()\n", "handle.wait()\n            flat /= comm.size\n")
            ),
            "What is a rank's loss a share of",
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
            "What is in the one that the other lacks",
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
            "What is in the one that the other lacks",
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
            loss.backward()
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


_FILLED = "            if held >= bucket_bytes:\n"

MEMORY = AnswerBank(
    function="make_buckets",
    wrong=[
        Wrong(
            "copies",
            _changed(_VIEWS, ("p.grad = part.view_as(p)", "p.grad = part.view_as(p).clone()")),
            "Which of your operations makes a copy where a view would do",
        ),
        Wrong(
            "new zeros in grad",
            _changed(_VIEWS, ("p.grad = part.view_as(p)", "p.grad = torch.zeros_like(p)")),
            "backward fills other memory than your buckets",
        ),
        Wrong(
            "nothing in grad",
            _changed(_VIEWS, ("                p.grad = part.view_as(p)\n", "")),
            "and what is in grad?",
        ),
        Wrong(
            "zeros joined",
            _changed(
                _VIEWS,
                (
                    "flat, start = torch.zeros(length, dtype=bucket[0].dtype), 0",
                    "flat, start = torch.cat([torch.zeros_like(p).flatten() for p in bucket]), 0",
                ),
            ),
            "What is made only to be copied from?",
        ),
        Wrong(
            "zeros in all gradients first",
            _changed(
                _VIEWS,
                (
                    "flats = []\n",
                    "flats = []\n        for p in model.parameters():\n"
                    "            p.grad = torch.zeros_like(p)\n",
                ),
                (
                    "flat, start = torch.zeros(length, dtype=bucket[0].dtype), 0",
                    "flat, start = torch.cat([p.grad.flatten() for p in bucket]), 0",
                ),
            ),
            "What is made only to be copied from?",
        ),
        Wrong(
            "in float32",
            _changed(_VIEWS, ("torch.zeros(length, dtype=bucket[0].dtype)", "torch.zeros(length)")),
            "Which precision has the parameter",
        ),
        Wrong(
            "flat parts",
            _changed(_VIEWS, ("p.grad = part.view_as(p)", "p.grad = part")),
            "Which shape has the parameter",
        ),
        Wrong(
            "uninitialised memory",
            _changed(_VIEWS, ("torch.zeros(length", "torch.empty(length")),
            "what stands in your buckets before?",
        ),
        Wrong(
            "from the first parameter",
            _changed(_VIEWS, ("reversed(list(model.parameters()))", "model.parameters()")),
            "Your buckets begin with the first parameter.",
        ),
        Wrong(
            "more than full",
            _changed(_VIEWS, (_FILLED, "            if held > bucket_bytes:\n")),
            "A bucket that is exactly full waits for one parameter more.",
        ),
        Wrong(
            "numbers for bytes",
            _changed(_VIEWS, ("held += p.nbytes", "held += p.numel()")),
            "Does the exercise count numbers or bytes?",
        ),
        Wrong(
            "one for all",
            _changed(_VIEWS, (_FILLED, "            if False:\n")),
            "All parameters are in one bucket.",
        ),
        Wrong(
            "one for each",
            _changed(_VIEWS, (_FILLED, "            if held:\n")),
            "Each parameter has a bucket of its own.",
        ),
        Wrong(
            "an empty one at the end",
            _changed(
                _VIEWS,
                (
                    f"{_FILLED}                members.append([])\n                held = 0\n"
                    "            members[-1].append(p)\n            held += p.nbytes\n",
                    "            members[-1].append(p)\n            held += p.nbytes\n"
                    f"{_FILLED}                members.append([])\n                held = 0\n",
                ),
                ("dtype=bucket[0].dtype", "dtype=torch.float64"),
            ),
            "An empty bucket comes last.",
        ),
        Wrong(
            "the rest dropped",
            _changed(
                _VIEWS,
                (
                    "for bucket in members:",
                    "for bucket in members[: -1 if held < bucket_bytes else None]:",
                ),
            ),
            "The last bucket is missing where it does not become full.",
        ),
        Wrong(
            "nothing returned",
            _changed(_VIEWS, ("        return flats\n", "")),
            "Does every way through your function end in a",
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
