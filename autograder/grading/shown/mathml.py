"""LaTeX as MathML, which browsers draw without a network.

Whoever wrote it is not trusted: what is too long or too deep, could repeat itself without end or
is no LaTeX is left to be shown as text. What comes out still has to be sanitized, as `is_allowed`
says.
"""

import html
import re
from itertools import accumulate
from xml.etree.ElementTree import tostring

MAX_CHARACTERS = 2_000
MAX_DEPTH = 40
# Commands of which each level may double the one below.
REPEATING = (r"\def", r"\newcommand", r"\newenvironment", r"\DeclareMathOperator", r"\sideset")
BRACES = {"{": 1, "}": -1}

# By tag. No space is negative, and nothing moves.
ATTRIBUTES = {
    **dict.fromkeys(("menclose", "mn", "mpadded", "mphantom", "mroot", "mrow", "msqrt"), ()),
    **dict.fromkeys(("msub", "msubsup", "msup", "mtr", "munder", "munderover"), ()),
    "math": ("display",),
    "mfrac": ("linethickness",),
    "mi": ("mathvariant",),
    "mo": ("fence", "form", "mathvariant", "maxsize", "minsize", "movablelimits", "stretchy"),
    "mover": ("accent",),
    "mspace": ("width",),
    "mstyle": ("displaystyle", "scriptlevel"),
    "mtable": ("displaystyle",),
    "mtd": ("columnalign",),
    "mtext": ("mathvariant",),
}
VALUE = re.compile(r"[a-z-]{1,30}|[0-3]|\d(?:\.\d{1,3})?em")


def is_allowed(tag: str, name: str, value: str) -> bool:
    """Whether a tag of a formula may have this attribute with this value."""
    return name in ATTRIBUTES[tag] and bool(VALUE.fullmatch(value))


def from_latex(latex: str, display: str) -> str | None:
    """A formula as MathML, or None if it is to be shown as it is.

    Args:
        latex: The formula, without its dollars.
        display: ``"block"`` for a line of its own, or ``"inline"``.
    """
    if len(latex) > MAX_CHARACTERS or any(command in latex for command in REPEATING):
        return None
    if max(accumulate(BRACES.get(each, 0) for each in latex), default=0) > MAX_DEPTH:
        return None
    try:
        from latex2mathml.converter import convert_to_element

        formula = convert_to_element(latex, display=display)
        for element in formula.iter():  # in which characters may stand as entities
            element.text = element.text and html.unescape(element.text)
        return tostring(formula, encoding="unicode")
    except Exception:  # LaTeX in whatever state, or an environment without the dev extra
        return None
