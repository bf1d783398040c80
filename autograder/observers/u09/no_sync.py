"""What is observed of micro-batches on each rank that are exchanged together."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.backward_steps import (
    changes_model,
    gradient_length,
    gradients_of,
    job_of,
    num_wrong,
    state_of,
    wrong_gradients,
)
from autograder.observers.on_ranks import record_on_cluster
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of, undisturbed
from course_utils.distributed import Comm, Handle


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Gradients, calls, lists, and passes of each rank: of a micro-batch, or into the trainer."""
    job = job_of(case)
    models = [job.model() for _ in range(job.num_ranks)]
    passes: list[list[tuple[str, int]]] = [[] for _ in models]
    lists: list[list[int | None]] = [[] for _ in models]

    def step(comm: Comm) -> None:
        model, log = models[comm.rank], passes[comm.rank]

        def micro_batch(number: int) -> Tensor:
            loss = job.loss(model, comm.rank, number)
            log.append(("forward", number))
            loss.register_hook(lambda gradient: log.append(("backward", number)))
            return loss

        def backward(comm: Comm, model: nn.Module, loss: Tensor) -> None:
            log.append(("into trainer", 0))
            TRAINERS[case["trainer"]](comm, model, loss)
            log.append(("out of trainer", 0))

        given = [partial(micro_batch, n) for n in range(case["num_micro_batches"])]
        number_of = {id(each): n for n, each in enumerate(given)}
        passed = given.copy()
        answer(comm, model, passed, backward)
        lists[comm.rank] = [number_of.get(id(each)) for each in passed]

    with undisturbed():
        recorded = record_on_cluster(job.cluster(), step)
    return {
        "logs": recorded.logs,
        "passes": passes,
        "lists": lists,
        "gradients": [gradients_of(model) for model in models],
        "states": [state_of(model) for model in models],
    }


def _call_for_each(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    loss.backward()
    for parameter in model.parameters():
        comm.all_reduce(parameter.grad)  # type: ignore[arg-type]


def _calls_in_hooks(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    calls: list[Handle] = []

    def hook(parameter: Tensor) -> None:
        assert parameter.grad is not None
        calls.append(comm.all_reduce(parameter.grad, async_op=True))

    hooks = [each.register_post_accumulate_grad_hook(hook) for each in model.parameters()]
    loss.backward()
    for each in hooks:
        each.remove()
    for call in calls:
        call.wait()


TRAINERS: Mapping[str, Callable[[Comm, nn.Module, Tensor], None]] = {
    "one call for each": _call_for_each,
    "calls in hooks": _calls_in_hooks,
}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Passes, gradients and collectives; passes are those of rank 0."""
    run, forged_calls = replay(observed["logs"], job_of(case).cluster())
    gradients, log = observed["gradients"], observed["passes"][0]
    kinds, order = [kind for kind, _ in log], [number for kind, number in log if kind == "forward"]
    is_inside = accumulate((kind == "into trainer") - (kind == "out of trainer") for kind in kinds)
    waiting = accumulate((kind == "forward") - (kind == "backward") for kind in kinds)
    return [
        forged(forged_calls),
        Fact(
            "at_once",
            max(1, *waiting) if log else 1,
            "micro-batches in memory at once",
            "When a micro-batch runs forward, which of those before it have not run backward yet?",
        ),
        Fact(
            "forward_passes",
            len(order),
            "forward passes",
            "How often do you call each function in the list, from the first to the last?",
        ),
        Fact(
            "out_of_order",
            sum(one > other for one, other in pairwise(order)),
            "micro-batches that run after one which follows them in the list",
            "In which order do you call the functions, and in which order do they stand in the "
            "list?",
        ),
        gradient_length(
            length_of(gradients[0]),
            "Which micro-batches are in `grad` when the given `backward` sums it over all ranks, "
            "and what else scales it or sums it?",
        ),
        wrong_gradients(
            num_wrong(gradients, right["gradients"]),
            "Rank 0's gradient has the right length. Does every rank exchange the sum of all its "
            "micro-batches, and do all ranks end with the same numbers?",
        ),
        Fact(
            "trainer_calls",
            kinds.count("into trainer"),
            "calls of the trainer",
            "How often do you call the given `backward`, and after which micro-batches do the "
            "ranks need one another's gradients?",
        ),
        Fact(
            "in_trainer",
            sum(
                inside and kind == "backward" for inside, kind in zip(is_inside, kinds, strict=True)
            ),
            "micro-batches that run backward in the trainer",
            "Which loss do you hand to the given `backward`, and which micro-batches went into "
            "that loss?",
        ),
        Fact(
            "backward_passes",
            kinds.count("backward"),
            "backward passes through micro-batches",
            "How often does backward run through the loss of each micro-batch, and what starts it: "
            "a line of yours or the given `backward`?",
        ),
        Fact(
            "collectives",
            len(run.communications()),
            ask="Which collectives does the given `backward` call by itself, and which come from "
            "your own lines?",
        ),
        Fact(
            "changes_list",
            int(any(each != right["list"] for each in observed["lists"])),
            "The list of micro-batches is not as it was before.",
            "Which of your lines puts something into `micro_batches` or takes something out, and "
            "whose list is it?",
        ),
        changes_model(observed["states"], right["state"]),
    ]
