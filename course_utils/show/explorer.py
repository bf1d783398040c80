"""A picture with controls: change one input of a formula and watch the figure change.

Kinds, such as models, are buttons or a list; sizes are sliders. Every explorer wraps a plain
function to a `Picture`, and a page without widgets shows its picture standing still. The controls
update one HTML widget: no `interact` and no `Output`, which notebook tests cannot follow.

    explorer(flop_shares, seq_len=Choice("sequence, tokens", [1024, 4096], 4096), …)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

from course_utils.show.picture import Picture

LINE = 90  # letters that buttons on one line have room for
BUTTON = 4  # letters that the frame of a button takes
LABEL = {"width": "13em", "flex": "0 0 auto"}  # so wide that controls stand below one another

Value = int | float | str


@dataclass(frozen=True)
class Choice:
    """What one control chooses.

    Attributes:
        label: Name and unit in a reader's words: ``"sequence, tokens"``.
        values: What can be chosen, in order; only numbers make a slider.
        first: The value at the beginning.
    """

    label: str
    values: Sequence[Value]
    first: Value


class Explorer(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Controls above a picture, which stands still where a page has no widgets."""

    def __init__(self, draw: Callable[..., Picture], choices: Mapping[str, Choice]) -> None:
        """Build the controls of ``draw``, by its keywords."""
        self._draw = draw
        self._controls = {name: _control(choice) for name, choice in choices.items()}
        self._shown = widgets.HTML(layout={"width": "100%"})
        self._update()
        for control in self._controls.values():
            control.observe(self._update, names="value")
        rows = [
            widgets.HBox([widgets.Label(choices[name].label, layout=LABEL), control])
            for name, control in self._controls.items()
        ]
        super().__init__([*rows, self._shown])

    def _update(self, _: object = None) -> None:
        values = {name: control.value for name, control in self._controls.items()}
        self.picture = self._draw(**values)
        self._shown.value = self.picture._repr_html_()

    def __repr__(self) -> str:
        """The caption, for pages without pictures."""
        return repr(self.picture)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        still = {"text/plain": repr(self), "text/html": self._shown.value}
        return {**super()._repr_mimebundle_(**kwargs), **still}


def explorer(
    draw: Callable[..., Picture], **choices: Choice | tuple[Sequence[Value], Value]
) -> Explorer:
    """Add controls to ``draw``: one per keyword argument.

    Args:
        draw: Takes the keywords and returns a picture.
        choices: For each keyword a `Choice`, or only its values and the first one: then the
            keyword is the label.
    """
    labelled = {
        name: each if isinstance(each, Choice) else Choice(name.replace("_", " "), *each)
        for name, each in choices.items()
    }
    return Explorer(draw, labelled)


def _control(choice: Choice) -> Any:
    """Buttons for kinds, a list where they take more than a line, and a slider for sizes."""
    texts = [each if isinstance(each, str) else f"{each:,}" for each in choice.values]
    common = {
        "options": list(zip(texts, choice.values, strict=True)),
        "value": choice.first,
        "tooltip": choice.label,
    }
    if not any(isinstance(each, str) for each in choice.values):
        return widgets.SelectionSlider(**common, layout={"width": "32em"})
    if sum(len(text) + BUTTON for text in texts) > LINE:
        return widgets.Dropdown(**common)
    return widgets.ToggleButtons(**common, style={"button_width": "auto"})
