"""What is observed of micro-batches on each rank that are exchanged together."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data, length_of, undisturbed
from autograder.observing.replay import replay
from autograder.observing.u09.backward_steps import (
    changes_model,
    gradients_of,
    job_of,
    num_wrong,
    state_of,
)
from autograder.observing.u09.on_ranks import record_on_cluster
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


def summarise(case: Case, observed: Plain, right: Plain) -> Plain:
    """Passes, gradients and collectives; passes are those of rank 0."""
    run, forged_calls = replay(observed["logs"], job_of(case).cluster())
    gradients, log = observed["gradients"], observed["passes"][0]
    kinds, order = [kind for kind, _ in log], [number for kind, number in log if kind == "forward"]
    is_inside = accumulate((kind == "into trainer") - (kind == "out of trainer") for kind in kinds)
    waiting = accumulate((kind == "forward") - (kind == "backward") for kind in kinds)
    return {
        "forged_calls": forged_calls,
        "at_once": max(1, *waiting) if log else 1,
        "forward_passes": len(order),
        "out_of_order": sum(one > other for one, other in pairwise(order)),
        "gradient_length": length_of(gradients[0]),
        "wrong_gradients": num_wrong(gradients, right["gradients"]),
        "trainer_calls": kinds.count("into trainer"),
        "in_trainer": sum(
            inside and kind == "backward" for inside, kind in zip(is_inside, kinds, strict=True)
        ),
        "backward_passes": kinds.count("backward"),
        "collectives": len(run.communications()),
        "changes_list": int(any(each != right["list"] for each in observed["lists"])),
        "changes_model": changes_model(observed["states"], right["state"]),
    }
