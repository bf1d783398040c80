"""Answer banks of unit 15: broken trainers as they are given, and repairs that people try.

The broken trainers stand in the unit's text master; an answer that is one of them, unchanged, must
be told its symptom.
"""

import ast
import re
from pathlib import Path

from tests.answer_bank import AnswerBank, Wrong

MASTER = Path(__file__).parents[2] / "solutions" / "15_bug_clinic" / "15_bug_clinic.py"


def _definitions() -> dict[str, str]:
    """The functions at the top of the master, with their decorators."""
    text = MASTER.read_text("utf-8")
    lines = text.splitlines()
    functions = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]
    return {
        each.name: "\n".join(
            lines[
                min(each.lineno, *(d.lineno for d in each.decorator_list), each.lineno)
                - 1 : each.end_lineno
            ]
        )
        for each in functions
    }


GIVEN = _definitions()
HELPERS = "\n\n".join(
    [
        "from collections.abc import Sequence\nfrom contextlib import contextmanager",
        "import torch\nfrom torch import nn\nfrom course_utils.distributed import Comm",
        GIVEN["hooks_on"],
        GIVEN["send"],
    ]
)


def _answer(source: str, *changes: tuple[str, str]) -> str:
    """An answer below the helpers that the notebook gives, with some pieces written otherwise."""
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return f"{HELPERS}\n\n{source}"


def _broken(name: str, function: str, *changes: tuple[str, str]) -> str:
    """A broken trainer under the name that the exercise asks for."""
    return _answer(re.sub(rf"\b{name}\b", function, GIVEN[name]), *changes)


TIED = AnswerBank(
    function="backward_tied",
    wrong=[
        Wrong(
            "the broken trainer",
            _broken("broken_1", "backward_tied"),
            "its sum is summed again",
        ),
        Wrong(
            "layers without the last",
            _broken("broken_1", "backward_tied", ("model.modules()", "list(model.modules())[:-1]")),
            "each counted once",
        ),
        Wrong(
            "remembered by name",
            """
def backward_tied(comm, model, loss):
    loss.backward()
    sent = set()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and name not in sent:
            sent.add(name)
            comm.all_reduce(parameter.grad)
""",
            "its sum is summed again",
        ),
        Wrong(
            "divided by the number of ranks",
            _broken(
                "broken_1",
                "backward_tied",
                (
                    "comm.all_reduce(parameter.grad)",
                    "comm.all_reduce(parameter.grad)\n                parameter.grad /= comm.size",
                ),
            ),
            "its sum is summed again",
        ),
        Wrong(
            "on rank 0 alone a shared weight is left out",
            _answer("""
def backward_tied(comm, model, loss):
    loss.backward()
    seen = set()
    for layer in model.modules():
        for parameter in layer.parameters(recurse=False):
            if parameter.requires_grad and (comm.rank or parameter not in seen):
                seen.add(parameter)
                comm.all_reduce(parameter.grad)
"""),
            "What does one rank have in these cases that another lacks",
        ),
        Wrong(
            "no backward",
            _answer("""
def backward_tied(comm, model, loss):
    for parameter in model.parameters():
        if parameter.requires_grad:
            comm.all_reduce(parameter.grad)
"""),
            "What is None there",
        ),
    ],
    right=[
        _broken(
            "broken_1",
            "backward_tied",
            ("    for layer", "    sent = set()\n    for layer"),
            (
                "if parameter.requires_grad:",
                "if parameter.requires_grad and id(parameter) not in sent:\n"
                "                sent.add(id(parameter))",
            ),
        ),
        _answer("""
def backward_tied(comm, model, loss):
    loss.backward()
    trained = {p: None for m in model.modules() for p in m.parameters(recurse=False)}
    handles = [comm.all_reduce(p.grad, async_op=True) for p in trained if p.requires_grad]
    for handle in handles:
        handle.wait()
"""),
    ],
    features={
        f"{kind} on several ranks": lambda case, kind=kind: (
            case["kind"] == kind and case["num_ranks"] > 1
        )
        for kind in ("two", "three", "bias", "layer", "equal", "frozen")
    }
    | {"one rank": lambda case: case["num_ranks"] == 1},
)

WHICH_CALL = "which call of which rank would release it?"
PER_RANK, MINE = "per_rank = -(-len(rows) // comm.size)", "per_rank * comm.rank :][:per_rank]"
EMPTY = AnswerBank(
    function="backward_of_rows",
    wrong=[
        Wrong("the broken trainer", _broken("broken_2", "backward_of_rows"), WHICH_CALL),
        Wrong(
            "a barrier instead",
            _broken(
                "broken_2",
                "backward_of_rows",
                ("return  # nothing to do", "return comm.barrier()"),
            ),
            "All ranks must make the same calls",
        ),
        Wrong(
            "all zeros in one call",
            _broken(
                "broken_2",
                "backward_of_rows",
                (
                    "return  # nothing to do",
                    "return comm.all_reduce(torch.cat([p.flatten() for p in "
                    "model.parameters()]).detach() * 0)",
                ),
            ),
            "the same call with tensors of different lengths",
        ),
        Wrong(
            "dealt out evenly, and the rank without rows still returns",
            _broken(
                "broken_2",
                "backward_of_rows",
                (f"rows[{MINE}", "rows.tensor_split(comm.size)[comm.rank]"),
            ),
            WHICH_CALL,
        ),
        Wrong(
            "no loss, and None is sent",
            _broken(
                "broken_2",
                "backward_of_rows",
                ("return  # nothing to do", "pass"),
                ("    loss.backward()", "    if len(mine):\n        loss.backward()"),
            ),
            "What is None there",
        ),
        Wrong(
            "chunks, of which there are too few",
            _broken(
                "broken_2",
                "backward_of_rows",
                (f"rows[{MINE}", "rows.chunk(comm.size)[comm.rank]"),
            ),
            "which one does that line ask for?",
        ),
        Wrong(
            "the mean of this rank's rows",
            _broken(
                "broken_2",
                "backward_of_rows",
                ("    if len(mine) == 0:\n        return  # nothing to do\n", ""),
                (".sum() / len(rows)", ".mean()"),
            ),
            "By what should a rank divide",
        ),
    ],
    right=[
        _broken(
            "broken_2",
            "backward_of_rows",
            ("    if len(mine) == 0:\n        return  # nothing to do\n", ""),
            (f"rows[{MINE}", "rows[comm.rank :: comm.size]"),
        ),
        _answer("""
def backward_of_rows(comm, model, rows):
    mine = rows.tensor_split(comm.size)[comm.rank]
    if len(mine):
        (model(mine).square().sum() / len(rows)).backward()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        comm.all_reduce(parameter.grad)
"""),
    ],
    features={
        "fewer rows than ranks": lambda case: case["num_rows"] < case["num_ranks"],
        "more rows than ranks, and a rank without": lambda case: (
            case["num_rows"] > case["num_ranks"]
            and -(-case["num_rows"] // -(-case["num_rows"] // case["num_ranks"]))
            < case["num_ranks"]
        ),
        "a rank without, with gradients": lambda case: (
            case["has_gradients"] and case["num_rows"] < case["num_ranks"]
        ),
        "equal parts": lambda case: case["num_rows"] % case["num_ranks"] == 0,
        "one rank": lambda case: case["num_ranks"] == 1,
    },
)

IN_HOOK = "What does the next layer's backward pass need"
SEND_AND_WAIT = "comm.all_reduce(parameter.grad, async_op=True).wait()"
HOOKS = AnswerBank(
    function="backward_in_hooks",
    wrong=[
        Wrong("the broken trainer", _broken("broken_3", "backward_in_hooks"), IN_HOOK),
        Wrong(
            "nobody waits",
            _broken("broken_3", "backward_in_hooks", ("async_op=True).wait()", "async_op=True)")),
            "Where does the handle of that call go",
        ),
        Wrong(
            "the handle is dropped",
            _broken(
                "broken_3",
                "backward_in_hooks",
                (SEND_AND_WAIT, "handle = comm.all_reduce(parameter.grad, async_op=True)"),
            ),
            "Where does the handle of that call go",
        ),
        Wrong(
            "waits for the last call alone",
            _broken(
                "broken_3",
                "backward_in_hooks",
                (
                    SEND_AND_WAIT,
                    "nonlocal handle\n        handle = comm.all_reduce(parameter.grad, "
                    "async_op=True)",
                ),
                ("    def send", "    handle = None\n\n    def send"),
                ("        loss.backward()", "        loss.backward()\n    handle.wait()"),
            ),
            "Where does the handle of that call go",
        ),
        Wrong(
            "a hook on the new gradient",
            _answer("""
def backward_in_hooks(comm, model, loss):
    handles = []

    def send(gradient):
        handles.append(comm.all_reduce(gradient, async_op=True))

    hooks = [parameter.register_hook(send) for parameter in model.parameters()]
    loss.backward()
    for each in hooks:
        each.remove()
    for handle in handles:
        handle.wait()
"""),
            "?",
        ),
        Wrong(
            "waits inside the with block before backward",
            _answer("""
def backward_in_hooks(comm, model, loss):
    handles = []

    def send(parameter):
        while handles:
            handles.pop().wait()
        handles.append(comm.all_reduce(parameter.grad, async_op=True))

    with hooks_on(model, send):
        loss.backward()
    handles.pop().wait()
"""),
            "The hook waits for the call before it",
        ),
    ],
    right=[
        _broken(
            "broken_3",
            "backward_in_hooks",
            (SEND_AND_WAIT, f"started.append({SEND_AND_WAIT.removesuffix('.wait()')})"),
            ("    def send", "    started = []\n\n    def send"),
            (
                "        loss.backward()",
                "        loss.backward()\n        while started:\n            started.pop().wait()",
            ),
        ),
        _answer("""
def backward_in_hooks(comm, model, loss):
    under_way = {}
    hooks = []
    for parameter in model.parameters():
        def start(one):
            under_way[one] = comm.all_reduce(one.grad, async_op=True)
        hooks.append(parameter.register_post_accumulate_grad_hook(start))
    try:
        loss.backward()
    finally:
        [hook.remove() for hook in hooks]
    [call.wait() for call in under_way.values()]
"""),
    ],
    features={
        "gradients before": lambda case: case["has_gradients"],
        "three ranks": lambda case: case["num_ranks"] == 3,
        "slow links": lambda case: case["bandwidth"] <= 4,
        "two layers": lambda case: len(case["widths"]) == 3,
        "four layers": lambda case: len(case["widths"]) == 5,
    },
)

FROM_PLACES = "No rank sends its weights before the first step"
LOOP = "    for rows in batches:"


def _started(*lines: str, changes: tuple[tuple[str, str], ...] = ()) -> str:
    """Trainer 4, with lines before its loop."""
    before = "".join(f"    {line}\n" for line in lines)
    return _broken("broken_4", "train_together", (LOOP, f"{before}{LOOP}"), *changes)


START = AnswerBank(
    function="train_together",
    wrong=[
        Wrong("the broken trainer", _broken("broken_4", "train_together"), FROM_PLACES),
        Wrong("the same seed", _started("torch.manual_seed(0)"), FROM_PLACES),
        Wrong(
            "every rank sends its own",
            _started(
                "with torch.no_grad():",
                "    for each in [*model.parameters(), *model.buffers()]:",
                "        comm.broadcast(each, comm.rank)",
            ),
            "All ranks must name the same source",
        ),
        Wrong(
            "only rank 0 calls",
            _started(
                "with torch.no_grad():",
                "    for each in [*model.parameters(), *model.buffers()]:",
                "        if comm.rank == 0:",
                "            comm.broadcast(each, 0)",
            ),
            "What does one rank have in these cases that another lacks",
        ),
        Wrong(
            "a copy of the state",
            _started(
                "for each in model.state_dict().values():",
                "    comm.broadcast(each.clone(), 0)",
            ),
            "Is your tensor the weight, or a copy of it?",
        ),
    ],
    right=[
        _started(
            "for each in [*model.parameters(), *model.buffers()]:",
            "    comm.broadcast(each, 0)",
        ),
        _started(
            "for each in model.state_dict().values():",
            "    comm.broadcast(each, 0)",
        ),
        _started(
            "with torch.no_grad():",
            "    tensors = [*model.buffers(), *model.parameters()]",
            "    handles = [comm.broadcast(each, 0, async_op=True) for each in tensors]",
            "    [each.wait() for each in handles]",
        ),
    ],
    features={
        "no step": lambda case: case["num_steps"] == 0,
        "several steps": lambda case: case["num_steps"] > 1,
        "more ranks than two": lambda case: case["num_ranks"] > 2,
        "shares of different sizes": lambda case: case["num_rows"] % case["num_ranks"] > 0,
    },
)

CLIP_LINE = "    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"
CLIP = AnswerBank(
    function="backward_clipped",
    wrong=[
        Wrong(
            "the broken trainer",
            _broken("broken_5", "backward_clipped"),
            "Which gradient should obey the limit?",
        ),
        Wrong(
            "divided by the number of ranks",
            _broken(
                "broken_5",
                "backward_clipped",
                (
                    "comm.all_reduce(parameter.grad)",
                    "comm.all_reduce(parameter.grad)\n        parameter.grad /= comm.size",
                ),
            ),
            "?",
        ),
        Wrong(
            "nothing returned",
            _broken(
                "broken_5",
                "backward_clipped",
                (CLIP_LINE, ""),
                ("return norm", CLIP_LINE.strip()),
            ),
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "clipped between the calls",
            _broken(
                "broken_5",
                "backward_clipped",
                (CLIP_LINE, ""),
                (
                    "comm.all_reduce(parameter.grad)",
                    "comm.all_reduce(parameter.grad)\n    " + CLIP_LINE.rstrip(),
                ),
            ),
            "You clip after each call",
        ),
        Wrong(
            "the largest norm of all ranks",
            _broken(
                "broken_5",
                "backward_clipped",
                (CLIP_LINE, ""),
                (
                    "    return norm",
                    "    norm = torch.stack([p.grad.norm() for p in model.parameters()]).max()\n"
                    "    for parameter in model.parameters():\n"
                    "        parameter.grad *= min(1, max_norm / norm)\n    return norm",
                ),
            ),
            "?",
        ),
    ],
    right=[
        _broken(
            "broken_5",
            "backward_clipped",
            (CLIP_LINE, ""),
            ("    return norm", CLIP_LINE + "    return norm.item()"),
        ),
        _answer("""
def backward_clipped(comm, model, loss, max_norm):
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    for gradient in gradients:
        comm.all_reduce(gradient)
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    if norm > max_norm:
        for gradient in gradients:
            gradient *= max_norm / norm
    return norm
"""),
    ],
    features={
        "ranks that agree": lambda case: case["kind"] == "equal" and case["num_ranks"] > 1,
        "ranks that nearly cancel": lambda case: case["kind"] == "opposed",
        "neither": lambda case: case["kind"] == "mixed",
        "one rank": lambda case: case["num_ranks"] == 1,
    },
)

DIVIDE = "\n        parameter.grad /= comm.size"
SCALE = AnswerBank(
    function="backward_of_mean",
    wrong=[
        Wrong(
            "the broken trainer",
            _broken("broken_6", "backward_of_mean"),
            "two of your lines divide by it",
        ),
        Wrong(
            "multiplied in the end",
            _broken("broken_6", "backward_of_mean", (DIVIDE, DIVIDE.replace("/=", "*="))),
            "One of the two divisions was one too many",
        ),
        Wrong(
            "divided by ranks and micro-batches in the end too",
            _broken(
                "broken_6",
                "backward_of_mean",
                (DIVIDE, f"{DIVIDE} * len(micro_batches)"),
            ),
            "?",
        ),
        Wrong(
            "only the micro-batches are left",
            _broken(
                "broken_6",
                "backward_of_mean",
                (DIVIDE, ""),
                ("(comm.size * len(micro_batches))", "len(micro_batches)"),
            ),
            "One of the two divisions was one too many",
        ),
        Wrong(
            "the last micro-batch is taken off the list",
            _answer("""
def backward_of_mean(comm, model, micro_batches):
    num_parts = comm.size * len(micro_batches)
    while micro_batches:
        (model(micro_batches.pop()).square().mean() / num_parts).backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)
"""),
            "who else may still need it",
        ),
        Wrong(
            "what the call returns becomes the gradient",
            _broken(
                "broken_6",
                "backward_of_mean",
                (DIVIDE, ""),
                (
                    "comm.all_reduce(parameter.grad)",
                    "parameter.grad = comm.all_reduce(parameter.grad)",
                ),
            ),
            "what does it return",
        ),
    ],
    right=[
        _broken("broken_6", "backward_of_mean", (DIVIDE, "")),
        _broken("broken_6", "backward_of_mean", ("comm.size * ", "")),
        _answer("""
def backward_of_mean(comm, model, micro_batches):
    model(torch.cat(list(micro_batches))).square().mean().backward()
    for parameter in model.parameters():
        parameter.grad /= comm.size
        comm.all_reduce(parameter.grad)
"""),
    ],
    features={
        "one micro-batch": lambda case: case["num_micro_batches"] == 1 and case["num_ranks"] > 1,
        "several on several ranks": lambda case: (
            case["num_micro_batches"] > 1 and case["num_ranks"] > 1
        ),
        "one rank": lambda case: case["num_ranks"] == 1,
    },
)

LOST = "What is still in the bucket when the loop is over?"
END = "            bucket, held = [], 0"
FLUSH = AnswerBank(
    function="exchange_in_buckets",
    wrong=[
        Wrong("the broken trainer", _broken("broken_7", "exchange_in_buckets"), LOST),
        Wrong(
            "the rest, even if there is none",
            _broken("broken_7", "exchange_in_buckets", (END, f"{END}\n    send(comm, bucket)")),
            "In which cases is there nothing to join?",
        ),
        Wrong(
            "the rest inside the loop",
            _broken(
                "broken_7",
                "exchange_in_buckets",
                (END, f"{END}\n        if bucket:\n            send(comm, bucket)"),
            ),
            "?",
        ),
        Wrong(
            "the rest on rank 0",
            _broken(
                "broken_7",
                "exchange_in_buckets",
                (END, f"{END}\n    if bucket and comm.rank == 0:\n        send(comm, bucket)"),
            ),
            WHICH_CALL,
        ),
        Wrong(
            "the rest is joined to a bucket that has left",
            _answer("""
def exchange_in_buckets(comm, model, loss, bucket_bytes):
    loss.backward()
    buckets, held = [[]], 0
    for parameter in model.parameters():
        if held >= bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(parameter)
        held += parameter.grad.nbytes
    if len(buckets) > 1 and held < bucket_bytes:
        buckets[-2:] = [buckets[-2] + buckets[-1]]
    for bucket in buckets:
        send(comm, bucket)
"""),
            "How many buckets are there",
        ),
    ],
    right=[
        _broken(
            "broken_7",
            "exchange_in_buckets",
            (END, f"{END}\n    if held:\n        send(comm, bucket)"),
        ),
        _answer("""
def exchange_in_buckets(comm, model, loss, bucket_bytes):
    loss.backward()
    parameters = list(model.parameters())
    bucket = []
    for parameter in parameters:
        bucket.append(parameter)
        is_last = parameter is parameters[-1]
        if is_last or sum(each.nbytes for each in bucket) >= bucket_bytes:
            send(comm, bucket)
            bucket = []
"""),
    ],
    features={
        "all in one bucket that is exactly full": lambda case: _sizes(case) == case["bucket_bytes"],
        "never full": lambda case: _sizes(case) < case["bucket_bytes"],
        "one for each": lambda case: case["bucket_bytes"] == 8,
        "one rank": lambda case: case["num_ranks"] == 1,
    },
)


def _sizes(case: dict) -> int:
    """Bytes of all weights and biases."""
    pairs = zip(case["widths"], case["widths"][1:], strict=False)
    return sum(8 * (a + 1) * b for a, b in pairs)


SEED_LINE = "torch.manual_seed(seed)  # so that the run can be repeated"
MASKS = AnswerBank(
    function="backward_with_dropout",
    wrong=[
        Wrong(
            "the broken trainer",
            _broken("broken_8", "backward_with_dropout"),
            "What could their seeds differ by?",
        ),
        Wrong(
            "seeded on rank 0 alone",
            _broken(
                "broken_8",
                "backward_with_dropout",
                (SEED_LINE, "if comm.rank == 0: torch.manual_seed(seed)"),
            ),
            "Only rank 0 is seeded",
        ),
        Wrong(
            "seeded again by the rank in every step",
            _broken(
                "broken_8",
                "backward_with_dropout",
                (SEED_LINE, "pass"),
                (LOOP, f"{LOOP}\n        torch.manual_seed(1000 * seed + comm.rank)"),
            ),
            "How often should a run set its seed?",
        ),
        Wrong(
            "a number is drawn on each rank",
            _broken(
                "broken_8",
                "backward_with_dropout",
                (SEED_LINE, "torch.manual_seed(seed); torch.rand(comm.size)"),
            ),
            "What could their seeds differ by?",
        ),
        Wrong(
            "the gradients are not summed",
            _broken(
                "broken_8",
                "backward_with_dropout",
                (SEED_LINE, "torch.manual_seed(seed + comm.rank)"),
                ("comm.all_reduce(parameter.grad)", "pass"),
            ),
            "How often is each gradient summed?",
        ),
        Wrong(
            "rank 0 runs the passes of all ranks",
            """
            import torch

            def backward_with_dropout(comm, model, batches, seed):
                torch.manual_seed(seed + comm.rank)
                for each in model.parameters():
                    each.grad = torch.zeros_like(each)
                for batch in batches * (comm.size if comm.rank == 0 else 0):
                    share = batch.tensor_split(comm.size)[0]
                    (model(share).square().sum() / len(batch)).backward()
                for each in model.parameters():
                    comm.all_reduce(each.grad)
            """,
            "How often does each rank run the model?",
        ),
    ],
    right=[
        _broken(
            "broken_8",
            "backward_with_dropout",
            (SEED_LINE, "torch.manual_seed(seed * comm.size + comm.rank)"),
        ),
        _broken(
            "broken_8",
            "backward_with_dropout",
            (SEED_LINE, "pass"),
            (
                LOOP,
                "    for step, rows in enumerate(batches):\n"
                "        torch.manual_seed(10**6 * seed + 1000 * step + comm.rank)",
            ),
        ),
        _broken(
            "broken_8",
            "backward_with_dropout",
            (
                SEED_LINE,
                "seeds = torch.Generator().manual_seed(seed)\n"
                "    torch.manual_seed(int(torch.randint(2**60, (comm.size,), "
                "generator=seeds)[comm.rank]))",
            ),
        ),
    ],
    features={
        "several ranks and steps": lambda case: case["num_ranks"] > 2 and case["num_steps"] > 1,
        "one rank": lambda case: case["num_ranks"] == 1,
        "seed zero": lambda case: case["seed"] == 0,
        "another seed": lambda case: case["seed"] > 0,
    },
)

BANKS = {
    "u15-tied": TIED,
    "u15-hang": EMPTY,
    "u15-hooks": HOOKS,
    "u15-apart": START,
    "u15-clip": CLIP,
    "u15-scale": SCALE,
    "u15-drift": FLUSH,
    "u15-masks": MASKS,
}
