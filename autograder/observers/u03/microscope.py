"""What is observed of a counter of saved bytes, on programs that it has never seen."""

import gc
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.result_form import is_number
from autograder.observers.comparing import is_same
from autograder.observers.kept import gradients_of
from autograder.observers.tools import errors_as_data, undisturbed
from course_utils.instruments.preconditions import older_objects_frozen

RAISING, FREEING = "a call that raises", "a call that frees what is saved"
META, UNUSED = "tensors without memory", "a result that nobody uses"
NUM_FREED = 24  # storages one after the other, so that a new one may get the id of a freed one
MOST_HOOKS = 9  # that are looked for after an answer


class Program(NamedTuple):
    """A call, the parameters to leave out, the input that wants a gradient, and the mode.

    Backward runs after it if the result is used.
    """

    call: Callable[[], Tensor]
    parameters: Sequence[Tensor]
    x: Tensor
    is_recorded: bool = True
    is_used: bool = True


class CallRaised(RuntimeError):
    """Raised by a program on purpose; torch's own errors are of that kind, too."""


def _linear(x: Tensor, width: int) -> Program:
    layer = nn.Linear(x.shape[1], width, dtype=x.dtype)
    return Program(lambda: layer(x), list(layer.parameters()), x)


def _two_readers(x: Tensor, width: int) -> Program:
    first, second = (nn.Linear(x.shape[1], width, dtype=x.dtype) for _ in range(2))
    parameters = [*first.parameters(), *second.parameters()]
    return Program(lambda: first(x) + second(x), parameters, x)


def _transposed_weight(x: Tensor, width: int) -> Program:
    weight = nn.Parameter(torch.ones(x.shape[1], width, dtype=x.dtype))
    return Program(lambda: torch.relu(x.detach() @ weight), [weight], x)


def _part_of_a_weight(x: Tensor, width: int) -> Program:
    weight = nn.Parameter(torch.ones(x.shape[1] + width, width, dtype=x.dtype))
    return Program(lambda: x @ weight[width:], [weight], x)


def _chain(x: Tensor, width: int) -> Program:
    layers = nn.Sequential(
        nn.Linear(x.shape[1], width, dtype=x.dtype),
        nn.GELU(),
        nn.Linear(width, x.shape[1], dtype=x.dtype),
        nn.Softmax(-1),
    )
    return Program(lambda: layers(x), list(layers.parameters()), x)


def _view(x: Tensor, width: int) -> Program:
    large = torch.ones(x.shape[0], x.shape[1] + width, dtype=x.dtype, requires_grad=True)
    return Program(lambda: torch.square((large * 1)[:, : x.shape[1]]), [], large)


def _two_views(x: Tensor, width: int) -> Program:
    def call() -> Tensor:
        left, right = (x * 1).chunk(2, dim=1)
        return left * right

    return Program(call, [], x)


def _first_row(x: Tensor, width: int) -> Program:
    def call() -> Tensor:
        whole = x * 1
        return whole[:1] * whole

    return Program(call, [], x)


def _equal_numbers(x: Tensor, width: int) -> Program:
    weight = nn.Parameter(torch.ones_like(x))
    return Program(lambda: (x * weight).exp() + (x * 1).exp(), [weight], x)


def _no_gradient(x: Tensor, width: int) -> Program:
    return Program(lambda: x.detach().exp().square(), [], x)


def _raising(x: Tensor, width: int) -> Program:
    def call() -> Tensor:
        raise CallRaised(f"a call on {x.exp().shape} fails")

    return Program(call, [], x)


def _whole_numbers(x: Tensor, width: int) -> Program:
    rows = torch.arange(x.shape[0]).flip(0)
    hidden = torch.zeros(x.shape, dtype=torch.bool)
    return Program(lambda: F.embedding(rows, x * 1).masked_fill(hidden, 0).exp(), [], x)


def _not_recorded(x: Tensor, width: int) -> Program:
    layer = nn.Linear(x.shape[1], width, dtype=x.dtype)
    return Program(lambda: layer(x).exp(), list(layer.parameters()), x, is_recorded=False)


def _on_meta(x: Tensor, width: int) -> Program:
    layer = nn.Linear(x.shape[1], width, dtype=x.dtype, device="meta")
    x = x.detach().to("meta").requires_grad_()
    return Program(lambda: layer(x).exp().softmax(-1), list(layer.parameters()), x)


def _unused(x: Tensor, width: int) -> Program:
    def call() -> Tensor:
        return (x * width).exp()

    return Program(call, [], x, is_used=False)


def _freeing(x: Tensor, width: int) -> Program:
    def call() -> Tensor:
        for number in range(NUM_FREED):
            part = (x.detach() - number).requires_grad_()
            with suppress(Exception):  # of the student's hooks: backward after the call shows them
                part.exp().sum().backward()
        return (x * 1).exp()

    return Program(call, [], x)


PROGRAMS: dict[str, Callable[[Tensor, int], Program]] = {
    "one linear layer": _linear,
    "two layers read one input": _two_readers,
    "a weight and its transpose": _transposed_weight,
    "a part of a weight": _part_of_a_weight,
    "a chain of layers": _chain,
    "a part of a large tensor": _view,
    "two halves of one tensor": _two_views,
    "a tensor and its first row": _first_row,
    "equal numbers in several tensors": _equal_numbers,
    "no gradient required": _no_gradient,
    "indices and a mask": _whole_numbers,
    "grad is disabled": _not_recorded,
    UNUSED: _unused,
    META: _on_meta,
    FREEING: _freeing,
    RAISING: _raising,
}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def program_of(program: str, rows: int, columns: int, width: int, dtype: str) -> Program:
    """The program that a case names, with the same weights every time."""
    with undisturbed():
        torch.default_generator.manual_seed(rows + columns + width)
        x = torch.ones(rows, columns, dtype=DTYPES[dtype], requires_grad=True)
        return PROGRAMS[program](x, width)


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any] | None:
    """What the student's counter returns for a program, and what it leaves behind.

    Backward runs from the result of the call that the counter made; None if it fails. An error
    where tensors have no memory is no other than to have no answer there.
    """
    program = program_of(**case)
    results: list[Tensor | None] = []

    def call() -> Tensor:
        results.append(None)
        result = results[-1] = program.call()
        return result

    given = [*program.parameters]
    returned: dict[str, object] = {}
    watch = _HookWatch()
    with watch:
        try:
            with torch.set_grad_enabled(program.is_recorded):
                num_bytes = answer(call, given)
            if num_bytes is None and case["program"] != RAISING:
                return None
            returned = {"bytes": num_bytes}
        except CallRaised:
            pass
        except Exception:
            if case["program"] != META:
                raise
        finally:
            hooks_left = watch.pop_others()
    num_calls = len(results)
    try:
        gradients = gradients_after(results[0] if results else None, program)
    except Exception:  # of the student's hooks
        gradients = None
    is_over = bool(gradients) or not program.is_used
    return returned | {
        "is_held": case["program"] != META and is_over and _outlives(results),
        "calls": num_calls,
        "hooks_left": hooks_left,
        "gradients": gradients,
        "list_changed": list(map(id, given)) != list(map(id, program.parameters)),
    }


def _outlives(results: list[Tensor | None]) -> bool:
    """Whether the memory of the first result stays when nobody here holds the results any more.

    Asked after backward has freed the graph, or if nobody holds the graph either: before, the
    result may be saved in it.
    """
    if not results or results[0] is None:
        return False
    memory = StorageWeakRef(results[0].untyped_storage())
    results.clear()
    if not memory.expired():
        with older_objects_frozen():
            gc.collect()
    return not memory.expired()


class _HookWatch(saved_tensors_hooks):
    """Hooks below those of an answer: they see a new tensor only if no others are left on top."""

    def __init__(self) -> None:
        super().__init__(self._see, lambda tensor: tensor)
        self.num_seen = 0

    def _see(self, tensor: Tensor) -> Tensor:
        self.num_seen += 1
        return tensor

    def pop_others(self) -> int:
        """Take away the hooks that lie on top; return how many there were."""
        for num_others in range(MOST_HOOKS):
            self.num_seen = 0
            with torch.enable_grad():
                torch.ones(1, requires_grad=True).exp()
            if self.num_seen:
                return num_others
            # This takes away the hooks on top, whoever has set them.
            super().__exit__()
        return MOST_HOOKS


def gradients_after(result: Tensor | None, program: Program) -> list[Tensor | None]:
    """What backward gives from the result of a call; nothing where it leads nowhere."""
    if result is None or not result.requires_grad or not program.is_used:
        return []
    inputs = [program.x, *program.parameters]
    return [None] * len(inputs) if result.is_meta else gradients_of(result, inputs)


def right_gradients(case: Case) -> list[Tensor | None]:
    """What backward gives where nobody watches the program.

    It is run anew on each machine: what is rounded to eight bits differs from one to the next.
    """
    program = program_of(**case)
    if case["program"] == RAISING:
        return []
    with torch.set_grad_enabled(program.is_recorded):
        result = program.call()
    return gradients_after(result, program)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Bytes, calls and hooks as they are; backward's gradients beside the right ones."""
    ours, theirs = observed["gradients"], right_gradients(case)
    pairs = zip(ours or [], theirs, strict=False)
    has_bytes, num_bytes = "bytes" in right, observed.get("bytes")  # none where the call raises
    needs_memory = has_bytes and num_bytes is None
    # By id, a new storage may be taken for one that was freed. How often that happens is chance,
    # so that such a count is reported as wrong without its number.
    is_miscounted = (
        case["program"] == FREEING and is_number(num_bytes) and num_bytes not in (0, right["bytes"])
    )
    found = [
        Fact(
            "calls",
            observed["calls"],
            "how often `call` runs",
            "Which of your lines run `call`, and are the hooks in place then?",
        ),
        Fact(
            "hooks_left",
            observed["hooks_left"],
            "hooks still installed after your function",
            "What removes your hooks, even if `call` raises?",
        ),
        Fact(
            "swallowed_errors",
            int(case["program"] == RAISING and "bytes" in observed),
            "errors of `call` that your function hides",
            "What happens in your function after `call` has raised an error, and which statement "
            "keeps the error from going on?",
        ),
        Fact(
            "failed_backwards",
            int(ours is None),
            "backward passes that fail after your function",
            "What does backward get from your two hooks in place of a saved tensor, and is the "
            "result's graph still whole when your function is over?",
        ),
        Fact(
            "lost_graphs",
            int(ours == [] and theirs != [] and not needs_memory),
            "results that lost their graph",
            "In which grad mode does your function run `call`, and does it change the result "
            "afterwards?",
        ),
        Fact(
            "wrong_gradients",
            int(not all(_is_right(one, other) for one, other in pairs)),
            "backward passes with wrong gradients",
            "Are the numbers that your unpack hook returns those that your pack hook got, and does "
            "your function itself put anything into a gradient?",
        ),
        Fact(
            "list_changed",
            int(observed["list_changed"]),
            "changes of the list `parameters`",
            "Which of your lines changes the list `parameters` itself, and what else may be using "
            "that list?",
        ),
        Fact(
            "held",
            int(observed["is_held"]),
            "results that are still in memory afterwards",
            "What still refers to the result's memory when your function is over: something that "
            "you stored, or what your pack hook returned?",
        ),
        Fact(
            "needs_memory",
            int(needs_memory),
            "errors where tensors have no memory",
            "On the meta device a tensor has a shape, a type and a storage with a size, but no "
            "numbers. Which of your lines asks for more than that?",
        ),
        Fact(
            "miscounted_freed",
            int(is_miscounted),
            "wrong counts where storages are freed during the call",
            "Some storages are freed before `call` is over, and new ones come after them. By what "
            "do you tell saved storages apart, and does that stay true for one that is freed?",
        ),
    ]
    if has_bytes:
        found.append(
            Fact(
                "bytes",
                right["bytes"] if needs_memory or is_miscounted else num_bytes,
                ask="Print each tensor that your hook sees. Which of them share one storage, and "
                "which lie in the storage of a parameter?",
            )
        )
    return found


def _is_right(ours: Tensor | None, theirs: Tensor | None) -> bool:
    return ours is theirs if ours is None or theirs is None else is_same(ours, theirs)
