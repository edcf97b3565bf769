"""The drawings of the pages are those that the broker's bytes and answers make now."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.documented import ROOT
from tests.drawings.catalogue import DRAWINGS, FOLDER


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_as_the_broker_answers(name: str) -> None:
    assert (FOLDER / name).read_text() == DRAWINGS[name]().source(), "run python -m tests.drawings"


@pytest.mark.parametrize("name", DRAWINGS)
def test_no_line_of_a_drawing_is_under_another_one(name: str) -> None:
    """Two texts at the same place would be unreadable."""
    places = [
        (text.get("x"), text.get("y"))
        for text in ET.fromstring((FOLDER / name).read_text()).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert len(places) == len(set(places)) > 10


def test_each_drawing_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in ROOT.glob("docs/*.md"))
    assert set(DRAWINGS) <= set(re.findall(r"\]\(images/([\w-]+\.svg)\)", pages))
