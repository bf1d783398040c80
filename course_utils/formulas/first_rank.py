"""How many bytes does the first rank of a pipeline hold, at least and with what nanotron adds?

The sum of the first three parts is a lower bound; `rank_memory` has the same with what is small.

    >>> sizes = {"parameters": 10**9, "layers": 8, "layer_bytes": 10**9, "logits": 0}
    >>> first_rank_bytes(sizes, Plan(data=4, pipeline=2, zero_stage=1), 64)["state"]
    9000000000
"""

from collections.abc import Mapping

from course_utils.configs import Plan

WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2, 4, 12
LOGIT_BYTES = 8  # in fp32, and their gradient


def first_rank_bytes(
    sizes: Mapping[str, int], plan: Plan, num_micro_batches: int
) -> dict[str, int]:
    """Bytes of world rank 0, by part: bf16 weights, fp32 gradients, 1F1B, DDP or ZeRO-1.

    Args:
        sizes: ``parameters`` and ``layers`` of this rank's stage; ``layer_bytes`` that a layer
            keeps for one sequence and ``logits`` of one sequence, on all tensor ranks together.
        plan: With stage 0 or 1.
        num_micro_batches: Of a step.

    Returns:
        ``state``, ``layers``, ``logits`` and ``added``: what nanotron holds beside them.
    """
    n, replicas = sizes["parameters"], plan.data > 1
    is_sharded = replicas and plan.zero_stage == 1
    share = -(-n // plan.data) if is_sharded else n
    buckets = WEIGHT_BYTES * n if replicas and not is_sharded else 0
    in_flight = min(plan.pipeline, num_micro_batches)
    kept = plan.micro_batch * sizes["layers"] * sizes["layer_bytes"] // plan.tensor
    logits = LOGIT_BYTES * plan.micro_batch * sizes["logits"] // plan.tensor
    return {
        "state": (WEIGHT_BYTES + GRADIENT_BYTES) * n + OPTIMIZER_BYTES * share + buckets,
        "layers": in_flight * kept,
        "logits": logits if plan.pipeline == 1 else 0,
        "added": (2 if is_sharded else 1) * WEIGHT_BYTES * n,
    }
