"""Reference implementations in torch, readable in one sitting."""

from course_utils.reference.training import Training
from course_utils.reference.transformer import Block, Transformer, token_loss

__all__ = ["Block", "Training", "Transformer", "token_loss"]
