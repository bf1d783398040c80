"""A picture with sliders: move one quantity of a formula and see number and figure change.

Every explorer stands on a plain function from numbers to a `Picture`; calling that function gives
the still twin. The sliders update one HTML widget: no `interact` and no `Output`, which notebook
tests cannot follow.
"""

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from course_utils.show.picture import Picture


class Explorer(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Sliders above a picture; says what to do where widgets cannot be shown."""

    def __repr__(self) -> str:
        """What a page without a kernel shows in its place."""
        return "Sliders and a picture: run this cell to move them."


def explorer(
    draw: Callable[..., Picture], **choices: tuple[Sequence[int | str], int | str]
) -> "Explorer":
    """Sliders over ``draw``: one for each keyword, with the values it may take.

    Args:
        draw: Takes the keywords and returns a picture.
        choices: For each keyword the values in order, and the one to begin with.
    """
    sliders = {
        name: widgets.SelectionSlider(
            options=[(_in_words(value), value) for value in values],
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


def _in_words(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
