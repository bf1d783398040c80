"""How well do two constants, taken from published rows, predict rows they have not seen?

>>> errors = held_out("A100-80")
>>> len(errors), round(100 * max(map(abs, errors.values())), 1)
(59, 34.6)
"""

from collections.abc import Sequence

from course_utils.configs import Machine, ModelConfig, machine_of
from course_utils.formulas.calibration import calibrate, held_out_errors
from course_utils.formulas.step_parts import token_seconds
from course_utils.records import FoundryRun, one_node_runs

DEVICES = {"A100-80": "A100-80", "A100-40": "A100-40", "H100": "H100-SXM"}
BF16_BYTES, GATHERS = 2, 3  # weights forward, weights backward, gradients


def model_of_run(run: FoundryRun) -> ModelConfig:
    """The sizes of a run's model."""
    return ModelConfig(
        num_layers=run.num_layers,
        hidden_size=run.hidden_size,
        num_heads=run.num_heads,
        ffn_size=run.ffn_size,
        vocab_size=run.vocab_size,
        num_positions=run.seq_len,
        is_gated=False,
        is_tied=True,
    )


def machine_of_run(run: FoundryRun) -> Machine:
    """The devices of a run."""
    return machine_of(DEVICES[run.device], run.num_devices)


def row_of_run(run: FoundryRun) -> list[float]:
    """Seconds of a token: products and gathers, attention, elementwise, measured.

    Weights are gathered twice in each micro-batch and gradients scattered once, none of it hidden.
    """
    machine = machine_of_run(run)
    parts = token_seconds(model_of_run(run), run.seq_len, machine, bool(run.recompute_all_layers))
    share = (run.num_devices - 1) / run.num_devices
    sent = GATHERS * BF16_BYTES * run.num_parameters * share / machine.link_bytes_per_second
    gathers = sent / (run.micro_batch_sequences * run.seq_len)
    measured = 1 / run.tokens_per_second_per_device
    return [parts["products"] + gathers, parts["attention"], parts["elementwise"], measured]


def constants_of(runs: Sequence[FoundryRun]) -> dict[str, float]:
    """``attention`` and ``elementwise``, calibrated on runs."""
    return calibrate([row_of_run(run) for run in runs])


def held_out(device: str) -> dict[FoundryRun, float]:
    """Error of each one-node row of a device, with constants from all other model sizes.

    Returns:
        By row: tokens per second predicted over measured, less one.
    """
    runs = one_node_runs(device)
    errors = held_out_errors([row_of_run(run) for run in runs], [run.model for run in runs])
    return dict(zip(runs, errors, strict=True))
