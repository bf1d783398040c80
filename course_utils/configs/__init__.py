"""Frozen sizes that describe a run: models, precisions, runs, devices."""

from course_utils.configs.hardware import DEVICES, Device, device
from course_utils.configs.machine import (
    LAST_STAGE,
    PLAN_TAKES_NAMES,
    REACHED,
    Costs,
    Machine,
    NoSuchPlan,
    Plan,
    machine_of,
)
from course_utils.configs.model import Experts, LatentAttention, ModelConfig
from course_utils.configs.model_presets import MODELS, gpt, preset
from course_utils.configs.number_formats import BF16_BYTES, FORMATS, FP32_BYTES, NumberFormat
from course_utils.configs.pipeline import Action, Placement, Schedule
from course_utils.configs.precisions import PRECISIONS, Precision, precision
from course_utils.configs.run import DEFAULT_KERNELS, Kernels, RunConfig
