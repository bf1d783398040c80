"""The checks of unit 08: how large should a batch be?"""

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking import uses_reference
from autograder.checking.exercise_check import Case, named
from autograder.checking.fact import Plain
from autograder.checking.judges import ValueJudge
from autograder.checking.mistakes import Symptom
from autograder.checking.precision import PROMISED, tolerance
from autograder.exercises.declaring import declares_check
from autograder.observers.tools import length_of
from autograder.observers.u08 import accumulate, buffer, mean_of_means, noise_scale, train
from autograder.observers.u08.accumulate import prepared
from autograder.observers.u08.buffer import SUMMED, inputs_of, loss_of, model_of
from autograder.observers.u08.train import LONG, TOLERANCE, Run, is_long
from course_utils.instruments import count_saved_bytes, trace_memory
from course_utils.reference import accumulation
from course_utils.reference.accumulation import IGNORED, sum_of_losses

# === for several exercises
# What is right of ragged batches, without PyTorch's own cross-entropy.


Batches = Sequence[tuple[Tensor, Tensor]]


def ragged(rng: random.Random, count: int) -> list[int]:
    """Lengths that all differ, some of them short."""
    return rng.sample([1, 2, 3, 9, 10, 11, 12, 13], count)


def num_targets(targets: Tensor) -> int:
    """Targets that count."""
    return int((targets != IGNORED).sum())


def losses_of(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    """The loss of each target that counts, without PyTorch's own cross-entropy."""
    counts = targets != IGNORED
    scores: Tensor = model(ids).log_softmax(-1)[counts]
    return -scores.gather(-1, targets[counts][:, None])[:, 0]


def kept_bytes(model: nn.Module, ids: Tensor, targets: Tensor) -> int:
    """Bytes that a micro-batch keeps for backward."""
    saved = count_saved_bytes(lambda: sum_of_losses(model, ids, targets), model)
    floats = (each for each in saved.tensors if each.dtype.is_floating_point)
    return sum(each.storage_bytes for each in floats)


# === u08-accumulate
# Accumulation: gradients of the whole batch, with the memory of one micro-batch.


ACCUMULATE_SCENARIOS = (
    "equal",
    "ragged",
    "remainder",
    "empty micro-batch",
    "no targets",
    "existing gradients",
    "memory",
)
ACCUMULATE_NAMES = ("scenario", "lengths", "micro_batch_size", "width", "vocab_size")

FEW_TOKENS = 2  # so that weights take more memory than activations


def accumulate_cases(seed: int) -> list[Case]:
    """Every scenario three times; for memory, large activations and large weights."""
    rng = random.Random(seed)
    cases = []
    for number in range(3):
        length = rng.randint(4, 7)
        lengths_of: dict[str, tuple[list[int], int]] = {
            "equal": ([length] * 4, number % 2 + 1),
            "ragged": (ragged(rng, 6), number % 2 + 1),
            "remainder": (ragged(rng, 5), number + 2),  # at last 4 and 1, not 3 and 2
            "empty micro-batch": (_with_empty(rng, number % 2 + 1), number % 2 + 1),
            "no targets": ([0] * (number + 2), number % 2 + 1),
            "existing gradients": ([length] * 4, number % 2 + 1),
        }
        for scenario, (lengths, size) in lengths_of.items():
            cases.append(
                _accumulate_case(scenario, lengths, size, rng.randint(3, 5), rng.randint(7, 11))
            )
    for length, size in ((300, 1), (150, 2)):
        num_micro_batches = rng.randint(3, 5)
        cases.append(_accumulate_case("memory", [length] * (num_micro_batches * size), size, 16, 5))
    cases.append(_accumulate_case("memory", [FEW_TOKENS] * rng.randint(3, 5), 1, 48, 48))
    cases.sort(key=lambda case: case["scenario"] == "no targets")  # other trouble is told first
    return [_accumulate_case("remainder", [3, 1, 2], 2, 3, 5), *cases]


def _with_empty(rng: random.Random, size: int) -> list[int]:
    """Lengths of three micro-batches; the middle one has no targets."""
    lengths = ragged(rng, 2 * size)
    return [*lengths[:size], *[0] * size, *lengths[size:]]


def _accumulate_case(*values: Any) -> Case:
    return named(ACCUMULATE_NAMES, values)


def _accumulate_bytes_of(case: Case) -> list[int]:
    """At the peak of a right loop, kept by one micro-batch, and of all gradients."""
    size, (model, ids, targets) = case["micro_batch_size"], prepared(case)
    trace = trace_memory(lambda: accumulation.accumulate(model, ids, targets, size), model)
    kept = kept_bytes(model, ids[:size], targets[:size])
    return [trace.peak_bytes, kept, sum(each.nbytes for each in model.parameters())]


def _gradients_of_each_held(more: int) -> Symptom:
    return Symptom(
        "A set of all gradients is held for each micro-batch. Who adds new gradients to those that "
        "are there, if you let it?",
        lambda scenario, lengths, size, *_: {"gradients_held": -(-len(lengths) // size) + more},
    )


@declares_check(
    "u08-accumulate",
    accumulate_cases,
    observer=accumulate,
    symptoms=(*(_gradients_of_each_held(more) for more in (0, -1, 1)),),
    scenarios=ACCUMULATE_SCENARIOS,
    fallback="course_utils.reference.accumulation.accumulate",
    give_away=("course_utils.reference.accumulation.accumulate",),
    allowed_names=uses_reference.TOKEN_LOSS,
)
def measured_accumulate(**case: Any) -> dict[str, Any]:
    """Loss and gradients of the whole batch at once, added to those from before; nothing else.

    Of memory, the peak of a right loop, and the bytes of a micro-batch and of all gradients.
    """
    model, ids, targets = prepared(case)
    before = [each.grad for each in model.parameters()]
    losses = losses_of(model, ids, targets)
    mean = losses.sum() / max(1, len(losses))
    mean.backward()  # adds to what is there
    gradients = [each.grad for each in model.parameters()]
    parts = targets.split(case["micro_batch_size"])
    return {
        "loss": mean.item(),
        "gradient_length": length_of(gradients),
        "gradients": gradients,
        "before": before,
        "passes": [sum(num_targets(part) > 0 for part in parts), len(parts)],
        "sizes": [len(part) for part in parts],
        "bytes": _accumulate_bytes_of(case) if case["scenario"] == "memory" else [],
    }


# === u08-configure
# A configuration: devices, micro-batch and accumulation for a batch given in tokens.


CONFIGURE_NAMES = ("global_batch_tokens", "seq_len", "num_devices", "max_micro_batch")
NAMES = ("micro_batch_size", "num_micro_batches", "tokens_per_step")


def configuration_cases(seed: int) -> list[Case]:
    """With and without a remainder; one device; a prime; room for all, for one, an exact fit.

    The last batch is beyond a float: its remainder is one token less than one more sequence each.
    """
    rng = random.Random(seed)
    cases = [_configure_case(60, 4, 2, 5)]
    for num_devices in (1, 2, 3, 8):
        any_size = (rng.randint(20, 60), rng.randint(3, 12))
        for each, largest in ((12, 8), (30, 7), (7, 4), (24, 6), any_size):
            seq_len = rng.choice((16, 21, 64, 4096))
            left_over = rng.choice((0, seq_len // 2, seq_len * num_devices - 1))
            tokens = seq_len * num_devices * each + left_over
            cases.append(_configure_case(tokens, seq_len, num_devices, largest))
    cases.append(_configure_case(4096 * 4 * rng.randint(5, 30) + 4095, 4096, 4, 32))
    cases.append(_configure_case(2048 * 4 * rng.randint(5, 30), 2048, 4, 1))
    seq_len = 64 * rng.randint(16, 64)
    cases.append(
        _configure_case(seq_len * 2 * 22, seq_len, 2, 5)
    )  # in the fewest passes 4, 4, 4, 4, 4 and 2
    seq_len, num_devices = (2**25 + rng.randrange(1, 99, 2) for _ in range(2))
    return [*cases, _configure_case(seq_len * num_devices * 25 - 1, seq_len, num_devices, 9)]


def _configure_case(*values: int) -> Case:
    return named(CONFIGURE_NAMES, values)


@declares_check(
    "u08-configure", configuration_cases, fallback="course_utils.formulas.batch_size.configuration"
)
def brute_force(
    global_batch_tokens: int, seq_len: int, num_devices: int, max_micro_batch: int
) -> dict[str, int]:
    """The best of all micro-batches, each accumulated as long as the batch allows."""
    pass_tokens = [num_devices * b * seq_len for b in range(1, max_micro_batch + 1)]
    tokens, b = max((global_batch_tokens // n * n, b) for b, n in enumerate(pass_tokens, 1))
    return named(NAMES, (b, tokens // pass_tokens[b - 1], tokens))


# === u08-noise-scale
# The noise scale, from the gradients of all examples.


Rows = list[list[float]]

BATCH_SIZE = 2  # of the batches that the measurement draws


def noise_scale_cases(seed: int) -> list[Case]:
    """Few and many examples; gradients that are equal, nearly equal, cancel, are zero or tiny."""
    rng = random.Random(seed)
    cases: list[Rows] = [[[4.0, 1.0], [0.0, -3.0]]]
    cases += [_around_a_mean(rng, n, p) for n in (2, 3, 4, 5, 7) for p in (2, 3, 5)]
    cases += [_cancelling(rng, n, p) for n, p in ((2, 3), (3, 2), (5, 4))]
    cases += [_equal(rng, n, p) for n, p in ((2, 3), (4, 2))]
    cases += [_nearly_equal(rng, n, p) for n, p in ((2, 2), (2, 3), (2, 2))]
    cases += [[[0.0] * rng.randint(2, 9)] * rng.randint(2, 9)]
    cases += [_tiny(_around_a_mean(rng, n, 3), power) for n, power in ((2, -9), (4, -9), (3, -60))]
    return [{"gradients": rows} for rows in cases]


def _row(rng: random.Random, num_params: int, low: int) -> list[float]:
    return [float(rng.randint(low, 6)) for _ in range(num_params)]


def _around_a_mean(rng: random.Random, num_examples: int, num_params: int) -> Rows:
    """Examples that differ, and whose sum is not zero."""
    rows = [_row(rng, num_params, -4) for _ in range(num_examples)]
    rows[0][0], rows[1][0] = 7.0, 3.0
    if sum(row[0] for row in rows) == 0:
        rows[0][0] += 1
    return rows


LEAST_OF_NEARLY_EQUAL = 2.0**24


def _nearly_equal(rng: random.Random, num_examples: int, num_params: int) -> Rows:
    """Pairs on two sides of a large mean, whose squares have no digits left for the distance.

    Means are whole multiples of 2^20, so that sums of squares are rounded once, to those of the
    mean: what an answer gives that takes their difference is the same number on every machine.
    """
    middle = [rng.randint(17, 31) * 2.0**20 for _ in range(num_params)]
    rows = []
    for _ in range(num_examples // 2):
        distances = [rng.choice((1, 2)) / 16 for _ in middle]
        rows += [[m + sign * d for m, d in zip(middle, distances, strict=True)] for sign in (1, -1)]
    return rows


def _equal(rng: random.Random, num_examples: int, num_params: int) -> Rows:
    """The same gradient for all, also after a division by its largest number: a power of two."""
    return [[8.0, *_row(rng, num_params - 1, 1)]] * num_examples


def _tiny(rows: Rows, power: int) -> Rows:
    return [[float(f"{each}e{power}") for each in row] for row in rows]


def _cancelling(rng: random.Random, num_examples: int, num_params: int) -> Rows:
    """Examples whose sum is zero, also after a division by their largest number: a power of two."""
    rows = [_row(rng, num_params, 1) for _ in range(num_examples - 1)]
    largest = max(map(sum, zip(*rows, strict=True)))
    rows[0][0] += 2.0 ** math.ceil(math.log2(largest)) - sum(row[0] for row in rows)
    return [*rows, [-sum(column) for column in zip(*rows, strict=True)]]


def _mean(rows: Any) -> list[Fraction]:
    return [
        sum(map(Fraction, column), Fraction()) / len(rows) for column in zip(*rows, strict=True)
    ]


def _of_nearly_equal_rows(gradients: Rows) -> Plain:
    """The right noise scale of rows that are nearly equal, which an answer comes close to."""
    is_far_from_zero = min(map(min, gradients)) > LEAST_OF_NEARLY_EQUAL
    return enumerated_noise_scale(gradients) if is_far_from_zero else {}


@declares_check(
    "u08-noise-scale",
    noise_scale_cases,
    observer=noise_scale,
    judge=ValueJudge,
    symptoms=(
        Symptom(
            "Right but where the rows are nearly equal: there some digits are lost. Which of your "
            "operations rounds the large numbers before you take their differences?",
            _of_nearly_equal_rows,
        ),
    ),
    relative_tolerance=PROMISED,
    fallback="course_utils.reference.batch_experiment.noise_scale",
    give_away=("course_utils.reference.batch_experiment.noise_scale",),
)
def enumerated_noise_scale(gradients: Rows) -> float:
    """The noise scale without a covariance: from every batch of two that can be drawn.

    The mean squared distance of a batch's gradient from that of all, times the batch size, over
    the squared norm of the latter; in fractions.
    """
    whole = _mean(gradients)
    batches = list(itertools.product(gradients, repeat=BATCH_SIZE))
    distances = (
        sum((one - other) ** 2 for one, other in zip(_mean(batch), whole, strict=True))
        for batch in batches
    )
    squared_norm = sum(each**2 for each in whole)
    if squared_norm == 0:
        return math.inf
    return float(BATCH_SIZE * sum(distances) / len(batches) / squared_norm)


# === u08-tradeoff
# The hyperbola that trades steps against examples.


def tradeoff_cases(seed: int) -> list[Case]:
    """Batches at, far below and far above the critical size, which is often fractional."""
    rng = random.Random(seed)
    names = ("min_steps", "critical_batch_size", "batch_size")
    cases = [(100.0, 30.0, 10)]
    for power in (-10, -7, -4, -2, -1, 1, 2, 4, 7, 10):
        for _ in range(2):
            batch_size = rng.randint(1, 999)
            critical = round(batch_size * 2**-power * rng.uniform(0.8, 1.2), 4)
            cases.append((float(rng.randint(5, 90_000)), critical, batch_size))
    sizes = [rng.randint(2, 5000) for _ in range(3)]
    cases += [(float(rng.randint(5, 900)), float(size), size) for size in sizes]
    return [named(names, each) for each in cases]


@declares_check(
    "u08-tradeoff",
    tradeoff_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.batch_size.steps_and_examples",
)
def on_the_hyperbola(
    min_steps: float, critical_batch_size: float, batch_size: int
) -> dict[str, float]:
    """Steps and examples by bisection: where E = B S meets the hyperbola, with S > S_min."""

    def is_beyond(excess: float) -> bool:
        """Whether (S / S_min - 1) (E / E_min - 1) >= 1 for S = S_min (1 + excess)."""
        return excess * (batch_size * (1 + excess) / critical_batch_size - 1) >= 1

    low, high = 0.0, 1.0
    while not is_beyond(high):
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    steps = min_steps * (1 + high)
    return {"steps": steps, "examples": batch_size * steps}


# === u08-mean-of-means
# The lecture's running mean: how much does one token of each sequence count?


def weight_cases(seed: int) -> list[Case]:
    """Ragged and equal lengths; micro-batches of one, of all, and a smaller last one."""
    rng = random.Random(seed)
    pairs = [[rng.randint(26, 32), rng.randint(2, 5)] for _ in range(4)]
    cases = [
        _mean_of_means_case([3, 1, 2], 2),
        _mean_of_means_case([length for pair in pairs for length in pair], 2),
    ]
    for num_sequences, size in ((6, 2), (7, 3), (5, 1), (9, 4), (6, 3), (8, 3)):
        for _ in range(2):
            cases.append(_mean_of_means_case(rng.sample(range(1, 30), num_sequences), size))
    for num_sequences, size in ((4, 4), (6, 2), (7, 2), (5, 5)):
        cases.append(_mean_of_means_case([rng.randint(2, 20)] * num_sequences, size))
    for num_sequences, size in ((4, 4), (5, 7)):
        cases.append(_mean_of_means_case(rng.sample(range(1, 30), num_sequences), size))
    return cases


def _mean_of_means_case(lengths: list[int], micro_batch_size: int) -> Case:
    return {"lengths": lengths, "micro_batch_size": micro_batch_size}


@declares_check(
    "u08-mean-of-means",
    weight_cases,
    observer=mean_of_means,
    relative_tolerance=tolerance(cancelled=4),  # quotients of small integers
    fallback="course_utils.formulas.batch_size.token_weights",
)
def measured_mean_of_means(lengths: list[int], micro_batch_size: int) -> dict[str, float]:
    """Derivatives of the running mean with respect to the loss of each sequence's first token."""
    losses = [torch.ones(length, dtype=torch.float64, requires_grad=True) for length in lengths]
    starts = range(0, len(losses), micro_batch_size)
    mean = torch.zeros((), dtype=torch.float64)
    for start in starts:
        mean = mean + torch.cat(losses[start : start + micro_batch_size]).mean() / len(starts)
    gradients = torch.autograd.grad(mean, losses)
    return {f"sequence_{number}": each[0].item() for number, each in enumerate(gradients, 1)}


# === u08-train
# A training loop over groups of micro-batches: steps, weights, and what it reports.


TRAIN_SCENARIOS = ("accumulation", "clipping", "schedule", "last group", "old gradients", "no step")
TRAIN_NAMES = ("scenario", "lengths", "micro_batches_per_step", "max_norm", "broken", "kind")
NO_CLIPPING = 1e9


def train_cases(seed: int) -> list[Case]:
    """Every scenario twice or more, with groups of two to four micro-batches, some long."""
    rng = random.Random(seed)
    cases = [_train_case("accumulation", [[3], [1], [2], [5]], 2)]
    for size in (2, 3, 2):
        two = _micro_batches(rng, size) + _micro_batches(rng, size)
        max_norm = round(rng.uniform(0.02, 0.04), 3)
        cases.append(_train_case("accumulation", two, size))
        cases.append(_train_case("clipping", two, size, max_norm=max_norm))
        cases.append(_train_case("schedule", two, size))
        cases.append(_train_case("last group", two[:-1], size))
    for size in (3, 4):
        shorter = LONG - rng.randint(1, 20)
        lengths = [[LONG], *([shorter - n] for n in range(2 * size - 1))]
        cases.append(_train_case("accumulation", lengths, size))
    for size in (2, 3):
        two = _micro_batches(rng, size) + _micro_batches(rng, size)
        cases.append(_train_case("old gradients", two, size))
    two = _micro_batches(rng, 3) + _micro_batches(rng, 3)
    two[rng.randint(1, 2)] = [0, 0]  # the others of its group have targets
    cases.append(_train_case("accumulation", two, 3))
    for _ in range(2):
        first, middle, last = (_micro_batches(rng, 2) for _ in range(3))
        cases.append(_train_case("no step", [*first, [0, 0], [0, 0], *last], 2, kind="targets"))
        for kind in ("loss", "gradient"):
            three, broken = [*first, *middle, *last], rng.choice((2, 3))
            cases.append(_train_case("no step", three, 2, broken=broken, kind=kind))
    return cases


def _micro_batches(rng: random.Random, count: int) -> list[list[int]]:
    """Lengths of each micro-batch of a group, two sequences each."""
    lengths = ragged(rng, 2 * count)
    return [lengths[2 * n : 2 * n + 2] for n in range(count)]


def _train_case(scenario: str, lengths: list[list[int]], size: int, **others: float | str) -> Case:
    """A case; by default nothing is clipped or broken."""
    values = (scenario, lengths, size, NO_CLIPPING, -1, "")
    return named(TRAIN_NAMES, values) | others


def _step(run: Run, group: Batches, max_norm: float) -> float | None:
    losses = torch.cat([losses_of(run.model, *each) for each in group])
    if not len(losses):
        return None
    mean, weights = losses.sum() / len(losses), list(run.model.parameters())
    gradients = torch.autograd.grad(mean, weights)
    length = length_of([*gradients])
    if not (math.isfinite(mean.item()) and math.isfinite(length)):
        return None
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = min(1.0, max_norm / length) * gradient
    run.optimizer.step()
    run.scheduler.step()
    return mean.item()


def _train_bytes_of(case: Case) -> list[int]:
    run = Run(case)
    return [run.peak_bytes(accumulation.train, []), kept_bytes(run.model, *run.batches[0])]


@declares_check(
    "u08-train",
    train_cases,
    observer=train,
    scenarios=TRAIN_SCENARIOS,
    relative_tolerance=TOLERANCE,
    fallback="course_utils.reference.accumulation.train",
    give_away=(
        "course_utils.reference.accumulation.train",
        "course_utils.reference.accumulation._step",
        "course_utils.reference.accumulation.sum_of_losses",
    ),
    allowed_names=uses_reference.TOKEN_LOSS,
)
def measured_train(**case: Any) -> dict[str, Any]:
    """Steps, weights and report of a loop that takes all targets of a group at once.

    Of memory, the peak of a right loop, and the bytes that one micro-batch keeps.
    """
    run, size = Run(case), case["micro_batches_per_step"]
    groups = [run.batches[start : start + size] for start in range(0, len(run.batches), size)]
    report = [_step(run, group, case["max_norm"]) for group in groups]
    return {
        "steps": len(run.path),
        "schedule_steps": len(run.path),
        "right_steps": len(run.path),
        "weights_moved": run.path[-1],
        "results": len(groups),
        "reported": sum(filter(None, report)),
        "path": run.path,
        "weights": run.weights(),
        "report": report,
        "bytes": _train_bytes_of(case) if is_long(case) else [],
    }


# === u08-two-batch
# The noise scale from the norms of two batches.


def two_batch_cases(seed: int) -> list[Case]:
    """Near and far batch sizes; |G|**2 below, at and just above zero; a negative trace."""
    rng = random.Random(seed)
    cases = [(5.0, 3.0, 2, 4)]
    for small, factor in ((1, 2), (1, 64), (2, 5), (3, 7), (8, 64), (16, 3), (4, 256)):
        cases += [_norms(rng, small, small * factor, 1) for _ in range(2)]
    for small, big in ((1, 3), (2, 32), (8, 512), (5, 10)):
        cases.append(_norms(rng, small, big, -1))
    for small, big in ((1, 4), (4, 12)):
        least = rng.randint(2, 9)
        cases.append((float(least), least + rng.randint(1, 4) / 4, small, big))
    trace = 8.0 * rng.randint(1, 9)
    cases.append((trace / 4, trace / 8, 4, 8))  # |G|**2 is zero, without any rounding
    for scale, small, big in ((2.0**-50, 2, 8), (2.0**-120, 4, 20)):
        small_norm, big_norm, *_ = _norms(rng, small, big, 1)
        cases.append((scale * small_norm, scale * big_norm, small, big))
    names = ("small_squared_norm", "big_squared_norm", "small_batch_size", "big_batch_size")
    return [named(names, each) for each in cases]


def _norms(rng: random.Random, small: int, big: int, sign: int) -> tuple[float, float, int, int]:
    """Squared norms for which the estimate of |G|**2 has a given sign and is not near zero."""
    trace, squared_norm = rng.randint(8, 40) * big / 4, sign * rng.randint(3, 9) / 4
    while squared_norm + trace / big <= 0:
        trace += big / 4
    return squared_norm + trace / small, squared_norm + trace / big, small, big


@declares_check(
    "u08-two-batch",
    two_batch_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.batch_size.estimate_noise",
)
def solved_estimate(
    small_squared_norm: float, big_squared_norm: float, small_batch_size: int, big_batch_size: int
) -> dict[str, float]:
    """The estimates by Cramer's rule on two equations, in fractions.

    ``1 * |G|**2 + (1 / B) * tr(Σ) = |G_B|**2`` for both batch sizes.
    """
    small, big = Fraction(small_squared_norm), Fraction(big_squared_norm)
    one, other = Fraction(1, small_batch_size), Fraction(1, big_batch_size)
    determinant = other - one
    squared_norm, trace = (small * other - one * big) / determinant, (big - small) / determinant
    return {
        "squared_norm": float(squared_norm),
        "trace": float(trace),
        "noise_scale": float(trace / squared_norm) if squared_norm > 0 else math.inf,
    }


# === u08-buffer
# Gradients that are summed in fp32, and never all alive at once in bf16.


NUM_LAYERS = 12


def buffer_cases(seed: int) -> list[Case]:
    """One micro-batch and many; also with a frozen layer, or a weight that two layers share."""
    rng = random.Random(seed)
    cases = [_buffer_case(16, 2, "plain")]
    for num_micro_batches in (2, 1, 3, 6):
        for kind in ("plain", "frozen", "shared", "frozen", "shared"):
            cases.append(_buffer_case(rng.randint(8, 16), num_micro_batches, kind))
    return cases


def _buffer_case(width: int, num_micro_batches: int, kind: str) -> Case:
    return {
        "num_layers": NUM_LAYERS,
        "width": width,
        "num_micro_batches": num_micro_batches,
        "kind": kind,
    }


@declares_check(
    "u08-buffer",
    buffer_cases,
    observer=buffer,
    relative_tolerance=SUMMED,
    fallback="course_utils.reference.accumulation.sum_in_fp32",
    give_away=(
        "course_utils.reference.accumulation.sum_in_fp32",
        "course_utils.reference.accumulation._move_gradient_to",
    ),
)
def measured_buffer(**case: Any) -> dict[str, Any]:
    """A buffer for each trainable weight, with the sum in float64, and no gradient left."""
    model = model_of(case)
    weights = [each for each in model.parameters() if each.requires_grad]
    sums = [torch.zeros_like(each, dtype=torch.float64) for each in weights]
    for x in inputs_of(case):
        gradients = torch.autograd.grad(loss_of(model, x), weights)
        sums = [total + each for total, each in zip(sums, gradients, strict=True)]
    return {
        "buffers": len(weights),
        "length": torch.cat([each.flatten() for each in sums]).norm().item(),
        "sums": [each.float() for each in sums],
    }
