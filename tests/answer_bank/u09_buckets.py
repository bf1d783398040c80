"""Answer bank of unit 09: gradients in buckets."""

from tests.answer_bank import AnswerBank, Wrong

_HOOKS = """
    import torch

    def backward_in_buckets(comm, model, loss, bucket_bytes):
        waiting, sent = [], []

        def send():
            flat = torch.cat([p.grad.flatten() for p in waiting])
            sent.append((comm.all_reduce(flat, async_op=True), flat, list(waiting)))
            waiting.clear()

        def collect(parameter):
            waiting.append(parameter)
            if sum(p.grad.nbytes for p in waiting) >= bucket_bytes:
                send()

        hooks = [p.register_post_accumulate_grad_hook(collect) for p in model.parameters()]
        loss.backward()
        for hook in hooks:
            hook.remove()
        if waiting:
            send()
        for handle, flat, parameters in sent:
            handle.wait()
            start = 0
            for p in parameters:
                p.grad.copy_(flat[start : start + p.numel()].view_as(p))
                start += p.numel()
"""

_BLOCKING = """
    import torch

    def backward_in_buckets(comm, model, loss, bucket_bytes):
        waiting = []

        def send():
            flat = torch.cat([p.grad.flatten() for p in waiting])
            comm.all_reduce(flat)
            for p, part in zip(waiting, flat.split([p.numel() for p in waiting])):
                p.grad = part.view_as(p)
            waiting.clear()

        def collect(parameter):
            waiting.append(parameter)
            if sum(p.grad.nbytes for p in waiting) >= bucket_bytes:
                send()

        hooks = [p.register_post_accumulate_grad_hook(collect) for p in model.parameters()]
        loss.backward()
        for hook in hooks:
            hook.remove()
        if waiting:
            send()
"""

_AFTERWARDS = """
    import torch

    def backward_in_buckets(comm, model, loss, bucket_bytes):
        ready = []
        hooks = [
            p.register_post_accumulate_grad_hook(ready.append) for p in model.parameters()
        ]
        loss.backward()
        for hook in hooks:
            hook.remove()
        parameters = ready
        buckets, held = [[]], 0
        for p in parameters:
            buckets[-1].append(p)
            held += p.grad.nbytes
            if held >= bucket_bytes:
                buckets.append([])
                held = 0
        sent = []
        for bucket in filter(None, buckets):
            flat = torch.cat([p.grad.flatten() for p in bucket])
            sent.append((comm.all_reduce(flat, async_op=True), flat, bucket))
        for handle, flat, bucket in sent:
            handle.wait()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = part.view_as(p)
"""

_STATIC = """
    import torch

    def backward_in_buckets(comm, model, loss, bucket_bytes):
        buckets, held = [[]], 0
        for p in reversed(list(model.parameters())):
            buckets[-1].append(p)
            held += p.nbytes
            if held >= bucket_bytes:
                buckets.append([])
                held = 0
        buckets = [bucket for bucket in buckets if bucket]
        ready, sent = set(), []

        def hook(p):
            ready.add(p)
            while len(sent) < len(buckets) and ready >= set(buckets[len(sent)]):
                flat = torch.cat([each.grad.flatten() for each in buckets[len(sent)]])
                sent.append((comm.all_reduce(flat, async_op=True), flat))

        hooks = [p.register_post_accumulate_grad_hook(hook) for p in model.parameters()]
        loss.backward()
        for each in hooks:
            each.remove()
        for bucket, (handle, flat) in zip(buckets, sent):
            handle.wait()
            for p, part in zip(bucket, flat.split([each.numel() for each in bucket])):
                p.grad = part.view_as(p)
"""

_COPY = "p.grad.copy_(flat[start : start + p.numel()].view_as(p))"
_FULL = "if sum(p.grad.nbytes for p in waiting) >= bucket_bytes:"
_WAIT = "handle.wait()\n"
_REST = "        if waiting:\n            send()\n"
_REMOVE = "        for hook in hooks:\n            hook.remove()\n"
_SEND = "        def send():\n"


def _changed(source: str, *changes: tuple[str, str]) -> str:
    """An answer above with some lines replaced."""
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


BUCKETS = AnswerBank(
    function="backward_in_buckets",
    wrong=[
        Wrong(
            "never written back",
            _changed(_HOOKS, (_COPY, "pass")),
            "Each rank still has the gradients of its own rows.",
        ),
        Wrong(
            "written back before it waits",
            _changed(
                _HOOKS,
                (_WAIT, "\n"),
                ("start += p.numel()\n", "start += p.numel()\n            handle.wait()\n"),
            ),
            "at which moment is it the sum?",
        ),
        Wrong(
            "divided by ranks",
            _changed(_HOOKS, (_WAIT, "handle.wait()\n            flat /= comm.size\n")),
            "Gradients are too small by a factor, the number of ranks.",
        ),
        Wrong(
            "reduced twice",
            _HOOKS + "        for p in model.parameters():\n            comm.all_reduce(p.grad)\n",
            "Gradients are too large by a factor, the number of ranks",
        ),
        Wrong(
            "zeroed before backward",
            _changed(
                _HOOKS,
                (
                    "        loss.backward()\n",
                    "        model.zero_grad()\n        loss.backward()\n",
                ),
            ),
            "What was in grad before this backward pass is gone.",
            points=0.0,
        ),
        Wrong(
            "added to its own",
            _changed(_HOOKS, ("p.grad.copy_(", "p.grad.add_(")),
            "Which operation puts new numbers in the place of old ones?",
        ),
        Wrong(
            "a hook on the new gradient",
            _changed(_HOOKS, ("register_post_accumulate_grad_hook", "register_hook")),
            "Your hooks run before grad is filled",
        ),
        Wrong(
            "a hook on the new gradient that knows its parameter",
            _changed(
                _HOOKS,
                (
                    "p.register_post_accumulate_grad_hook(collect)",
                    "p.register_hook(lambda gradient, p=p: collect(p))",
                ),
            ),
            "Your hooks run before grad is filled",
        ),
        Wrong(
            "last to first, after backward",
            _changed(
                _AFTERWARDS,
                ("parameters = ready", "parameters = list(model.parameters())[::-1]"),
            ),
            "Backward is over before your first bucket leaves",
        ),
        Wrong(
            "None is sent",
            _changed(_HOOKS, ("comm.all_reduce(flat, async", "comm.all_reduce(None, async")),
            "What is None there",
        ),
        Wrong(
            "a number is sent",
            _changed(_HOOKS, ("comm.all_reduce(flat, async", "comm.all_reduce(len(flat), async")),
            "What holds your number so that it can be written into?",
        ),
        Wrong(
            "one bucket",
            _changed(_HOOKS, (_FULL, "if False:")),
            "All gradients travel in one bucket.",
        ),
        Wrong(
            "each by itself",
            _changed(_HOOKS, (_FULL, "if True:")),
            "Each gradient travels by itself. How many bytes",
        ),
        Wrong(
            "the count never reset",
            _changed(
                _HOOKS,
                ("waiting, sent = [], []", "waiting, sent, held = [], [], 0"),
                (
                    "            waiting.append(parameter)\n",
                    "            nonlocal held\n"
                    "            waiting.append(parameter)\n"
                    "            held += parameter.grad.nbytes\n",
                ),
                (_FULL, "if held >= bucket_bytes:"),
            ),
            "After the first full bucket each gradient travels by itself.",
        ),
        Wrong(
            "numbers for bytes",
            _changed(_HOOKS, (_FULL, _FULL.replace("nbytes", "numel()"))),
            "Does the exercise count numbers or bytes?",
        ),
        Wrong(
            "more than full",
            _changed(_HOOKS, (">= bucket", "> bucket")),
            "A bucket that is exactly full waits for one gradient more.",
        ),
        Wrong(
            "at most bucket_bytes",
            _changed(
                _HOOKS,
                (
                    "            waiting.append(parameter)\n"
                    f"            {_FULL}\n"
                    "                send()\n",
                    "            held = sum(p.grad.nbytes for p in waiting)\n"
                    "            if waiting and held + parameter.grad.nbytes > bucket_bytes:\n"
                    "                send()\n"
                    "            waiting.append(parameter)\n",
                ),
            ),
            "Your buckets never have more than so many bytes.",
        ),
        Wrong(
            "first to last",
            _changed(_AFTERWARDS, ("parameters = ready", "parameters = list(model.parameters())")),
            "Your buckets follow the order of the model's parameters, first to last.",
        ),
        Wrong(
            "last to first",
            _STATIC,
            "from the last to the first",
        ),
        Wrong(
            "never cleared",
            _changed(_HOOKS, ("            waiting.clear()\n", "")),
            "what was sent is sent again",
        ),
        Wrong(
            "the count reset, the list not",
            _changed(
                _HOOKS,
                ("waiting, sent = [], []", "waiting, sent, held = [], [], 0"),
                (
                    "            waiting.append(parameter)\n",
                    "            nonlocal held\n"
                    "            waiting.append(parameter)\n"
                    "            held += parameter.grad.nbytes\n",
                ),
                (f"{_FULL}\n", "if held >= bucket_bytes:\n                held = 0\n"),
                ("            waiting.clear()\n", ""),
            ),
            "what was sent is sent again",
        ),
        Wrong(
            "the count reset and checked at the end, the list not",
            _changed(
                _HOOKS,
                ("waiting, sent = [], []", "waiting, sent, held = [], [], 0"),
                (
                    "            waiting.append(parameter)\n",
                    "            nonlocal held\n"
                    "            waiting.append(parameter)\n"
                    "            held += parameter.grad.nbytes\n",
                ),
                (f"{_FULL}\n", "if held >= bucket_bytes:\n                held = 0\n"),
                ("        if waiting:\n", "        if held:\n"),
                ("            waiting.clear()\n", ""),
            ),
            "what was sent is sent again",
        ),
        Wrong(
            "joined without flattening",
            _changed(_HOOKS, ("p.grad.flatten() for p in waiting", "p.grad for p in waiting")),
            "which form has each of them before?",
        ),
        Wrong(
            "checked before the gradient joins",
            _changed(
                _HOOKS,
                (
                    f"            waiting.append(parameter)\n            {_FULL}\n"
                    "                send()\n",
                    f"            {_FULL}\n                send()\n"
                    "            waiting.append(parameter)\n",
                ),
            ),
            "A full bucket leaves one gradient late",
            points=2.0,
        ),
        Wrong(
            "the rest sent unchecked",
            _changed(_HOOKS, ("        if waiting:\n            send()\n", "        send()\n")),
            "In which of the cases is there nothing to join?",
        ),
        Wrong(
            "one list for all buckets",
            _changed(_HOOKS, ("flat, list(waiting)))", "flat, waiting))")),
            "Each rank still has the gradients of its own rows.",
        ),
        Wrong(
            "one list, and split",
            _changed(
                _AFTERWARDS,
                (
                    "        for handle, flat, bucket in sent:\n",
                    "        bucket.clear()\n        for handle, flat, bucket in sent:\n",
                ),
            ),
            "What does a list hold that was cleared",
        ),
        Wrong(
            "a hook that returns",
            _changed(
                _HOOKS,
                (
                    f"            {_FULL}\n                send()\n",
                    f"            {_FULL}\n                send()\n            return len(sent)\n",
                ),
            ),
            "What must a hook return",
        ),
        Wrong(
            "a count without nonlocal",
            _changed(
                _HOOKS,
                ("waiting, sent = [], []", "waiting, sent, held = [], [], 0"),
                (
                    "            waiting.append(parameter)\n",
                    "            waiting.append(parameter)\n            held += 1\n",
                ),
            ),
            "which word says that the name belongs to the outer one?",
        ),
        Wrong(
            "the rest never sent",
            _changed(_HOOKS, (_REST, "")),
            "Gradients that fill no bucket are never sent.",
        ),
        Wrong(
            "waits in the hook",
            _BLOCKING,
            "Backward stands still until a bucket has arrived",
            points=2.0,
        ),
        Wrong(
            "waits for the one before",
            _changed(
                _HOOKS,
                (_SEND, _SEND + "            if sent:\n                sent[-1][0].wait()\n"),
            ),
            "Before a bucket is sent your hook waits for the one before it.",
            points=2.0,
        ),
        Wrong(
            "after backward",
            _AFTERWARDS,
            "All buckets are sent only when backward is over",
            points=2.0,
        ),
        Wrong(
            "hooks left",
            _changed(_HOOKS, (_REMOVE, "")),
            "Your hooks are still there when the function returns",
            points=2.0,
        ),
        Wrong(
            "no wait",
            _changed(_HOOKS, (_WAIT, "\n")),
            "Where does the handle of that call go",
        ),
        Wrong(
            "written into while in flight",
            _changed(_HOOKS, (_WAIT, "flat /= 1.5\n            handle.wait()\n")),
            "Which tensor do you write into while it is still on its way",
        ),
        Wrong(
            "one rank does not send the rest",
            _changed(_HOOKS, ("        if waiting:\n", "        if waiting and comm.rank:\n")),
            "In which call does each rank stand",
        ),
    ],
    right=[
        _HOOKS,
        """
        import torch

        def backward_in_buckets(comm, model, loss, bucket_bytes):
            bucket, held, travelling = [], 0, []

            def start():
                nonlocal bucket, held
                flat = torch.empty(sum(p.numel() for p in bucket), dtype=bucket[0].dtype)
                views = flat.split([p.numel() for p in bucket])
                for p, view in zip(bucket, views):
                    view.copy_(p.grad.flatten())
                    p.grad = view.view(p.shape)
                travelling.append(comm.all_reduce(flat, async_op=True))
                bucket, held = [], 0

            def hook(p):
                nonlocal held
                bucket.append(p)
                held += p.numel() * p.element_size()
                if held >= bucket_bytes:
                    start()

            handles = []
            for p in model.parameters():
                handles.append(p.register_post_accumulate_grad_hook(hook))
            try:
                loss.backward()
            finally:
                while handles:
                    handles.pop().remove()
            if bucket:
                start()
            while travelling:
                travelling.pop().wait()
        """,
    ],
    features={
        "a bucket that is exactly full": lambda case: case["scenario"] == "overlap",
        "another order": lambda case: case["is_reordered"],
        "gradients before": lambda case: case["has_gradients"],
        "three matrices": lambda case: len(case["widths"]) == 4,
        "all in one": lambda case: case["bucket_bytes"] > 300,
        "the last one full": lambda case: case["bucket_bytes"] == 1,
    },
)

BANKS = {"u09-buckets": BUCKETS}
