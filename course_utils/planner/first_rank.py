"""What `formulas.first_rank` takes, for a row of the Playbook.

>>> from course_utils.records.sweeps import runs
>>> sizes, plan = first_rank_of(runs("playbook_runs")[0])
>>> sizes["layers"], plan.pipeline
(10, 2)
"""

from course_utils.configs import Plan
from course_utils.formulas.rank_memory import nanotron_layer_bytes
from course_utils.formulas.stage_cut import cut_by_cost, rank_parameters
from course_utils.planner.truth.measured import step_of
from course_utils.records.sweeps import Run


def first_rank_of(run: Run) -> tuple[dict[str, int], Plan]:
    """Sizes of a row's first rank, and the row's plan."""
    step = step_of(run)
    stage = cut_by_cost(step.model, run.pipeline)[0]
    sizes = {
        "parameters": rank_parameters(step.model, stage, run.tensor),
        "layers": stage.num_layers,
        "layer_bytes": nanotron_layer_bytes(step.model, run.seq_len),
        "logits": run.seq_len * run.vocab_size,
    }
    return sizes, step.plan
