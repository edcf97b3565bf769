"""Files of the images: data directories on volumes, the properties file written by `configure`, and links to tools."""

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.config import properties as properties_files

INIT_SCRIPTS: Final = "/docker-entrypoint-initdb.d"
"""The directory of bitnami/kafka for scripts that run before the broker starts."""
_VOLUMES: Final = {
    "/var/lib/kafka/data": "/var/lib/kafka/data",
    "/var/lib/kafka": "/var/lib/kafka/data",
    "/bitnami/kafka/data": "/bitnami/kafka/data",
    "/bitnami/kafka": "/bitnami/kafka/data",
    "/bitnami": "/bitnami/kafka/data",
    "/kafka": "/kafka/kafka-logs",
    "/data": "/data/kafka-logs",
    "/tmp/kafka-logs": "/tmp/kafka-logs",  # noqa: S108 - the default of Kafka's files of settings
    "/tmp/kraft-combined-logs": "/tmp/kraft-combined-logs",  # noqa: S108 - as above
}
"""The mount points of volumes for other vendors' images in Compose files, with the log directory of each."""


def open_named_file(variable: str, path: str) -> TextIO:
    """Open the file named by a variable.

    Raises:
        OSError: the file cannot be read. The message has the variable and the path.
    """
    try:
        return open(path, encoding="utf-8")
    except OSError as error:
        raise OSError(f"{variable}: {path}: {error.strerror}; mount the file there") from None


def mounted_data_dir() -> str | None:
    """Return the log directory on the first volume mounted at another image's data directory, or None."""
    return next((directory for mount_point, directory in _VOLUMES.items() if os.path.ismount(mount_point)), None)


def write_properties(path: str, properties: Mapping[str, str]) -> None:
    """Write a properties file that only its owner and group can read, because it can contain passwords.

    Raises:
        OSError: the file cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o660)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(properties_files.format_properties(properties))


def run_init_scripts(directory: str = INIT_SCRIPTS) -> None:
    """Run the scripts of a directory in alphabetical order.

    Raises:
        OSError: a script fails. The message has its path.
    """
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else ()
    for path in [os.path.join(directory, name) for name in names if name.endswith(".sh")]:
        status = subprocess.run(["bash", path], check=False).returncode  # noqa: S603, S607 - the user's own script, by the container's shell
        if status:
            raise OSError(f"{path} ended with status {status}")


_SERVER_START: Final = "kafka-server-start"
_SCALA_VERSIONS: Final = ("2.11", "2.12", "2.13")
# fmt: off
_LAST_PATCHES: Final = {
    "0.8.2": 2, "0.9.0": 1, "0.10.0": 1, "0.10.1": 1, "0.10.2": 2, "0.11.0": 3, "1.0": 2, "1.1": 1, "2.0": 1, "2.1": 1,
    "2.2": 2, "2.3": 1, "2.4": 1, "2.5": 1, "2.6": 3, "2.7": 2, "2.8": 2, "3.0": 2, "3.1": 2, "3.2": 3, "3.3": 2,
    "3.4": 1, "3.5": 2, "3.6": 2, "3.7": 2, "3.8": 1, "3.9": 2, "4.0": 1, "4.1": 1, "4.2": 1, "4.3": 1,
}
# fmt: on
"""Releases of Kafka with their last patch versions.

Each unpacks to kafka_SCALA-RELEASE, a folder in wurstmeister's /opt.
"""


def link_tools(directories: Sequence[str]) -> None:
    """Create links with the names of Kafka's tools in each directory, with and without .sh.

    `kafka-server-start` is a program of the image itself. The other tools are listed by `minibroker-tools --help`.

    Raises:
        OSError: a link cannot be created.
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
    """Create links to `kafka` in a directory, named after each release, such as kafka_2.13-2.8.1.

    Raises:
        OSError: a link cannot be created.
    """
    releases = [f"{release}.{patch}" for release, last in _LAST_PATCHES.items() for patch in range(last + 1)]
    for scala, release in itertools.product(_SCALA_VERSIONS, releases):
        name = directory / f"kafka_{scala}-{release}"
        if not os.path.lexists(name):
            name.symlink_to("kafka")


def _link(directory: Path, tool: str, target: Path) -> None:
    for name in (tool, f"{tool}.sh"):
        if not os.path.lexists(directory / name):
            (directory / name).symlink_to(target)
