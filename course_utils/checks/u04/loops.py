"""Checks of repaired loops: the right numbers, and no batch's memory held longer than it is needed.

Held memory is told in whole batches: how often what one of them keeps fits into the bytes that were
live. A number or two in a name that lives on is so for nothing; a graph is not.
"""

import functools
import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.checks.check import Case, Check
from course_utils.checks.judges import EqualTo, Mistake
from course_utils.instruments import trace_memory

FLOAT64_BYTES = 8
# The same sums in another order: a few roundings of 1.1e-16 for numbers near one.
ROUNDING = 1e-9
# A mean may be taken in fp32, from numbers in float64: a few roundings of 6e-8.
ROUNDING_OF_A_MEAN = 1e-6
NUM_WORDS = 5
DECAY = 0.9
LEARNING_RATE = 0.1

Batches = list[tuple[Tensor, Tensor]]


class Held(NamedTuple):
    """Bytes beside those that were there before a call, and what it returned."""

    peak_bytes: int
    left_bytes: int
    result: Any


def held(call: Callable[[], object], *owners: Any) -> Held:
    """What a call holds at its peak, and what is left while its result is."""
    results: list[object] = []
    trace = trace_memory(lambda: results.append(call()), *owners)
    before = trace.total_bytes[0]
    return Held(trace.peak_bytes - before, trace.phases[-1].end_bytes - before, results[0])


@contextmanager
def light() -> Iterator[None]:
    """One thread for small tensors, and no search for garbage among all that was there before."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        torch.set_num_threads(num_threads)


def layers_of(width: int, num_layers: int) -> list[nn.Module]:
    """An embedding and layers of one width, in float64, the same for the same sizes."""
    with torch.random.fork_rng():
        torch.manual_seed(width * num_layers)
        layers: list[nn.Module] = [nn.Embedding(NUM_WORDS, width, dtype=torch.float64)]
        for _ in range(num_layers):
            layers += [nn.Linear(width, width, bias=False, dtype=torch.float64), nn.Tanh()]
    return layers


def head_of(width: int) -> nn.Linear:
    """A layer to the logits, in float64, the same for the same width."""
    with torch.random.fork_rng():
        torch.manual_seed(width)
        return nn.Linear(width, NUM_WORDS, bias=False, dtype=torch.float64)


def batches_of(num_batches: int, num_sequences: int, seq_len: int) -> Batches:
    """Pairs of token ids and targets, each of shape (b, s)."""
    generator = torch.Generator().manual_seed(num_batches + 10 * num_sequences + 100 * seq_len)
    shape = (num_batches, 2, num_sequences, seq_len)
    ids = torch.randint(NUM_WORDS, shape, generator=generator)
    return [(pair[0], pair[1]) for pair in ids.unbind()]


def evaluation_cases(seed: int) -> list[Case]:
    """Three batches and more; one sequence and several; a model in both modes."""
    rng = random.Random(seed)
    cases = []
    for num_batches in (3, 4, 3, 5, 3):
        for num_sequences, is_training in ((1, True), (2, False), (1, False), (3, True)):
            case = {
                "num_batches": num_batches,
                "num_sequences": num_sequences,
                "seq_len": rng.choice((5, 6)),
                "width": rng.choice((20, 28)),
                "num_layers": rng.choice((2, 3)),
                "is_training": is_training,
            }
            cases.append(case)
    return cases


def evaluate(model: nn.Module, batches: Batches) -> float:
    """The course's own evaluation: nothing is recorded."""
    with torch.no_grad():
        losses = [F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches]
    return sum(losses) / len(losses)


def mean_loss(model: nn.Module, batches: Batches) -> float:
    """The mean loss by way of probabilities, as an independent twin."""
    with torch.no_grad():
        probabilities = [model(x).softmax(-1).gather(-1, y[..., None]) for x, y in batches]
    return float(-torch.stack(probabilities).log().mean())


@light()
def probe_evaluation(answer: Any, case: Case) -> object:
    """Mean, side effects, and whole batches held by the student's loop."""
    model = nn.Sequential(*layers_of(case["width"], case["num_layers"]), head_of(case["width"]))
    model.train(case["is_training"])
    batches = _batches(case)
    one_batch = _graph_bytes(case["num_sequences"] * case["seq_len"], case["width"], len(model) - 2)
    before = [each.detach().clone() for each in model.parameters()]
    with torch.enable_grad():
        run = held(lambda: answer(model, batches), model)
        is_recording = torch.is_grad_enabled()
    return {
        "wrong_means": int(not _is_near(run.result, mean_loss(model, batches))),
        "changed_model": int(
            model.training != case["is_training"] or not _is_as_before(model, before)
        ),
        "changed_recording": int(not is_recording),
        "batches_left": run.left_bytes // one_batch,
        "batches_at_peak": run.peak_bytes // one_batch,
    }


def _batches(case: Case) -> Batches:
    return batches_of(case["num_batches"], case["num_sequences"], case["seq_len"])


@functools.lru_cache(maxsize=1000)
def _graph_bytes(num_tokens: int, width: int, num_modules: int) -> int:
    """What one batch keeps for backward: measured on one that is kept."""
    model = nn.Sequential(*layers_of(width, num_modules // 2), head_of(width))
    ids = torch.zeros(1, num_tokens, dtype=torch.long)
    run = held(lambda: F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()), model)
    return run.left_bytes - FLOAT64_BYTES  # of the loss itself


def _is_near(got: Any, wanted: float) -> bool:
    number = got.detach() if isinstance(got, Tensor) else got
    try:
        return abs(float(number) - wanted) <= ROUNDING_OF_A_MEAN * max(1.0, abs(wanted))
    except (TypeError, ValueError, RuntimeError):
        return False


def _is_as_before(model: nn.Module, before: list[Tensor]) -> bool:
    return all(
        each.requires_grad and each.grad is None and torch.equal(each, old)
        for each, old in zip(model.parameters(), before, strict=True)
    )


def nothing_held(*names: str) -> Callable[..., dict[str, int]]:
    """What a repaired loop shows: zero for each."""
    return lambda **case: dict.fromkeys(names, 0)


def _all_batches(num_batches: int, *sizes: Any) -> dict[str, int]:
    return {"batches_left": num_batches, "batches_at_peak": num_batches}


REPAIR_EVALUATION = Check(
    cases=evaluation_cases,
    reference=evaluate,
    probe=probe_evaluation,
    judge=EqualTo(
        nothing_held(
            "wrong_means", "changed_model", "changed_recording", "batches_left", "batches_at_peak"
        ),
        Mistake(
            "The mean is not the one that the loop gave before. Which losses are in it, and by "
            "how many do you divide?",
            lambda *case: {"wrong_means": 1},
        ),
        Mistake(
            "The model does not come back as it was given: its mode, its weights' gradients or "
            "whether they want one. What would the training loop around yours find changed?",
            lambda *case: {"changed_model": 1},
        ),
        Mistake(
            "After your function nothing records graphs any more. Who switches it on again, also "
            "for the training step that comes next?",
            lambda *case: {"changed_recording": 1},
        ),
        Mistake(
            "What you return is light, but the activations of all batches lie in memory until "
            "then. When does a loss have to let go of its graph?",
            lambda num_batches, *sizes: {"batches_at_peak": num_batches},
        ),
        Mistake(
            "All batches' activations are held until the last, and even beyond, by the result. "
            "What does a loss carry besides its number?",
            _all_batches,
        ),
        Mistake(
            "Two batches' activations are live at the peak: those of the last one have not gone "
            "when the next is computed. Which name still holds them, and who needs any of them?",
            lambda *case: {"batches_at_peak": 2},
        ),
        Mistake(
            "Nothing piles up, and yet one batch's activations are all live at the peak. Who "
            "will ever ask for them here?",
            lambda *case: {"batches_at_peak": 1},
        ),
        together=True,
    ),
)


def train_with_average(
    body: nn.Module, head: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches
) -> float:
    """The course's own training loop: the average is made of numbers."""
    average = 0.0
    for ids, targets in batches:
        hidden = body(ids)
        with torch.no_grad():
            average = DECAY * average + (1 - DECAY) * float(hidden.std())
        F.cross_entropy(head(hidden).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return average


def _modules(case: Case) -> tuple[nn.Module, nn.Module]:
    width = case["width"]
    return nn.Sequential(*layers_of(width, case["num_layers"])), head_of(width)


class Trained(NamedTuple):
    """What a training loop leaves: its memory, its average, the weights."""

    held: Held
    average: Any
    weights: list[Tensor]


def _train(loop: Callable[..., Any], case: Case) -> Trained:
    body, head = _modules(case)
    weights = [*body.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(weights, LEARNING_RATE, foreach=False)
    run = held(lambda: loop(body, head, optimizer, _batches(case)), body, head, optimizer)
    return Trained(run, run.result, [each.detach() for each in weights])


@functools.lru_cache(maxsize=1000)
def _course_training(**sizes: Any) -> Held:
    """Memory of the course's own loop, which stands for what is needed."""
    return _train(train_with_average, sizes).held


@functools.lru_cache(maxsize=1000)
def _twin_training(**sizes: Any) -> tuple[float, list[Tensor]]:
    """Average and weights by gradients that are asked for one by one, as an independent twin."""
    body, head = _modules(sizes)
    weights = [*body.parameters(), *head.parameters()]
    deviations = []
    for ids, targets in _batches(sizes):
        hidden = body(ids)
        mean = hidden.detach().mean()
        squares = (hidden.detach() - mean).square().sum()
        deviations.append(float((squares / (hidden.numel() - 1)).sqrt()))
        scores = head(hidden).log_softmax(-1).gather(-1, targets[..., None])
        gradients = torch.autograd.grad(-scores.mean(), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(LEARNING_RATE * gradient)
    newest_first = enumerate(reversed(deviations))
    average = sum((1 - DECAY) * DECAY**age * each for age, each in newest_first)
    return average, [each.detach() for each in weights]


@light()
def probe_average(answer: Any, case: Case) -> object:
    """Average, weights, and hidden states held by the student's loop beyond the course's."""
    hidden_bytes = FLOAT64_BYTES * case["num_sequences"] * case["seq_len"] * case["width"]
    mine, needed = _train(answer, case), _course_training(**case)
    average, weights = _twin_training(**case)
    near = zip(mine.weights, weights, strict=True)
    are_weights_near = all(torch.allclose(a, b, rtol=ROUNDING, atol=ROUNDING) for a, b in near)
    left = mine.held.left_bytes - needed.left_bytes
    at_peak = mine.held.peak_bytes - needed.peak_bytes
    start = [each for layer in _modules(case) for each in layer.parameters()]
    return {
        "untrained_weights": sum(map(torch.equal, mine.weights, start)),
        "wrong_weights": int(not are_weights_near),
        "wrong_averages": int(not _is_near(mine.average, average)),
        "hidden_states_left": max(0, left) // hidden_bytes,
        "hidden_states_at_peak": max(0, at_peak) // hidden_bytes,
    }


def sample_cases(seed: int) -> list[Case]:
    """The cases of the evaluation, without a mode."""
    cases = evaluation_cases(seed)
    return [{name: size for name, size in case.items() if name != "is_training"} for case in cases]


def average_cases(seed: int) -> list[Case]:
    """The same with a single layer: every operation of a training costs time."""
    return [case | {"num_layers": 1} for case in sample_cases(seed)]


REPAIR_AVERAGE = Check(
    cases=average_cases,
    reference=train_with_average,
    probe=probe_average,
    judge=EqualTo(
        nothing_held(
            "untrained_weights",
            "wrong_weights",
            "wrong_averages",
            "hidden_states_left",
            "hidden_states_at_peak",
        ),
        Mistake(
            "The body is not trained any more: its weights are as they were. Which path does the "
            "loss take back to them, and where do you cut it?",
            lambda num_batches, num_sequences, seq_len, width, num_layers: {
                "untrained_weights": 1 + num_layers
            },
        ),
        Mistake(
            "The weights are not those that the loop gave before. Which gradients are in a weight "
            "when the optimizer reads it, and are they gone before the next batch?",
            lambda *case: {"wrong_weights": 1},
        ),
        Mistake(
            "The average is not the one that the loop gave before. Which numbers enter it, when, "
            "and with which factors?",
            lambda *case: {"wrong_averages": 1},
        ),
        Mistake(
            "The hidden states of all batches are still there when the loop is over. Backward "
            "frees what it walks through: does it ever walk from the average back to them?",
            lambda num_batches, *sizes: {"hidden_states_left": num_batches},
        ),
        Mistake(
            "One hidden state outlives the loop. Of which batch is it, and what does your "
            "result still carry besides its number?",
            lambda *case: {"hidden_states_left": 1},
        ),
        Mistake(
            "Your result is light, but until then the hidden states of all batches but the last "
            "are too many. In which line of the loop does the average have to let go?",
            lambda num_batches, *sizes: {"hidden_states_at_peak": num_batches - 1},
        ),
        Mistake(
            "At the peak there is one hidden state more than needed. Which copy of it, or of "
            "which batch, do you hold while backward runs?",
            lambda *case: {"hidden_states_at_peak": 1},
        ),
        together=True,
    ),
)


@torch.no_grad()
def last_states(body: nn.Module, batches: Batches) -> list[Tensor]:
    """The course's own collection: the last row of each sequence, in storages of their own."""
    return [body(ids)[:, -1].clone() for ids, _ in batches]


@functools.lru_cache(maxsize=1000)
def _course_peak_bytes(**sizes: Any) -> int:
    """Of a loop that copies, and whose name holds a batch's states while the next is computed."""
    body, batches = nn.Sequential(*layers_of(sizes["width"], sizes["num_layers"])), _batches(sizes)

    @torch.no_grad()
    def collect() -> list[Tensor]:
        states = []
        for ids, _ in batches:
            hidden = body(ids)
            states.append(hidden[:, -1].clone())
        return states

    return held(collect, body).peak_bytes


@light()
def probe_samples(answer: Any, case: Case) -> object:
    """States, and what is held beside them, in batches of hidden states."""
    body = nn.Sequential(*layers_of(case["width"], case["num_layers"]))
    batches = _batches(case)
    run = held(lambda: answer(body, batches), body)
    kept = FLOAT64_BYTES * case["num_sequences"] * case["width"]
    beside = (case["seq_len"] - 1) * kept
    left = run.left_bytes - case["num_batches"] * kept
    return {
        "wrong_states": int(not _are_states_right(run.result, body, batches)),
        "batches_left": left // beside,
        "batches_at_peak": round(max(0, run.peak_bytes - _course_peak_bytes(**case)) / beside),
    }


def _are_states_right(got: Any, body: nn.Module, batches: Batches) -> bool:
    """Against states of sequences that are computed one token at a time."""
    with torch.no_grad():
        wanted = [body(ids[:, -1]) for ids, _ in batches]
    if not isinstance(got, list) or len(got) != len(wanted):
        return False
    return all(
        isinstance(a, Tensor)
        and a.shape == b.shape
        and torch.allclose(a, b, rtol=ROUNDING, atol=ROUNDING)
        for a, b in zip(got, wanted, strict=True)
    )


def _all_left_where(has: Callable[[int], bool]) -> Callable[..., dict[str, int]]:
    """Whole batches of hidden states left, for some numbers of sequences."""

    def formula(num_batches: int, num_sequences: int, *sizes: int) -> dict[str, int]:
        return {"batches_left": num_batches} if has(num_sequences) else {}

    return formula


REPAIR_SAMPLES = Check(
    cases=sample_cases,
    reference=last_states,
    probe=probe_samples,
    judge=EqualTo(
        nothing_held("wrong_states", "batches_left", "batches_at_peak"),
        Mistake(
            "What you return is not a list with one tensor of shape (b, h) for each batch, the "
            "states of its last tokens. What has changed against the loop as it was?",
            lambda *case: {"wrong_states": 1},
        ),
        Mistake(
            "Only batches of a single sequence stay whole in memory. Does the method that you "
            "call copy always, or only where the numbers do not lie side by side already?",
            _all_left_where(lambda num_sequences: num_sequences == 1),
        ),
        Mistake(
            "The hidden states of all tokens of all batches are still there, and they have no "
            "graph. What does a part of a tensor hold on to?",
            _all_left_where(lambda num_sequences: True),
        ),
        Mistake(
            "What is left in the end is right, but until then whole batches lie in memory. When "
            "does a batch's part have to come into a storage of its own?",
            lambda num_batches, *sizes: {"batches_at_peak": num_batches - 2},
        ),
        together=True,
    ),
)
