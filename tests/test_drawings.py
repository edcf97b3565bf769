"""The drawings on the pages are up to date with the broker's bytes and responses."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from tests.documented import ROOT
from tests.drawings.catalogue import DRAWINGS, FOLDER

_LETTER, _DIGIT, _MONO = 6.8, 7.7, 6.7
"""Letter widths of DejaVu Sans, which is a wide font, and of DejaVu Sans Mono."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_as_the_broker_answers(name: str) -> None:
    assert (FOLDER / name).read_text() == DRAWINGS[name]().source(), "run python -m tests.drawings"


@pytest.mark.parametrize("name", DRAWINGS)
def test_no_line_of_a_drawing_is_under_another_one(name: str) -> None:
    """Two texts at the same position would be unreadable."""
    places = [
        (text.get("x"), text.get("y"))
        for text in ET.fromstring((FOLDER / name).read_text()).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert len(places) == len(set(places)) > 10


@pytest.mark.parametrize("name", DRAWINGS)
def test_no_text_of_a_drawing_runs_into_the_next_one(name: str) -> None:
    lines: dict[float, list[tuple[float, float, str]]] = {}
    for text in ET.fromstring((FOLDER / name).read_text()).iter("{http://www.w3.org/2000/svg}text"):
        kinds, words = (text.get("class") or "").split(), text.text or ""
        width = sum(_MONO if "bytes" in kinds else _DIGIT if letter.isdigit() else _LETTER for letter in words)
        start = float(text.attrib["x"]) - width * (1 if "end" in kinds else 0.5 if "middle" in kinds else 0)
        lines.setdefault(float(text.attrib["y"]), []).append((start, start + width, words))
    for texts in map(sorted, lines.values()):
        for (_, end, one), (start, _, next_text) in pairwise(texts):
            assert end < start, f"{one!r} and {next_text!r}"


def test_each_drawing_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in ROOT.glob("docs/*.md"))
    assert set(DRAWINGS) <= set(re.findall(r"\]\(images/([\w-]+\.svg)\)", pages))
