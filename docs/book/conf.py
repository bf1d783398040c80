"""Sphinx's settings for the book: no kernel, and nothing that a reader has to fetch."""

from docutils import nodes
from latex2mathml.converter import convert

project = "Training large language models efficiently"
author = "The authors of the course"
copyright = "2026, prose and figures: CC BY 4.0; code: MIT"
html_title = project

extensions = ["myst_nb"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
nb_execution_mode = "off"
nb_output_stderr = "show"
suppress_warnings = ["myst.header"]  # a card may follow a title of two levels up

html_theme = "sphinx_book_theme"
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_static_path = ["static"]
html_css_files = ["book.css"]
html_extra_path = ["extra"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
exclude_patterns = ["extra", "requirements.txt"]


def visit_formula(translator, node, display="inline"):
    """Write a formula as MathML, which browsers draw without a script or a font from elsewhere."""
    translator.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def visit_block(translator, node):
    """Write a formula on a line of its own."""
    visit_formula(translator, node, display="block")


def setup(app):
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (visit_formula, None), (visit_block, None))


html_math_renderer = "mathml"
