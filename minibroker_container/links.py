"""Names of Kafka's tools and releases in the image, made once when it is built."""

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SERVER_START: Final = "kafka-server-start"
_KAFKA_HOME: Final = "kafka"
_SCALA_VERSIONS: Final = ("2.11", "2.12", "2.13")
# fmt: off
_LAST_PATCHES: Final = {
    "0.8.2": 2, "0.9.0": 1, "0.10.0": 1, "0.10.1": 1, "0.10.2": 2, "0.11.0": 3, "1.0": 2, "1.1": 1, "2.0": 1, "2.1": 1,
    "2.2": 2, "2.3": 1, "2.4": 1, "2.5": 1, "2.6": 3, "2.7": 2, "2.8": 2, "3.0": 2, "3.1": 2, "3.2": 3, "3.3": 2,
    "3.4": 1, "3.5": 2, "3.6": 2, "3.7": 2, "3.8": 1, "3.9": 2, "4.0": 1, "4.1": 1, "4.2": 1, "4.3": 1,
}
# fmt: on
"""Releases of Kafka with their last patches. Each unpacks into kafka_SCALA-RELEASE, a folder of wurstmeister's /opt."""


def link_tools(directories: Sequence[str]) -> None:
    """Give Kafka's tools their names in each directory, with and without .sh. OSError.

    `kafka-server-start` is the image's own; the others are those that `minibroker-tools --help` names.
    """
    program = shutil.which("minibroker-tools") or "/opt/minibroker/bin/minibroker-tools"
    listed = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own program
    match = re.search(r"^Tools: (.+)$", listed, re.MULTILINE)
    assert match is not None, listed
    for directory in map(Path, directories):
        directory.mkdir(parents=True, exist_ok=True)
        _link(directory, _SERVER_START, Path("/usr/bin") / _SERVER_START)
        for name in match[1].split(", "):
            _link(directory, name, Path(program))


def link_releases(directory: Path) -> None:
    """Give `kafka` in a directory the names of all releases, such as kafka_2.13-2.8.1. OSError."""
    releases = [f"{release}.{patch}" for release, last in _LAST_PATCHES.items() for patch in range(last + 1)]
    for scala, release in itertools.product(_SCALA_VERSIONS, releases):
        name = directory / f"kafka_{scala}-{release}"
        if not os.path.lexists(name):
            name.symlink_to(_KAFKA_HOME)


def _link(directory: Path, tool: str, target: Path) -> None:
    for name in (tool, f"{tool}.sh"):
        if not os.path.lexists(directory / name):
            (directory / name).symlink_to(target)
