"""Checks of unit 01: transformer FLOPs."""

from course_utils.checks.u01 import (
    budget,
    conventions,
    derived,
    experts,
    latent,
    layers,
    matmul,
    model,
    training,
)

CHECKS = {
    "u01-matmul-flops": matmul.MATMUL_FLOPS,
    "u01-attention-flops": layers.ATTENTION_FLOPS,
    "u01-gated-mlp-flops": layers.GATED_MLP_FLOPS,
    "u01-model-flops": model.MODEL_FLOPS,
    "u01-stack-training-flops": training.STACK_TRAINING_FLOPS,
    "u01-crossover-length": derived.CROSSOVER_LENGTH,
    "u01-gpu-days": derived.GPU_DAYS,
    "u01-training-flops-per-token": model.REPAIRED_FLOPS_PER_TOKEN,
    "u01-multiplying-parameters": conventions.MULTIPLYING_PARAMETERS,
    "u01-utilisation": conventions.UTILISATION,
    "u01-budget-ratio": budget.BUDGET_RATIO,
    "u01-latent-attention-flops": latent.LATENT_ATTENTION_FLOPS,
    "u01-expert-parameters": experts.EXPERT_PARAMETERS,
}
