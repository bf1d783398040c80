"""Links in prose: unit to unit, items to lectures, words to the glossary.

Code, formulas, tags, headings and what is a link already are left as they are.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

UNTOUCHED = re.compile(
    r"```.*?```|`[^`\n]+`|\$\$.*?\$\$|\$[^$\n]+\$|<[a-z/][^>]*>|!?\[[^\]]*\]\([^)]*\)"
    r"|\{[a-z]+\}|^#[^\n]*$|^\([\w-]+\)=$|^:{3,}[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
UNITS = re.compile(r"\bunits? \d\d(?:, \d\d)*(?: and \d\d)?")
NUMBER = re.compile(r"\d\d")
ITEM = re.compile(r"(?<![\w/-])[ESB]\d{1,2}(?![\w-])")


@dataclass
class Linker:
    """Makes links in the prose of one page.

    Attributes:
        units: File of each unit by its number.
        items: Lecture items that the page may name.
        words: Term of the glossary by each of its spellings, in lower case.
    """

    units: Mapping[str, str]
    items: Collection[str]
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        """Longer spellings first: *gradient accumulation* is not *gradient*."""
        self._seen: set[str] = set()
        spellings = sorted(self.words, key=lambda word: (-len(word), word))
        either = "|".join(map(re.escape, spellings)) or r"(?!)"
        self._words = re.compile(rf"(?<![\w-])(?:{either})(?:s|es)?(?![\w-])", re.IGNORECASE)

    def linked(self, markdown: str) -> str:
        """The text with its links; a word is linked where the page has it for the first time."""
        parts, end = [], 0
        for kept in UNTOUCHED.finditer(markdown):
            parts += [self._plain(markdown[end : kept.start()]), kept[0]]
            end = kept.end()
        return "".join([*parts, self._plain(markdown[end:])])

    def _plain(self, text: str) -> str:
        text = self._words.sub(self._word, text)
        text = UNITS.sub(lambda found: NUMBER.sub(self._unit, found[0]), text)
        return ITEM.sub(self._item, text)

    def _word(self, found: re.Match[str]) -> str:
        spelling = found[0].lower()
        singulars = (spelling, spelling.removesuffix("s"), spelling.removesuffix("es"))
        term = next(self.words[each] for each in singulars if each in self.words)
        if term in self._seen:
            return found[0]
        self._seen.add(term)
        return f"{{term}}`{found[0]} <{term}>`"

    def _unit(self, found: re.Match[str]) -> str:
        file = self.units.get(found[0])
        return f"[{found[0]}]({file})" if file else found[0]

    def _item(self, found: re.Match[str]) -> str:
        is_known = found[0] in self.items
        return f"{{ref}}`{found[0]} <lecture-{found[0].lower()}>`" if is_known else found[0]
