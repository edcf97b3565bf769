"""The image of this checkout, for all tests that run it."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docker.boxes import Box, Image
from tests.docker.building import ROOT, fingerprint, missing


@pytest.fixture(scope="session")
def image() -> Image:
    """Return the image of this checkout, which `make image` has built."""
    folder = Path(os.environ.get("MINIBROKER_IMAGE", ROOT / "build" / "image"))
    if missing() is not None:
        pytest.skip(f"the image's files cannot run here: {missing()}")
    mark = folder / "fingerprint"
    if not mark.exists() or mark.read_text(encoding="utf-8") != fingerprint():
        pytest.skip(f"{folder} has no image of this checkout: make image")
    return Image(folder)


@pytest.fixture
def boxes(image: Image) -> Iterator[Callable[..., Box]]:
    """Return a function that starts a box; all of them end with the test."""
    with ExitStack() as ends:

        def start(**options: object) -> Box:
            box = Box(image, **options)  # type: ignore[arg-type] # the options are those of Box
            ends.callback(box.remove)
            box.start()
            return box

        yield start
