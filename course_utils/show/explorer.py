"""A picture with sliders: change one input of a formula and watch number and figure change.

Every explorer wraps a plain function from numbers to a `Picture`; calling that function gives the
static picture. The sliders update one HTML widget: no `interact` and no `Output`, which notebook
tests cannot follow.
"""

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from course_utils.show.picture import Picture


class Explorer(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Sliders above a picture."""

    def __repr__(self) -> str:
        """The text that a page without a kernel shows instead."""
        return "Sliders and a picture: run this cell to move them."


def explorer(
    draw: Callable[..., Picture], **choices: tuple[Sequence[int | str], int | str]
) -> "Explorer":
    """Add sliders to ``draw``: one per keyword argument.

    Args:
        draw: Takes the keywords and returns a picture.
        choices: For each keyword, its possible values in order and the initial one.
    """
    sliders = {
        name: widgets.SelectionSlider(
            options=[(_label(value), value) for value in values],
            value=first,
            description=name.replace("_", " "),
            style={"description_width": "12em"},
            layout=widgets.Layout(width="34em", max_width="100%"),
        )
        for name, (values, first) in choices.items()
    }
    shown = widgets.HTML()

    def update(_: object = None) -> None:
        picture = draw(**{name: slider.value for name, slider in sliders.items()})
        shown.value = picture._repr_html_()

    for slider in sliders.values():
        slider.observe(update, names="value")
    update()
    return Explorer([*sliders.values(), shown])


def _label(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
