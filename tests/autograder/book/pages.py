"""Built pages as a reader's browser takes them: text, code, names to link to, and links."""

from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """What is on one page.

    Attributes:
        ids: Names that a link may lead to.
        links: Where links lead, as written.
        fetched: Files that the page loads by itself.
        blocks: Text of each block of code or of printed output.
        text: All that can be read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.blocks: list[str] = []
        self.text = ""
        self._in_block = False
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif given.get("src") or (tag == "link" and given.get("href")):
            self.fetched.append(given.get("src") or given["href"])
        if tag == "pre":
            self._in_block = True
            self.blocks.append("")

    def handle_endtag(self, tag):
        if tag == "pre":
            self._in_block = False

    def handle_data(self, data):
        self.text += data
        if self._in_block:
            self.blocks[-1] += data


def pages_of(book: Path) -> dict[Path, Page]:
    """All pages by their files."""
    return {path: Page(path) for path in sorted(book.rglob("*.html"))}
