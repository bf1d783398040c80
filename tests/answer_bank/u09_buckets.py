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
        try:
            loss.backward()
        finally:
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
        try:
            loss.backward()
        finally:
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
        try:
            loss.backward()
        finally:
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

_COPY = "p.grad.copy_(flat[start : start + p.numel()].view_as(p))"
_FULL = "if sum(p.grad.nbytes for p in waiting) >= bucket_bytes:"
_WAIT = "handle.wait()\n"


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
            "written back before it waits",
            _changed(
                _HOOKS,
                (_WAIT, "\n"),
                ("start += p.numel()\n", "start += p.numel()\n            handle.wait()\n"),
            ),
            "at which moment is it the sum?",
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
            "no backward",
            _changed(_HOOKS, ("loss.backward()", "pass")),
            "Backward never runs",
        ),
        Wrong(
            "no backward, and the hook called by hand",
            _changed(_HOOKS, ("loss.backward()", "for each in model.parameters(): collect(each)")),
            "in which cases has nothing filled it?",
        ),
        Wrong(
            "None is sent",
            _changed(_HOOKS, ("comm.all_reduce(flat, async", "comm.all_reduce(None, async")),
            "What is None there",
        ),
        Wrong(
            "a number is sent",
            _changed(_HOOKS, ("comm.all_reduce(flat, async", "comm.all_reduce(len(flat), async")),
            "What could hold your number so that it can be written into?",
        ),
        Wrong(
            "joined without flattening",
            _changed(_HOOKS, ("p.grad.flatten() for p in waiting", "p.grad for p in waiting")),
            "what shape should each have first?",
        ),
        Wrong(
            "the rest sent unchecked",
            _changed(_HOOKS, ("        if waiting:\n            send()\n", "        send()\n")),
            "In which cases is there nothing to join?",
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
            "What does a stored list hold after you clear it?",
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
            "which keyword says that the name belongs to the outer one?",
        ),
        Wrong(
            "waits in the hook",
            _BLOCKING,
            "Backward stands still until a bucket has arrived",
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
            "Which tensor do you write into while it is still in flight",
        ),
        Wrong(
            "one rank does not send the rest",
            _changed(_HOOKS, ("        if waiting:\n", "        if waiting and comm.rank:\n")),
            "In which call is each rank waiting",
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
        "single precision": lambda case: case["precision"] == "float32",
    },
)

BANKS = {"u09-buckets": BUCKETS}
