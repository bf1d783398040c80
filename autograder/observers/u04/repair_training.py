"""A training loop as it is used: its result, the state that it leaves, and the bytes that it holds.

Memory that piles up shows between two batches and more of them. In each scenario the other leaks
together hold less than one unit of what is counted.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.precision import tolerance
from autograder.checking.result_form import WrongForm
from autograder.observers.comparing import is_equal, is_nearly, is_same, is_same_tensor
from autograder.observers.tools import errors_as_data, undisturbed
from autograder.observers.u04.training_loop import Setup, hold, precision_of, state_of

KEYS = ("loss", "confidence", "states")
SCENARIOS = KEYS  # one scenario for each leak
FEW = 2
# A mean may be taken in fp32, from numbers in float64: a few roundings of 6e-8.
MEAN = tolerance("float32", num_terms=2, cancelled=1)


def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result, state and bytes; what is left changed counts in one scenario, the evaluation's."""
    observed: Any = _all_observed(answer, case)
    counts_here = case["scenario"] == "loss"
    return {name: each for name, each in observed.items() if name != "left" or counts_here}


@functools.partial(errors_as_data, may_copy=True)
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
        raise WrongForm(f"a dictionary with {wanted}", _in_words(result))
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


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """What is wrong of the training; where that is right, what its scenario is about."""
    right = right["right"]
    if "error_without_recording" in observed:
        observed = observed | _nothing_wrong(case, right)
    of_training = _of_training(observed["state"], state_of(Setup.of(case)), right)
    of_scenario = FACTS[case["scenario"]](case, observed, right)
    if any(each.value for each in of_training):
        of_scenario = [each._replace(value=0) for each in of_scenario]
    return of_training + of_scenario


def _nothing_wrong(case: Case, right: Plain) -> dict[str, Any]:
    """What is observed of a right evaluation: of one that failed only the error is told."""
    start = state_of(Setup.of(case))
    done = {"weights": right["weights"] or start["weights"], "is_recording": case["is_recording"]}
    return {"state": start | done, "loss": right["loss"].item(), "peak_bytes": 0, "left_bytes": 0}


def _of_training(state: Plain, start: Plain, right: Plain) -> list[Fact]:
    trained = right["weights"] or start["weights"]
    weights = zip(state["weights"], trained, start["weights"], strict=True)
    wrong = [
        torch.equal(got, old) for got, wanted, old in weights if not is_same_tensor(got, wanted)
    ]
    return [
        Fact(
            "untrained_weights",
            sum(wrong),
            "weights that the training left as they were",
            "Which weights does the loss lead back to in your loop, and what does the optimizer "
            "find in their `grad` when it makes its step?",
        ),
        Fact(
            "wrong_weights",
            int(bool(wrong)),
            "Some of the trained weights are wrong.",
            "Which loss does each of your backward passes start from, and which gradients are in "
            "`grad` when the optimizer reads it?",
        ),
        Fact(
            "other_batches",
            int(state["num_batches"] != start["num_batches"]),
            "A list of batches is longer or shorter afterwards.",
            "Which of your lines takes something out of a list of batches or puts something in, "
            "and whose list is that?",
        ),
    ]


def _of_evaluation(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """The mean, side effects, and whole batches that are held while nothing is trained."""
    state, start = observed["state"], state_of(Setup.of(case))
    is_alone = case["num_batches"] == 0
    gradients = zip(state["gradients"], start["gradients"], strict=True)
    # Graphs are counted where nothing is trained; that of a small first batch is no whole unit.
    most = (case["num_held_out"] - case["is_first_batch_small"]) * is_alone
    at_peak = _none_some_or_all(observed["peak_bytes"] // right["unit_bytes"], most)
    return [
        Fact(
            "errors_without_recording",
            int("error_without_recording" in observed),
            "It ends with an error where no gradients are recorded.",
            "The caller has switched recording off, so that logits and losses have no graph. Which "
            "of your lines counts on one?",
        ),
        Fact(
            "wrong_means",
            int(not _is_same_number(observed["loss"], right["loss"])),
            "The mean loss is wrong.",
            "The mean differs from that of the given loop. Which losses are in it, and by how many "
            "do you divide?",
        ),
        Fact(
            "changed_mode",
            int(state["modes"] != start["modes"]),
            "The mode, training or evaluation, has changed.",
            "In which mode do body and head come, and which of your lines changes it?",
        ),
        Fact(
            "changed_requires_grad",
            int(state["wants_gradient"] != start["wants_gradient"]),
            "requires_grad of some weights has changed.",
            "Which weights require a gradient when your function is called, and which of your "
            "lines changes that?",
        ),
        Fact(
            "changed_gradients",
            int(is_alone and not all(is_equal(*pair) for pair in gradients)),
            "Gradients from before have changed.",
            "There is no batch to train on, and the caller may be in the middle of a training "
            "step. Which of your lines fills `grad`, adds to it or clears it?",
        ),
        Fact(
            "changed_recording",
            int(state["is_recording"] != case["is_recording"]),
            "Grad mode is not as it was before.",
            "Where does your function switch recording on or off, and where does it go back to "
            "what the caller had chosen?",
        ),
        Fact(
            "graphs_left",
            min(most, observed["left_bytes"] // right["unit_bytes"]),
            "batches' graphs still held at the end",
            "Which tensors or names outlive the evaluation, your result included, and which of "
            "them lead back to a held-out batch's activations?",
        ),
        Fact(
            "graphs_at_peak",
            at_peak,
            "batches' graphs held at the evaluation's peak",
            "What does autograd save while a held-out batch goes through the model, and what of "
            "the batches before it is still in memory by then?",
        ),
    ]


def _none_some_or_all(number: int, most: int) -> int:
    """A number of batches as 0, 1, 2 for any more, or `most` for all of them.

    Other bytes count as well, such as gradients', so that a number in between is not exact.
    """
    return most if number >= most else min(number, 2)


def _of_average(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """The average, and batches of probabilities that are held."""
    grown = observed["peak_bytes"] - observed["peak_bytes_of_few"]
    return [
        Fact(
            "wrong_averages",
            int(not _is_same_number(observed["confidence"], right["confidence"])),
            "The average is wrong.",
            "The average differs from that of the given loop. Which numbers enter it, when, and "
            "with which factors?",
        ),
        Fact(
            "probabilities_left",
            observed["left_bytes"] // right["unit_bytes"],
            "batches' probabilities still held at the end",
            "Which tensors can still be reached from the average that you return, or from another "
            "name, when the loop is over?",
        ),
        Fact(
            "probabilities_at_peak",
            max(0, grown) // right["unit_bytes"],
            "batches' probabilities held at the peak",
            "With more batches the peak rises. What does a batch leave in memory, beside a number "
            "for the average, when the next one comes?",
        ),
    ]


def _of_samples(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """The states, and batches of hidden states that are held beside them."""
    way = _way_to_differ(observed["states"], right)
    needed = precision_of(case).itemsize * case["num_sequences"] * case["width"]
    left = max(observed["left_bytes"], observed["states_bytes"])
    grown = observed["peak_bytes"] - observed["peak_bytes_of_few"]
    not_needed = grown - (case["num_batches"] - FEW) * needed
    return [
        Fact(
            "other_precision",
            int(way == "other_precision"),
            "The precision of the states is not the model's.",
            "Your states have the right numbers in another precision. Which precision does the "
            "model have, and is it the same in all cases?",
        ),
        Fact(
            "later_states",
            int(way == "later_states"),
            "The states are those of the weights after the step.",
            "At which point of an iteration does the given loop take the states, and have the "
            "weights already changed when your function takes them?",
        ),
        Fact(
            "wrong_states",
            int(way == "wrong_states"),
            "The states are not those of the given loop.",
            "The states differ from those of the given loop. Is there one tensor of shape (b, h) "
            "for each training batch, and from which tokens and which moment are its numbers?",
        ),
        Fact(
            "graphs",
            int(observed["num_graphs"] > 0),
            "The states hold on to their graphs.",
            "What does a tensor in your list of states lead back to, and will a backward pass ever "
            "start from there?",
        ),
        Fact(
            "states_left",
            max(0, left - case["num_batches"] * needed) // right["unit_bytes"],
            "batches' hidden states still held at the end",
            "How large is the storage behind each tensor that you return, and what else of a batch "
            "is still in memory when the loop is over?",
        ),
        Fact(
            "states_at_peak",
            max(0, not_needed) // right["unit_bytes"],
            "batches' hidden states held at the peak",
            "With more batches the peak rises by more than their states (b, h). What else of each "
            "batch stays in memory until the loop is over?",
        ),
    ]


FACTS = {"loss": _of_evaluation, "confidence": _of_average, "states": _of_samples}


def _way_to_differ(got: Sequence[Any], right: Plain) -> str:
    """In which way the states are wrong, by its name; nothing where they are right."""
    wanted = right["states"]
    if _are_states_right(got, wanted):
        return ""
    if len(got) == len(wanted) and all(map(_is_rounded, got, wanted)):
        return "other_precision"
    return "later_states" if _are_states_right(got, right["later_states"]) else "wrong_states"


def _is_rounded(got: Any, wanted: Tensor) -> bool:
    """Whether the numbers are right, but were in another precision at some time."""
    if not isinstance(got, Tensor) or got.shape != wanted.shape:
        return False
    return is_same(got.float(), wanted.float()) or (
        got.dtype != wanted.dtype and is_nearly(got, wanted)
    )


def _are_states_right(got: Sequence[Any], wanted: Sequence[Tensor]) -> bool:
    return len(got) == len(wanted) and all(map(is_same_tensor, got, wanted))


def _is_same_number(got: Any, wanted: Tensor) -> bool:
    return isinstance(got, float) and is_same(torch.tensor(got).to(wanted), wanted, MEAN)
