"""Reference implementations in torch, readable in one sitting."""

from course_utils.reference.transformer import Block, Transformer

__all__ = ["Block", "Transformer"]
