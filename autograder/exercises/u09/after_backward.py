"""Checks of gradients summed after the backward pass: one call for each parameter, or for all."""

import functools
import random
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.counted_layers import tells_errors
from autograder.exercises.u09.on_ranks import FLOAT64_BYTES, ROUNDING, most_calls, on_ranks
from course_utils.distributed import NullComm
from course_utils.instruments import trace_memory
from course_utils.reference.gradient_sync import backward_each, backward_flat

SCENARIOS = ("all used", "unused on a rank", "frozen", "gradients before")
FLAT_SCENARIOS = (*SCENARIOS, "memory")
NUM_CASES = 20

CALLS, BYTES = "calls to the other ranks", "bytes in these calls"
LENGTH = "the length of the gradient"
FROZEN = "frozen parameters with a gradient"
WRONG = "ranks without the gradient of the whole batch"
EMPTY = "gradients that are None afterwards"
AT_PEAK, AFTER = "sets of gradients at the peak", "sets of gradients afterwards"

# The gradients and one buffer; whoever needs less does no harm.
SETS_AT_PEAK = 2


class _Net(nn.Module):
    """Layers of unlike shapes in a row, and one beside them that a rank may leave out."""

    def __init__(self, scenario: str, width: int, num_layers: int) -> None:
        super().__init__()
        torch.default_generator.manual_seed(width)
        widths = range(width, width + num_layers + 1)
        layers = [nn.Linear(w, w + 1, dtype=torch.float64) for w in widths[:-1]]
        self.layers = nn.ModuleList(layers)
        self.beside = nn.Linear(widths[0], widths[-1], dtype=torch.float64)
        layers[0].requires_grad_(scenario != "frozen")

    def forward(self, x: Tensor, is_beside_used: bool) -> Tensor:
        out = x
        for layer in self.layers:
            out = layer(out)
        return out + self.beside(x) if is_beside_used else out


def _net(case: Case) -> _Net:
    return _Net(case["scenario"], case["width"], case["num_layers"])


def _shares(model: nn.Module, case: Case, rank: int) -> list[Tensor]:
    """Losses of a rank, of which all but the last were accumulated before; other ones on each."""
    width, num_ranks = case["width"], case["num_ranks"]
    generator = torch.Generator().manual_seed(100 * width + rank)
    is_used = case["scenario"] != "unused on a rank" or rank % 2 == 1
    num_losses = 2 if case["scenario"] == "gradients before" else 1
    shape = (num_losses, rank + 1, width)
    inputs = torch.randn(shape, generator=generator, dtype=torch.float64)
    return [model(x, is_used).square().sum() / num_ranks for x in inputs]


def _prepared(case: Case, rank: int) -> tuple[nn.Module, Tensor]:
    """A model with what it accumulated, and the loss that comes next."""
    model = _net(case)
    *before, loss = _shares(model, case, rank)
    for each in before:
        each.backward()
    return model, loss


def _gradient(model: nn.Module) -> Tensor:
    """As one vector, with zeros for what is None."""
    parts = [
        each.new_zeros(each.shape) if each.grad is None else each.grad
        for each in model.parameters()
    ]
    return torch.cat([each.detach().flatten() for each in parts])


@functools.lru_cache(maxsize=512)
def _whole(*values: Any) -> Tensor:
    """Of the whole batch, on one rank."""
    case = _case(*values)
    model = _net(case)
    for rank in range(case["num_ranks"]):
        for loss in _shares(model, case, rank):
            loss.backward()
    return _gradient(model)


@functools.lru_cache(maxsize=512)
def _last(*values: Any) -> Tensor:
    """Of the whole batch without what was accumulated before."""
    case = _case(*values)
    model = _net(case)
    for rank in range(case["num_ranks"]):
        _shares(model, case, rank)[-1].backward()
    return _gradient(model)


def _before(*values: Any, on_all: bool = False) -> Tensor:
    """What was accumulated before the call, on rank 0 alone or on all ranks."""
    case = _case(*values)
    model = _net(case)
    for rank in range(case["num_ranks"] if on_all else 1):
        for loss in _shares(model, case, rank)[:-1]:
            loss.backward()
    return _gradient(model)


@functools.lru_cache(maxsize=512)
def _own(*values: Any) -> Tensor:
    """Of rank 0 alone."""
    model, loss = _prepared(_case(*values), rank=0)
    loss.backward()
    return _gradient(model)


@tells_errors
def observe(answer: Any, case: Case) -> object:
    """Gradients of all ranks, and what was communicated for them."""
    return _observed(answer, case)


def _observed(answer: Any, case: Case) -> dict[str, float]:
    prepared = [_prepared(case, rank) for rank in range(case["num_ranks"])]
    run = on_ranks(case["num_ranks"], lambda comm: answer(comm, *prepared[comm.rank]))
    gradients = [_gradient(model) for model, _ in prepared]
    whole = _whole(*case.values())
    frozen = (each for each in prepared[0][0].parameters() if not each.requires_grad)
    trained = [p for model, _ in prepared for p in model.parameters() if p.requires_grad]
    near = (torch.allclose(each, whole, rtol=ROUNDING, atol=ROUNDING) for each in gradients)
    return {
        EMPTY: sum(each.grad is None for each in trained),
        CALLS: most_calls(run),
        BYTES: sum(each.num_bytes for each in run.communications()),
        LENGTH: float(gradients[0].norm()),
        FROZEN: sum(each.grad is not None for each in frozen),
        WRONG: sum(not each for each in near),
    }


def _sizes(scenario: str, num_ranks: int, width: int, num_layers: int) -> list[int]:
    """Elements of each parameter that wants a gradient."""
    parameters = _Net(scenario, width, num_layers).parameters()
    return [each.numel() for each in parameters if each.requires_grad]


def wanted_of_each(**case: Any) -> dict[str, float]:
    """The gradient of the whole batch, and a call for each parameter."""
    sizes = _sizes(**case)
    return {
        EMPTY: 0,
        CALLS: len(sizes),
        BYTES: FLOAT64_BYTES * sum(sizes),
        LENGTH: float(_whole(*case.values()).norm()),
        FROZEN: 0,
        WRONG: 0,
    }


def wanted_of_flat(**case: Any) -> dict[str, float]:
    """The same in one call, with one buffer beside the gradients."""
    memory = {AT_PEAK: SETS_AT_PEAK, AFTER: 1}
    return wanted_of_each(**case) | {CALLS: 1} | memory


def cases_of(scenarios: tuple[str, ...], seed: int) -> list[Case]:
    """Each scenario on one rank to four; memory with layers that are large beside their inputs."""
    rng = random.Random(seed)
    cases = [_case("all used", 2, 3, 2)]
    for scenario in scenarios:
        first = 2 if scenario == "unused on a rank" else 1  # alone nobody else has a gradient
        for num_ranks in (first, 2, 4, 2, 3)[: NUM_CASES // len(scenarios)]:
            width = rng.randint(16, 24) if scenario == "memory" else rng.randint(2, 6)
            cases.append(_case(scenario, num_ranks, width, 1 + (num_ranks == 2)))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(("scenario", "num_ranks", "width", "num_layers"), values, strict=True))


@tells_errors
def observe_flat(answer: Any, case: Case) -> object:
    """The same, and how many sets of gradients are there at once."""
    seen = _observed(answer, case)
    at_peak, after = SETS_AT_PEAK, 1
    if case["scenario"] == "memory":
        model, loss = _prepared(case, rank=0)

        def step() -> None:
            answer(NullComm(), model, loss)
            torch.zeros(())  # what the answer let go of is gone by then

        trace = trace_memory(step, model, loss)
        a_set = FLOAT64_BYTES * sum(_sizes(**case))
        before = trace.total_bytes[0]
        at_peak = max(at_peak, round((trace.peak_bytes - before) / a_set))
        after = round((trace.total_bytes[-1] - before) / a_set)
    return seen | {AT_PEAK: at_peak, AFTER: after}


def _all_sizes(*values: Any) -> list[int]:
    """Elements of each parameter, the frozen ones too."""
    return _sizes("all used", *values[1:])


HALF_OF_THE_BYTES = Mistake(
    "Half of the bytes. Which precision has what you send, and which have the gradients?",
    lambda *values: {BYTES: FLOAT64_BYTES * sum(_sizes(*values)) // 2},
)
TOO_LONG = (
    "Too long by a factor, the number of ranks. Each loss is a share of the mean already, and "
    "shares add up: what is your factor for?"
)

MISTAKES = (
    HALF_OF_THE_BYTES,
    Mistake(
        "Nothing goes over the links. What must the ranks tell each other, and is it there when "
        "your calls are made?",
        lambda *values: {CALLS: 0},
    ),
    Mistake(
        "Frozen parameters take part: they get gradients, or zeros travel for them. Which "
        "parameters want one?",
        lambda *values: (
            {
                CALLS: len(_all_sizes(*values)),
                BYTES: FLOAT64_BYTES * sum(_all_sizes(*values)),
                FROZEN: 2,
            }
            if values[0] == "frozen"
            else {}
        ),
    ),
    Mistake(
        "What was in the gradients before is lost. Who may set them to zero?",
        lambda *values: (
            {LENGTH: float(_last(*values).norm())} if values[0] == "gradients before" else {}
        ),
    ),
    Mistake(
        "Rank 0 ends with the gradient of its own share: what comes over the links does not reach "
        "it. Into which tensors does your call write, and what are they to the parameters?",
        lambda *values: {LENGTH: float(_own(*values).norm())},
    ),
    Mistake(
        "Backward never runs, and grad holds what was there before. Who fills it?",
        lambda *values: {LENGTH: float(_before(*values, on_all=True).norm())},
    ),
    Mistake(TOO_LONG, lambda *values: {LENGTH: float(_whole(*values).norm()) * values[1]}),
    Mistake(
        TOO_LONG,
        lambda *values: {
            LENGTH: float((_before(*values, on_all=True) + values[1] * _last(*values)).norm())
        },
    ),
    Mistake(
        "Too short by a factor, the number of ranks. Each loss is a share of the mean "
        "already: what does your division divide?",
        lambda *values: {LENGTH: float(_whole(*values).norm()) / values[1]},
    ),
)

BACKWARD_EACH = Check(
    cases=functools.partial(cases_of, SCENARIOS),
    reference=backward_each,
    observe=observe,
    judge=Behaviour(
        wanted_of_each,
        Mistake(
            "Afterwards grad is None. What gives back a call that works in place, and where do you "
            "put it?",
            lambda *values: {EMPTY: values[1] * len(_sizes(*values))},
        ),
        Mistake(
            "The ranks make one call more than there are gradients to sum. Which number of the "
            "ranks does nobody need?",
            lambda *values: {CALLS: len(_sizes(*values)) + 1},
        ),
        Mistake(
            "What was in grad before stays on its rank, and only the new part is summed. Which "
            "tensor has both, and from when on?",
            lambda *values: (
                {LENGTH: float((_last(*values) + _before(*values)).norm())}
                if values[0] == "gradients before"
                else {}
            ),
        ),
        *MISTAKES,
        Mistake(
            "Twice as many calls as parameters. What does a sum that is summed again hold?",
            lambda *values: {CALLS: 2 * len(_sizes(*values))},
        ),
        Mistake(
            "One call where the exercise asks for one for each parameter. Which exercise does "
            "that?",
            lambda *values: {CALLS: 1},
        ),
        scenarios=SCENARIOS,
        relative_tolerance=ROUNDING,
    ),
)

BACKWARD_FLAT = Check(
    cases=functools.partial(cases_of, FLAT_SCENARIOS),
    reference=backward_flat,
    observe=observe_flat,
    judge=Behaviour(
        wanted_of_flat,
        *MISTAKES,
        Mistake(
            "There is still a call for each parameter. What is one tensor that holds them all?",
            lambda *values: {CALLS: len(_sizes(*values))},
        ),
        Mistake(
            "Two calls. What does a sum that is summed again hold?",
            lambda *values: {CALLS: 2},
        ),
        Mistake(
            "The sums are added to what each rank has of its own already. Which operation puts "
            "new numbers in the place of old ones?",
            lambda *values: {LENGTH: float((_whole(*values) + _own(*values)).norm())},
        ),
        Mistake(
            "The gradient has the right length and points elsewhere: its numbers are in wrong "
            "places. In which order do they enter the buffer, and in which do they leave it?",
            lambda *values: {WRONG: values[1]},
        ),
        Mistake(
            "At the peak there are three sets of gradients. Which copy of them is neither the "
            "buffer nor what backward made?",
            lambda *values: {AT_PEAK: 3},
        ),
        Mistake(
            "Two sets of gradients are left when all is over. Who still holds the buffer?",
            lambda *values: {AFTER: 2},
        ),
        scenarios=FLAT_SCENARIOS,
        relative_tolerance=ROUNDING,
    ),
)
