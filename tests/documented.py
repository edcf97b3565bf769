"""The code blocks on a page of the documentation."""

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: its heading, language, text and first line."""

    heading: str
    language: str
    text: str
    line: int


def blocks(page: str, heading: str | None = None) -> list[Block]:
    """Return the blocks of a page, such as "docs/spark.md", in order: all, or those below one heading."""
    text = (ROOT / page).read_text()
    blocks: list[Block] = []
    for match in _FENCE.finditer(text):
        # Comments in blocks look like headings.
        above = _HEADING.findall(_FENCE.sub("", text[: match.start()]))
        blocks.append(Block(above[-1], match[1], match[2], text.count("\n", 0, match.start()) + 1))
    return [block for block in blocks if heading in {None, block.heading}]


def code(page: str, heading: str, language: str) -> list[str]:
    """Return the blocks of one language below a heading.

    Raises:
        AssertionError: there are none.
    """
    found = [block.text for block in blocks(page, heading) if block.language == language]
    assert found, f"{page}: nothing in {language} below {heading!r}"
    return found
