"""Replace the generated part of a text that people write, between two marks."""

import re

from autograder.authoring.errors import BuildError


def between_marks(text: str, begin: str, end: str, content: str) -> str:
    """The text with what stands between two marks replaced.

    Raises:
        BuildError: If a mark is missing.
    """
    if begin not in text or end not in text:
        title = text.strip().split("\n")[0]
        raise BuildError(f"the text {title!r} needs the marks {begin!r} and {end!r}")
    marked = f"{re.escape(begin)}.*{re.escape(end)}"
    return re.sub(marked, lambda _: f"{begin}\n{content}\n{end}", text, flags=re.DOTALL)
