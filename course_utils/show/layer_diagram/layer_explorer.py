"""The clickable drawing of a layer: a student's marks against what the instrument counts."""

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course_utils.configs import DEFAULT_KERNELS, Kernels, ModelConfig
from course_utils.show.layer_diagram.drawing import draw
from course_utils.show.layer_diagram.facts import short_bytes
from course_utils.show.layer_diagram.layer import LayerPass, sub_layers
from course_utils.show.layer_diagram.reasons import reasons
from course_utils.show.layer_diagram.saved import saved_by_name

HERE = Path(__file__).parent
QUESTION = "Click every tensor that is kept for backward. Click a box to see its numbers."


class LayerExplorer(anywidget.AnyWidget):
    """One layer to click on.

    Attributes:
        marked: Names of the tensors that the student marked as kept for backward.
        verdicts: After asking, ``"right"``, ``"missed"`` or ``"extra"`` by name.
        reasons: After asking, why what is kept is kept.
        message: One sentence on the marks.
        asked: How often the instrument was asked.
    """

    _esm = HERE / "layer_explorer.js"
    _css = HERE / "layer_explorer.css"
    svg = traitlets.Unicode().tag(sync=True)
    marked = traitlets.List(traitlets.Unicode()).tag(sync=True)
    verdicts = traitlets.Dict().tag(sync=True)
    reasons = traitlets.List(traitlets.Unicode()).tag(sync=True)
    message = traitlets.Unicode(QUESTION).tag(sync=True)
    asked = traitlets.Int(0).tag(sync=True)

    def __init__(self, run: LayerPass) -> None:
        """Draw the layer; nothing is measured before the student asks."""
        self._run, self._still = run, draw(run)
        tensors = (tensor for layer in sub_layers(run) for tensor in layer.tensors)
        self._bytes = {each.name: run.tensor_bytes(each) for each in tensors}
        super().__init__(svg=draw(run, is_clickable=True).svg)

    @traitlets.observe("marked")
    def _count_marks(self, _: object) -> None:
        self.reasons, self.verdicts = [], {}
        count = f"{len(self.marked)} marked: {short_bytes(self._marked_bytes)}."
        self.message = count if self.marked else QUESTION

    @traitlets.observe("asked")
    def _ask(self, _: object) -> None:
        kept, marked = saved_by_name(self._run), set(self.marked)
        self.reasons = reasons(self._run, kept)
        self.verdicts = {
            name: "extra" if name not in kept else "right" if name in marked else "missed"
            for name in sorted(marked | kept.keys())
        }
        right, missed, extra = map(list(self.verdicts.values()).count, ("right", "missed", "extra"))
        self.message = (
            f"✓ {right} of {len(kept)} right, ! {missed} missed, ✗ {extra} too many. "
            f"Your bytes: {short_bytes(self._marked_bytes)}; "
            f"the instrument's: {short_bytes(sum(kept.values()))}."
        )

    @property
    def _marked_bytes(self) -> int:
        return sum(self._bytes[name] for name in self.marked)

    def __repr__(self) -> str:
        """The text that a page without a kernel shows instead."""
        return f"A layer to click on: run this cell. {self._still.caption}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, and the still drawing for pages without widgets."""
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        shown = {"text/plain": repr(self), "text/html": self._still._repr_html_()}
        return {**data, **shown}, metadata


def layer_explorer(
    model: ModelConfig,
    num_sequences: int = 1,
    seq_len: int = 8192,
    element_bytes: int = 2,
    kernels: Kernels = DEFAULT_KERNELS,
) -> LayerExplorer:
    """A layer on which one marks what autograd keeps for backward, and asks the instrument.

    Args:
        model: Without latent attention and experts.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
        element_bytes: Bytes of a number: 2 or 4.
        kernels: How the layer is computed; without dropout.

    Raises:
        ValueError: If the layer is of a kind that is not drawn.
    """
    return LayerExplorer(LayerPass(model, num_sequences, seq_len, element_bytes, kernels))
