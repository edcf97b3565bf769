"""The image of this checkout, for all tests that run it."""

import os
from pathlib import Path

import pytest

from tests.docker.boxes import Image
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
