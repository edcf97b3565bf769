"""Files of the images: data directories on volumes, and properties that `configure` writes."""

import os
import subprocess
from collections.abc import Mapping
from typing import Final, TextIO

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.config import properties as properties_files

INIT_SCRIPTS: Final = "/docker-entrypoint-initdb.d"
"""The directory of bitnami/kafka for scripts that run before the broker starts."""
_VOLUMES: Final = {
    "/var/lib/kafka/data": "/var/lib/kafka/data",
    "/bitnami/kafka": "/bitnami/kafka/data",
    "/bitnami": "/bitnami/kafka/data",
    "/kafka": "/kafka/kafka-logs",
    "/data": "/data/kafka-logs",
}
"""Where Compose files mount volumes for the images of other vendors, and the log directory in each."""


def opened(variable: str, path: str) -> TextIO:
    """Open the file that a variable names. OSError that names both."""
    try:
        return open(path, encoding="utf-8")
    except OSError as error:
        raise OSError(f"{variable}: {path}: {error.strerror}; mount the file there") from None


def mounted_data_dir() -> str | None:
    """Return the log directory on the first volume that is mounted at another image's place; None without one."""
    return next((directory for place, directory in _VOLUMES.items() if os.path.ismount(place)), None)


def write_properties(path: str, properties: Mapping[str, str]) -> None:
    """Write a properties file, which only its owner and group may read since it can hold passwords. OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o660)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(properties_files.format_properties(properties))


def run_init_scripts(directory: str = INIT_SCRIPTS) -> None:
    """Run the scripts of a directory in order of their names. OSError names the one that fails."""
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else ()
    for path in [os.path.join(directory, name) for name in names if name.endswith(".sh")]:
        status = subprocess.run(["bash", path], check=False).returncode  # noqa: S603, S607 - the user's own script, by the container's shell
        if status:
            raise OSError(f"{path} ended with status {status}")
