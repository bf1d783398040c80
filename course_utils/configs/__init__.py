"""What a run is made of, as frozen sizes: models, precisions, runs, devices, with presets."""

from course_utils.configs.hardware import DEVICES, Device, device
from course_utils.configs.model import Experts, LatentAttention, ModelConfig
from course_utils.configs.precisions import PRECISIONS, Precision, precision
from course_utils.configs.presets import MODELS, preset
from course_utils.configs.run import DEFAULT_KERNELS, Kernels, RunConfig

__all__ = [
    "DEFAULT_KERNELS",
    "DEVICES",
    "MODELS",
    "PRECISIONS",
    "Device",
    "Experts",
    "Kernels",
    "LatentAttention",
    "ModelConfig",
    "Precision",
    "RunConfig",
    "device",
    "precision",
    "preset",
]
