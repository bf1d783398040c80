"""Check of the student's counter of saved bytes, on programs that it has never seen."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u03.shared.counters import COUNTERS
from autograder.observing.u03 import microscope
from autograder.observing.u03.microscope import (
    FREEING,
    NUM_FREED,
    PROGRAMS,
    RAISING,
    program_of,
)
from course_utils.instruments import count_saved_bytes


def microscope_cases(seed: int) -> list[Case]:
    """Every program, in bf16 and fp32, on unequal sizes."""
    rng = random.Random(seed)
    return [
        {
            "program": program,
            "rows": rng.randint(2, 9),
            "columns": 2 * rng.randint(2, 9),
            "width": rng.randrange(3, 19, 2),
            "dtype": dtype,
        }
        for dtype in ("fp32", "bf16")
        for program in PROGRAMS
    ]


def measured(**case: Any) -> dict[str, Any]:
    """What the course's instrument counts for the same program, and that nothing else changes."""
    nothing_changed = dict.fromkeys(
        (
            "hooks_left",
            "swallowed_errors",
            "failed_backwards",
            "lost_graphs",
            "wrong_gradients",
            "list_changed",
            "held",
            "needs_memory",
            "miscounted_freed",
        ),
        0,
    )
    program = program_of(**case)
    if case["program"] == RAISING:
        return {"calls": 1, **nothing_changed}
    with torch.set_grad_enabled(program.is_recorded):
        num_bytes = count_saved_bytes(program.call, *program.parameters).total_bytes
    if case["program"] == FREEING:  # the instrument leaves out what is freed before the call ends
        num_bytes *= NUM_FREED + 1
    return {"calls": 1, **nothing_changed, "bytes": num_bytes}


# Places of the model answer.
LEAVE_OUT = "{each.untyped_storage()._cdata for each in parameters}"
KNOWN, KEY, STORE = "storage._cdata not in leave_out", "storages[storage._cdata]", "= storage\n"
PACKED, UNPACKED, SUM = (
    "return tensor.detach()\n",
    "lambda tensor: tensor",
    "storage.nbytes() for storage",
)
WITH, CALL = (
    "with saved_tensors_hooks(pack, lambda tensor: tensor):\n        call()",
    "        call()",
)
EACH_TIME = {KEY: "storages[len(storages)]"}
BY_TENSOR = {KEY: "storages[tensor]"}  # as by its `id`, which a later object may get again

SUBTRACTED = {
    LEAVE_OUT: "set()",
    "return sum(": "return -sum(each.nbytes for each in parameters) + sum(",
}
BY_ID = {LEAVE_OUT: "{id(each) for each in parameters}", KNOWN: "id(tensor) not in leave_out"}

BYTES, GRADIENTS = ("bytes", "needs_memory", "miscounted_freed"), ("wrong_gradients",)
SHOWN = "tensor.numel() * tensor.element_size()"


def _sizes(size: str, **others: str) -> dict[str, str]:
    """An answer that adds up some size of each tensor."""
    return {STORE: f"= {size}\n", SUM: "storage for storage", **others}


TWICE = (
    "Your function runs `call` twice. What does a second forward pass cost, and what does it do "
    "to a model with dropout?"
)
HANDED_BACK = (
    "After your function, backward through the call's result fails. What does autograd keep in "
    "place of a tensor, and what do your two hooks return?"
)
ADDRESSES = (
    "You count two views of one storage twice where they start at different places. What do "
    "they have in common, wherever they start?"
)
EACH_COUNTS = (
    "You count a storage each time it is saved. When two operations save the same tensor, how "
    "often is it in memory?"
)
WEIGHTS = (
    "Your sum includes the weights. A hook gets a different tensor object from the one in "
    "`parameters`, often a transposed view: what do the two have in common?"
)
WEIGHTS_AND_EACH = (
    "Your sum includes the weights, and counts a storage each time it is saved. A hook gets a "
    "new tensor object each time: what do two on the same memory have in common?"
)
BY_ADDRESS = "each.untyped_storage().data_ptr() for each in parameters"
EDITS = (  # those that go wrong in one program are asked about first
    Edit(
        "Not all that autograd keeps are numbers with a fraction. Of which type are the indices of "
        "an embedding, and what keeps a mask?",
        {KNOWN: f"tensor.is_floating_point() and {KNOWN}"},
        shows=BYTES,
    ),
    Edit(
        "Grad was disabled when your function was called, and in it something is saved. Who has "
        "enabled it?",
        {CALL: "        with torch.enable_grad():\n            call()"},
        shows=BYTES,
    ),
    *(
        Edit(
            "On the meta device no storage has memory, and all have one address. Which number "
            "tells two of them apart?",
            pieces,
            shows=BYTES,
        )
        for pieces in (
            {KEY: "storages[storage.data_ptr()]"},
            {LEAVE_OUT: f"{{{BY_ADDRESS}}}", KNOWN: "storage.data_ptr() not in leave_out"},
            {
                LEAVE_OUT: f"{{{BY_ADDRESS}}}",
                KNOWN: "storage.data_ptr() not in leave_out",
                KEY: "storages[storage.data_ptr()]",
            },
        )
    ),
    *(
        Edit(
            "A storage is freed within the call, and a new one gets its id. What must you hold as "
            "long as you compare ids?",
            pieces,
            shows=BYTES,
        )
        for pieces in (
            _sizes("storage.nbytes()"),
            _sizes("storage.nbytes()", **{KEY: "storages[storage.data_ptr()]"}),
        )
    ),
    Edit(
        "Where tensors have no memory, as on the meta device, your function raises an error. What "
        "does it read there, and does a count of bytes need it?",
        {PACKED: f"tensor.tolist()\n        {PACKED}"},
        shows=("needs_memory",),
    ),
    Edit(
        "A result that backward never reaches stays in memory for good. What does the node that "
        "made it hold in place of it, and does that lead back to the node?",
        {PACKED: "return tensor\n"},
        shows=("held",),
    ),
    Edit(
        "What your function has counted stays in memory after it. Who still holds it, and for how "
        "long?",
        {"storages = {}": "storages = saved_bytes.storages = {}"},
        shows=("held",),
    ),
    Edit(
        "Your function never runs `call`. When would autograd save anything?",
        {CALL: "        pass"},
        shows=("calls",),
    ),
    Edit(TWICE, {CALL: "        call(), call()"}, shows=("calls",)),
    Edit(TWICE, {"storages = {}": "storages, result = {}, call()"}, shows=("calls",)),
    Edit(
        "Where `call` raises an error, your hooks stay installed. Which statement removes them "
        "no matter how it ends?",
        {
            WITH: "hooks = saved_tensors_hooks(pack, lambda tensor: tensor)\n"
            "    hooks.__enter__()\n    call()\n    hooks.__exit__()"
        },
        shows=("hooks_left",),
    ),
    Edit(
        "Your hooks are still installed after your function, and see what others save. Who "
        "removes them, and when?",
        {WITH: "saved_tensors_hooks(pack, lambda tensor: tensor).__enter__()\n    call()"},
        shows=("hooks_left",),
    ),
    Edit(
        "Where `call` raises an error, your function hides it. Who should hear of it?",
        {CALL: "        try:\n            call()\n        except Exception:\n            pass"},
        shows=("swallowed_errors",),
    ),
    Edit(HANDED_BACK, {PACKED: "pass\n"}, shows=("failed_backwards",)),
    Edit(HANDED_BACK, {UNPACKED: "lambda tensor: None"}, shows=("failed_backwards",)),
    Edit(HANDED_BACK, {PACKED: "return storage\n"}, shows=("failed_backwards",)),
    Edit(
        "After your function, backward through the call's result gives wrong gradients. What "
        "does it get from your unpack hook?",
        {UNPACKED: "lambda tensor: torch.zeros_like(tensor)"},
        shows=GRADIENTS,
    ),
    Edit(
        "Your function changes the list `parameters`. Who else may still need it, and what "
        "could you change instead?",
        {LEAVE_OUT: "{parameters.pop().untyped_storage()._cdata for _ in [*parameters]}"},
        shows=("list_changed",),
    ),
    Edit(
        "Your sum includes a weight where a view of it starts at another place. What do a "
        "tensor and all its views have in common?",
        {
            LEAVE_OUT: "{each.data_ptr() for each in parameters}",
            KNOWN: "tensor.data_ptr() not in leave_out",
        },
        shows=BYTES,
    ),
    Edit(
        ADDRESSES,
        {
            LEAVE_OUT: "{each.data_ptr() for each in parameters}",
            KNOWN: "tensor.data_ptr() not in leave_out",
            KEY: "storages[tensor.data_ptr()]",
        },
        shows=BYTES,
    ),
    Edit(ADDRESSES, {KEY: "storages[tensor.data_ptr()]"}, shows=BYTES),
    Edit(
        "You tell tensors apart, so two on the same memory count twice. What do two views of "
        "one storage have in common, each a Python object of its own?",
        BY_TENSOR,
        shows=BYTES,
    ),
    Edit(EACH_COUNTS, EACH_TIME, shows=BYTES),
    *(
        Edit(
            "You take two storages for one where they agree in shape, size or numbers. What "
            "tells one piece of memory from another?",
            {KEY: f"storages[{likeness}]"},
            shows=BYTES,
        )
        for likeness in ("tensor.shape", "storage.nbytes()", "str(tensor.tolist())")
    ),
    Edit(WEIGHTS, {LEAVE_OUT: "set()"}, shows=BYTES),
    Edit(WEIGHTS, BY_ID, shows=BYTES),
    Edit(WEIGHTS_AND_EACH, {LEAVE_OUT: "set()", **EACH_TIME}, shows=BYTES),
    Edit(WEIGHTS_AND_EACH, {**BY_ID, **BY_TENSOR}, shows=BYTES),
    *(
        Edit(
            "You leave out what agrees with a weight in shape, size or numbers. What do two "
            "tensors on the same memory have in common, whatever is written there?",
            {KNOWN: f"not any({likeness} for p in parameters)"},
            shows=BYTES,
        )
        for likeness in (
            "p.shape == tensor.shape and p.equal(tensor)",
            "p.nbytes == storage.nbytes()",
            "tensor.shape in (p.shape, p.shape[::-1])",
        )
    ),
    Edit(
        "You leave out all leaf tensors. Is every leaf a weight, and is a transposed weight a "
        "leaf?",
        {KNOWN: "not tensor.is_leaf"},
        shows=BYTES,
    ),
    Edit(
        "Nothing is saved when your function runs `call`. What decides whether autograd saves "
        "anything?",
        {CALL: "        with torch.no_grad():\n            call()"},
        shows=("lost_graphs",),
    ),
    Edit(
        "You count only what a view shows. What stays in memory as long as one view of it is kept?",
        _sizes(SHOWN),
        shows=BYTES,
    ),
    *(
        Edit(
            "Your sum includes weights, and counts only what each view shows. What do a tensor "
            "and all its views have in common, and how much of it stays as long as one of them "
            "is kept?",
            pieces,
            shows=BYTES,
        )
        for pieces in (
            _sizes(SHOWN, **EACH_TIME, **{LEAVE_OUT: "set()"}),
            _sizes(SHOWN, **{LEAVE_OUT: "set()"}),
            _sizes(SHOWN, **BY_ID),
            _sizes(SHOWN, **BY_ID, **BY_TENSOR),
        )
    ),
    *(
        Edit(
            "You subtract all parameters from what is saved. Is every parameter saved?",
            pieces,
            shows=BYTES,
        )
        for pieces in (
            _sizes(SHOWN, **EACH_TIME, **SUBTRACTED),
            _sizes(SHOWN, **SUBTRACTED),
            EACH_TIME | SUBTRACTED,
            SUBTRACTED,
        )
    ),
    Edit(
        "You count what each view shows, each time. Which views share a storage?",
        _sizes(SHOWN, **EACH_TIME),
        shows=BYTES,
    ),
    *(
        Edit(
            "You count numbers. How many bytes does each of them take?",
            _sizes("tensor.numel()", **each_time),
            shows=BYTES,
        )
        for each_time in ({}, EACH_TIME)
    ),
    *(
        Edit(
            "You assume four bytes per number. Which method of a tensor knows better?",
            _sizes(size, **each_time),
            shows=BYTES,
        )
        for size in ("4 * tensor.numel()",)
        for each_time in ({}, EACH_TIME)
    ),
    *(
        Edit(
            "You count tensors. How large is each of them?",
            _sizes("1", **each_time),
            shows=BYTES,
        )
        for each_time in ({}, EACH_TIME)
    ),
)

CHECK = Check(
    cases=microscope_cases,
    observe=microscope.observe,
    judge=Behaviour(
        measured,
        *edited("u03-microscope", EDITS, observe=microscope.observe),
        summarise=microscope.summarise,
        questions={
            "calls": "How often does `call` run, and what is true of it while it does?",
            "hooks_left": "Who takes your hooks away, also where `call` raises?",
            "bytes": "Print each tensor that the hook sees. Which of them have one storage, which "
            "is a parameter's, and which is freed again?",
        },
        labels={
            "calls": "how often `call` runs",
            "hooks_left": "hooks still installed after your function",
            "swallowed_errors": "errors of `call` that your function hides",
            "failed_backwards": "backward passes that fail after your function",
            "lost_graphs": "results that lost their graph",
            "wrong_gradients": "backward passes with wrong gradients",
            "list_changed": "changes of the list `parameters`",
            "held": "results that are still in memory afterwards",
            "needs_memory": "errors where tensors have no memory",
            "miscounted_freed": "wrong counts where storages are freed during the call",
        },
    ),
    fallback="course_utils.instruments.saved_bytes.saved_bytes",
    answers=COUNTERS,
)
