"""Checks of unit 03: memory accounting."""

from autograder.exercises.u03 import (
    gpt_layer,
    implement,
    kept_by_operation,
    llama_layer_bytes,
    microscope,
    parameters,
    state_bytes,
    whole,
)

CHECKS = {
    "u03-parameters": parameters.PARAMETERS,
    "u03-state-bytes": state_bytes.STATE_BYTES,
    "u03-kept-by-operation": kept_by_operation.KEPT_BY_OPERATION,
    "u03-microscope": microscope.MICROSCOPE,
    "u03-gpt-layer-bytes": gpt_layer.GPT_LAYER_BYTES,
    "u03-llama-layer-bytes": llama_layer_bytes.LLAMA_LAYER_BYTES,
    "u03-sequence-bytes": whole.SEQUENCE_BYTES,
    "u03-largest-micro-batch": whole.LARGEST_MICRO_BATCH,
    "u03-fused-gate": implement.FUSED_GATE,
    "u03-lost-bytes": implement.LOST_BYTES,
    "u03-element-bytes": gpt_layer.ELEMENT_BYTES_OF_LAYER,
}
