"""A training loop as it is used: its result, the state that it leaves, and the bytes that it holds.

Memory that piles up shows between two batches and more of them. In each scenario the other leaks
together hold less than one unit of what is counted.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain, describe
from autograder.checking.precision import tolerance
from autograder.observing.comparing import is_equal, is_nearly, is_same
from autograder.observing.observation import errors_as_data, undisturbed
from course_utils.instruments import trace_memory

Batches = list[tuple[Tensor, Tensor]]

KEYS = ("loss", "confidence", "states")
SCENARIOS = KEYS  # one scenario for each leak
LEARNING_RATE = 0.5
FEW = 2
# What a loop may leave behind, as it belongs to the model and its optimizer.
OWNED = ("parameters", "optimizer_states", "gradients")
# A mean may be taken in fp32, from numbers in float64: a few roundings of 6e-8.
MEAN = tolerance("float32", num_terms=2, cancelled=1)


class Setup(NamedTuple):
    """What a loop is called with, as its caller left it."""

    body: nn.Sequential
    head: nn.Linear
    optimizer: torch.optim.Optimizer
    batches: Batches
    held_out: Batches

    @classmethod
    def of(cls, case: Case) -> "Setup":
        """The same model and batches for the same sizes."""
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(case["width"] * case["seq_len"])
            return cls._drawn(case)

    @classmethod
    def _drawn(cls, case: Case) -> "Setup":
        num_words, width, num_layers = (case[key] for key in ("num_words", "width", "num_layers"))
        dtype = precision_of(case)
        layers: list[nn.Module] = [nn.Embedding(num_words, width, dtype=dtype)]
        for _ in range(num_layers):
            layers += [nn.Linear(width, width, bias=False, dtype=dtype), nn.Tanh()]
        head = nn.Linear(width, num_words, bias=False, dtype=dtype)
        body = nn.Sequential(*layers)
        model = nn.Sequential(body, head).train(case["is_training"])
        head.weight.requires_grad_(not case["is_head_frozen"])
        for weight in model.parameters():
            if case["has_gradients"] and weight.requires_grad:
                weight.grad = torch.ones_like(weight)
        optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE, foreach=False)
        return cls(body, head, optimizer, *_batches_of(case))

    @property
    def model(self) -> nn.Sequential:
        """Body and head."""
        return nn.Sequential(self.body, self.head)


def precision_of(case: Case) -> torch.dtype:
    """In which precision the model is."""
    dtype: torch.dtype = getattr(torch, case["precision"])
    return dtype


def _batches_of(case: Case) -> tuple[Batches, Batches]:
    """Batches to train and to evaluate on; the first of each may be a small one."""
    b, s = case["num_sequences"], case["seq_len"]
    drawn = torch.randint(case["num_words"], (100, 2, b, s)).unbind()
    chosen = drawn[: case["num_batches"]], drawn[-case["num_held_out"] :]
    training, held_out = ([(pair[0], pair[1]) for pair in pairs] for pairs in chosen)
    if case["is_first_batch_small"]:
        for each in (training, held_out):
            each[:1] = [(ids[:1], targets[:1]) for ids, targets in each[:1]]
    if case["scenario"] != "loss":  # there an evaluation holds next to nothing
        held_out = [(ids[:1, :1], targets[:1, :1]) for ids, targets in held_out]
    return training, held_out


class Held(NamedTuple):
    """Bytes of activations and temporaries during a call and after it, and what it returned."""

    peak_bytes: int
    left_bytes: int
    result: Any


def hold(call: Callable[[], object], *owners: Any) -> Held:
    """What a call holds at its peak, and what is left while its result is alive."""
    results: list[object] = []

    def step() -> None:
        torch.zeros(())  # a loop without any operation cannot be traced
        results.append(call())

    trace = trace_memory(step, *owners)
    left = [each for each in trace.storages if each.died is None and each.category not in OWNED]
    left_bytes = sum(each.storage_bytes for each in left)
    return Held(max(trace.working_bytes), left_bytes, results[0])


def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result, state and bytes; what is left changed counts in one scenario, the evaluation's."""
    observed: Any = _all_observed(answer, case)
    counts_here = case["scenario"] == "loss"
    return {name: each for name, each in observed.items() if name != "left" or counts_here}


@errors_as_data
def _all_observed(answer: Any, case: Case) -> dict[str, Any]:
    """All that is observed; where the loop trains on many batches, also the peak of a few."""
    observed = _observed(answer, case)
    if case["num_batches"] > FEW:
        few = _observed(answer, case | {"num_batches": FEW})
        observed["peak_bytes_of_few"] = few["peak_bytes"]
    return observed


def _observed(answer: Any, case: Case) -> dict[str, Any]:
    setup = Setup.of(case)
    with undisturbed(), torch.set_grad_enabled(case["is_recording"]):
        try:
            held = hold(lambda: answer(*setup), setup.body, setup.head, setup.optimizer)
        except RuntimeError as error:
            if case["is_recording"]:
                raise
            return {"error_without_recording": str(error)}
        is_recording = torch.is_grad_enabled()
    return {
        **_plain_result(held.result),
        "state": state_of(setup) | {"is_recording": is_recording},
        "peak_bytes": held.peak_bytes,
        "left_bytes": held.left_bytes,
    }


def _plain_result(result: Any) -> dict[str, Any]:
    if not isinstance(result, dict) or set(KEYS) - set(result):
        wanted = ", ".join(repr(key) for key in KEYS)
        raise TypeError(f"wanted a dictionary with {wanted}, got {_in_words(result)}")
    states = list(result["states"]) if isinstance(result["states"], list | tuple) else []
    storages = [each.untyped_storage() for each in states if isinstance(each, Tensor)]
    return {
        **{key: _number(result[key]) for key in ("loss", "confidence")},
        "states": [
            each.detach() if isinstance(each, Tensor) else describe(each) for each in states
        ],
        "num_graphs": sum(isinstance(each, Tensor) and each.requires_grad for each in states),
        # Also those that no operation makes: a deep copy, a tensor from numpy's memory.
        "states_bytes": sum({each.data_ptr(): each.nbytes() for each in storages}.values()),
    }


def _in_words(result: Any) -> str:
    return f"one with {[*result]}" if isinstance(result, dict) else describe(result)


def _number(value: Any) -> float | str:
    """A number, or a tensor of one, as a float; else what it is."""
    try:
        return float(value.detach() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError, RuntimeError):
        return describe(value)


def state_of(setup: Setup) -> dict[str, Any]:
    """What belongs to a model beside its structure, and how many batches its caller has."""
    weights = list(setup.model.parameters())
    return {
        "weights": [each.detach().clone() for each in weights],
        "gradients": [None if each.grad is None else each.grad.clone() for each in weights],
        "wants_gradient": [each.requires_grad for each in weights],
        "modes": [each.training for each in (setup.body, setup.head)],
        "num_batches": [len(setup.batches), len(setup.held_out)],
    }


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """What is wrong of the training; where that is right, what its scenario is about."""
    numbers = {name: 0 for name, number in right.items() if type(number) is int}
    if "error_without_recording" in observed:
        return numbers | {"errors_without_recording": 1}
    wrong = _of_training(observed["state"], state_of(Setup.of(case)), right["right"])
    if not any(wrong.values()):
        wrong = SUMMARIES[case["scenario"]](case, observed, right["right"])
    return numbers | wrong


def _of_training(state: Plain, start: Plain, right: Plain) -> dict[str, int]:
    trained = right["weights"] or start["weights"]
    weights = zip(state["weights"], trained, start["weights"], strict=True)
    wrong = [torch.equal(got, old) for got, wanted, old in weights if not _is_near(got, wanted)]
    return {
        "untrained_weights": sum(wrong),
        "wrong_weights": int(bool(wrong)),
        "other_batches": int(state["num_batches"] != start["num_batches"]),
    }


def _of_evaluation(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """The mean, side effects, and whole batches that are held while nothing is trained."""
    state, start = observed["state"], state_of(Setup.of(case))
    is_alone = case["num_batches"] == 0
    gradients = zip(state["gradients"], start["gradients"], strict=True)
    numbers = {
        "wrong_means": not _is_same_number(observed["loss"], right["loss"]),
        "changed_mode": state["modes"] != start["modes"],
        "changed_requires_grad": state["wants_gradient"] != start["wants_gradient"],
        "changed_gradients": is_alone and not all(is_equal(*pair) for pair in gradients),
        "changed_recording": state["is_recording"] != case["is_recording"],
    }
    most = (case["num_held_out"] - case["is_first_batch_small"]) * is_alone
    return {name: int(is_wrong) for name, is_wrong in numbers.items()} | {
        "graphs_left": min(most, observed["left_bytes"] // right["unit_bytes"]),
        "graphs_at_peak": _none_some_or_all(observed["peak_bytes"] // right["unit_bytes"], most),
    }


def _none_some_or_all(number: int, most: int) -> int:
    """A number of batches as none, one, two where it is more, or all: gradients take room, too."""
    return most if number >= most else min(number, 2)


def _of_average(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """The average, and batches of probabilities that are held."""
    grown = observed["peak_bytes"] - observed["peak_bytes_of_few"]
    return {
        "wrong_averages": int(not _is_same_number(observed["confidence"], right["confidence"])),
        "probabilities_left": observed["left_bytes"] // right["unit_bytes"],
        "probabilities_at_peak": max(0, grown) // right["unit_bytes"],
    }


def _of_samples(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """The states, and batches of hidden states that are held beside them."""
    needed = precision_of(case).itemsize * case["num_sequences"] * case["width"]
    left = max(observed["left_bytes"], observed["states_bytes"])
    grown = observed["peak_bytes"] - observed["peak_bytes_of_few"]
    return {
        **_of_states(observed["states"], right),
        "graphs": int(observed["num_graphs"] > 0),
        "states_left": max(0, left - case["num_batches"] * needed) // right["unit_bytes"],
        "states_at_peak": max(0, grown - (case["num_batches"] - FEW) * needed)
        // right["unit_bytes"],
    }


SUMMARIES = {"loss": _of_evaluation, "confidence": _of_average, "states": _of_samples}


def _of_states(got: Sequence[Any], right: Plain) -> dict[str, int]:
    """In which way the states are wrong, if they are."""
    way = ""
    if not _are_states_right(got, right["states"]):
        is_rounded = len(got) == len(right["states"]) and all(
            map(_is_rounded, got, right["states"])
        )
        is_later = _are_states_right(got, right["later_states"])
        way = "other_precision" if is_rounded else "later_states" if is_later else "wrong_states"
    return {each: int(each == way) for each in ("other_precision", "later_states", "wrong_states")}


def _is_rounded(got: Any, wanted: Tensor) -> bool:
    """Whether the numbers are right, but were in another precision at some time."""
    if not isinstance(got, Tensor) or got.shape != wanted.shape:
        return False
    return is_same(got.float(), wanted.float()) or (
        got.dtype != wanted.dtype and is_nearly(got, wanted)
    )


def _are_states_right(got: Sequence[Any], wanted: Sequence[Tensor]) -> bool:
    return len(got) == len(wanted) and all(map(_is_near, got, wanted))


def _is_near(got: Any, wanted: Tensor) -> bool:
    if not isinstance(got, Tensor) or (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        return False
    return is_same(got, wanted)


def _is_same_number(got: Any, wanted: float) -> bool:
    return isinstance(got, float) and abs(got - wanted) <= MEAN * max(1, abs(wanted))
