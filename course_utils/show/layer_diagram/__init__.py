"""A transformer layer as a drawing: operations as boxes, tensors as bars to scale.

`layer_diagram` is a still picture; on `layer_explorer` a student marks what autograd keeps and asks
the instrument. Both show the same drawing.
"""

from course_utils.show.layer_diagram.drawing import layer_diagram
from course_utils.show.layer_diagram.layer_explorer import layer_explorer

__all__ = ["layer_diagram", "layer_explorer"]
