"""Programs that use rdkafka, built by cargo; Cargo.lock pins its crates, and librdkafka comes with one of them."""

import shutil
from pathlib import Path
from typing import Final

from tests.clients import toolchains

_FOLDER: Final = Path(__file__).with_name("rust")
_PACKAGE: Final = [_FOLDER / "Cargo.toml", _FOLDER / "Cargo.lock"]


def compiled(source: Path) -> str:
    """Build the program that a file holds, unless that has been done before: its path. It must be named main.rs."""
    place = toolchains.place("rust", [*_PACKAGE, source])
    return str(toolchains.build(place, lambda folder: _build(source, folder)) / "documented")


def _build(source: Path, folder: Path) -> None:
    package = folder / "package"
    package.mkdir()
    for path in (*_PACKAGE, source):
        shutil.copy(path, package)
    toolchains.cargo_build(package, folder, "documented")
    shutil.rmtree(package)
