"""How well do two constants, taken from published rows, predict rows they have not seen?

>>> errors = held_out(settled_runs("A100-80"))
>>> len(errors), round(100 * max(map(abs, errors.values())), 1)
(52, 7.3)
"""

from collections.abc import Sequence

from course_utils.configs import Machine, ModelConfig, Plan, machine_of
from course_utils.formulas.calibration import held_out_errors
from course_utils.formulas.cluster_step import Framework, StepWork, step_work
from course_utils.formulas.stage_cut import cut_evenly
from course_utils.formulas.step import Step
from course_utils.planner.rates import rates_of
from course_utils.records import FoundryRun, one_node_runs

DEVICES = {"A100-80": "A100-80", "A100-40": "A100-40", "H100": "H100-SXM"}
FSDP = Framework(cut=cut_evenly, loss_bytes=24, sum_bytes=0, update_bytes=0, is_summed_whole=False)


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


def step_of_run(run: FoundryRun) -> Step:
    """A run as a step of FSDP's."""
    plan = Plan(
        data=run.num_devices,
        zero_stage=3,
        micro_batch=run.micro_batch_sequences,
        is_recomputed=bool(run.recompute_all_layers),
    )
    num_sequences = run.num_devices * run.micro_batch_sequences * run.accumulation
    return Step(model_of_run(run), run.seq_len, num_sequences, plan)


def work_of_run(run: FoundryRun) -> StepWork:
    """Its work, at the rates of its devices."""
    return step_work(step_of_run(run), FSDP, rates_of(machine_of_run(run)))


def row_of_run(run: FoundryRun) -> list[float]:
    """Seconds of a token: products and gathers, attention, elementwise, measured.

    Weights are gathered twice in each micro-batch and gradients scattered once, none of it hidden.
    Once in a step each device updates its share of the parameters, which only moves bytes.
    """
    work, passes = work_of_run(run), run.accumulation
    parts = (
        passes * work.products[0] + work.replicas,
        passes * work.attention[0],
        passes * work.moved[0] + work.update,
    )
    tokens = passes * run.micro_batch_sequences * run.seq_len
    return [*(float(each) / tokens for each in parts), 1 / run.tokens_per_second_per_device]


def held_out(runs: Sequence[FoundryRun]) -> dict[FoundryRun, float]:
    """Error of each row, with constants from all other model sizes.

    Args:
        runs: Of one device.

    Returns:
        By row: tokens per second predicted over measured, less one.
    """
    errors = held_out_errors([row_of_run(run) for run in runs], [run.model for run in runs])
    return dict(zip(runs, errors, strict=True))
