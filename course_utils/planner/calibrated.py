"""How well do two constants, taken from published rows, predict rows they have not seen?

>>> errors = held_out(settled_runs("A100-80"))
>>> len(errors), round(100 * max(map(abs, errors.values())), 1)
(52, 7.3)
"""

from collections.abc import Sequence

from course_utils.configs import Machine, ModelConfig, machine_of
from course_utils.formulas.calibration import held_out_errors
from course_utils.formulas.plan import update_seconds
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


def settled_runs(device: str) -> list[FoundryRun]:
    """One-node rows of a device on which their source does not contradict itself."""
    return [run for run in one_node_runs(device) if not run.contradiction]


def row_of_run(run: FoundryRun) -> list[float]:
    """Seconds of a token: products and gathers, attention, elementwise, measured.

    Weights are gathered twice in each micro-batch and gradients scattered once, none of it hidden.
    Once in a step each device updates its share of the parameters, which only moves bytes.
    """
    machine = machine_of_run(run)
    parts = token_seconds(model_of_run(run), run.seq_len, machine, bool(run.recompute_all_layers))
    share = (run.num_devices - 1) / run.num_devices
    sent = GATHERS * BF16_BYTES * run.num_parameters * share / machine.link_bytes_per_second
    tokens = run.micro_batch_sequences * run.seq_len
    update = update_seconds(run.num_parameters / run.num_devices, machine)
    elementwise = parts["elementwise"] + update / (run.accumulation * tokens)
    measured = 1 / run.tokens_per_second_per_device
    return [parts["products"] + sent / tokens, parts["attention"], elementwise, measured]


def held_out(runs: Sequence[FoundryRun]) -> dict[FoundryRun, float]:
    """Error of each row, with constants from all other model sizes.

    Args:
        runs: Of one device.

    Returns:
        By row: tokens per second predicted over measured, less one.
    """
    errors = held_out_errors([row_of_run(run) for run in runs], [run.model for run in runs])
    return dict(zip(runs, errors, strict=True))
