"""Checks of unit 01: transformer FLOPs."""

from autograder.exercises.u01 import (
    budget_ratio,
    conventions,
    derived,
    expert_parameters,
    latent_attention_flops,
    layers,
    matmul_flops,
    model,
    stack_training_flops,
)

CHECKS = {
    "u01-matmul-flops": matmul_flops.MATMUL_FLOPS,
    "u01-attention-flops": layers.ATTENTION_FLOPS,
    "u01-gated-mlp-flops": layers.GATED_MLP_FLOPS,
    "u01-model-flops": model.MODEL_FLOPS,
    "u01-stack-training-flops": stack_training_flops.STACK_TRAINING_FLOPS,
    "u01-crossover-length": derived.CROSSOVER_LENGTH,
    "u01-gpu-days": derived.GPU_DAYS,
    "u01-training-flops-per-token": model.REPAIRED_FLOPS_PER_TOKEN,
    "u01-multiplying-parameters": conventions.MULTIPLYING_PARAMETERS,
    "u01-utilisation": conventions.UTILISATION,
    "u01-budget-ratio": budget_ratio.BUDGET_RATIO,
    "u01-latent-attention-flops": latent_attention_flops.LATENT_ATTENTION_FLOPS,
    "u01-expert-parameters": expert_parameters.EXPERT_PARAMETERS,
}
