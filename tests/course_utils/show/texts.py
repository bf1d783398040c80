"""Find overlapping texts in a figure."""

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from course_utils.show.picture import DOTS_PER_INCH


def overlapping_texts(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts and legends whose boxes overlap in the drawn figure."""
    figure.set_dpi(DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = []
    for ax in figure.axes:
        texts = [*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = axis.get_view_interval()
            shown = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [tick.label1 for tick in shown if tick.label1.get_visible()]
        legends = [("legend", ax.get_legend())] if ax.get_legend() else []
        boxes += [(text.get_text(), text) for text in texts if text.get_text().strip()] + legends
    boxes += [("legend", legend) for legend in figure.legends]
    extents = [(name, artist.get_window_extent(canvas.get_renderer())) for name, artist in boxes]
    return [(a, b) for (a, one), (b, other) in combinations(extents, 2) if one.overlaps(other)]
