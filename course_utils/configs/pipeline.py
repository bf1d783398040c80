"""What does each stage of a pipeline hold, and in which order does it work?

A model is cut into parts. A stage holds one of them, or several **chunks**:

    looped   chunk c of stage s is part c p + s: down all stages, then again from the first
    V        odd chunks run backwards: down all stages, and up again

A schedule has one list of actions for each stage. An action is ``(kind, micro_batch, chunk)``, and
its kind is one of

    F   forward
    B   backward, whole: the gradients of the part's input and of its weights
    I   the gradient of the input alone, for which the part before waits
    W   the gradients of the weights, for which nobody waits

Sources: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters",
section 2.2 (chunks); Qi et al. 2024, "Zero Bubble Pipeline Parallelism", sections 2 and 6 (I and W,
V).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from course_utils.configs.validation import require_positive

KINDS = ("F", "B", "I", "W")

Action = tuple[str, int, int]
"""Kind, micro-batch, chunk."""

Schedule = Sequence[Sequence[Action]]
"""The actions of each stage, in order."""


@dataclass(frozen=True)
class Placement:
    """Where the parts of a model lie.

    Attributes:
        num_stages: Stages p, one on each device.
        num_chunks: Parts of each stage.
        is_v: Whether odd chunks run from the last stage to the first.
    """

    num_stages: int
    num_chunks: int = 1
    is_v: bool = False

    def __post_init__(self) -> None:
        """Refuse a pipeline without stages or chunks."""
        require_positive("Placement", num_stages=self.num_stages, num_chunks=self.num_chunks)

    @property
    def num_parts(self) -> int:
        """Parts of the model: stages times chunks."""
        return self.num_stages * self.num_chunks

    def part(self, stage: int, chunk: int) -> int:
        """Which part of the model a chunk of a stage is, from zero."""
        return chunk * self.num_stages + self._turned(stage, chunk)

    def stage_of(self, part: int) -> int:
        """Which stage holds a part."""
        chunk, place = divmod(part, self.num_stages)
        return self._turned(place, chunk)

    def chunk_of(self, part: int) -> int:
        """Which chunk of its stage a part is."""
        return part // self.num_stages

    def _turned(self, place: int, chunk: int) -> int:
        return self.num_stages - 1 - place if self.is_v and chunk % 2 else place


def name_of(action: Action, num_chunks: int = 1) -> str:
    """An action in short: ``F3``, or ``F3.1`` of chunk 1 where a stage has several."""
    kind, micro_batch, chunk = action
    return f"{kind}{micro_batch}" + (f".{chunk}" if num_chunks > 1 else "")
