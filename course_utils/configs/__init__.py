"""What a run is made of, as frozen sizes: models and devices, with their published presets."""

from course_utils.configs.hardware import DEVICES, Device, device
from course_utils.configs.model import Experts, LatentAttention, ModelConfig
from course_utils.configs.presets import MODELS, preset

__all__ = [
    "DEVICES",
    "MODELS",
    "Device",
    "Experts",
    "LatentAttention",
    "ModelConfig",
    "device",
    "preset",
]
