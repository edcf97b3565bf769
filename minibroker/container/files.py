"""Files of the images: data directories on volumes, properties that `configure` writes, names of Kafka's tools."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_VOLUMES: Final = {
    "/var/lib/kafka/data": "/var/lib/kafka/data",
    "/bitnami/kafka": "/bitnami/kafka/data",
    "/bitnami": "/bitnami/kafka/data",
    "/kafka": "/kafka/kafka-logs",
    "/data": "/data/kafka-logs",
}
"""Where Compose files mount volumes for the images of other vendors, and the log directory in each."""

TOOLS: Final = (
    *("kafka-acls", "kafka-broker-api-versions", "kafka-cluster", "kafka-configs", "kafka-console-consumer"),
    *("kafka-console-producer", "kafka-consumer-groups", "kafka-consumer-perf-test", "kafka-delete-records"),
    *(
        "kafka-dump-log",
        "kafka-features",
        "kafka-get-offsets",
        "kafka-groups",
        "kafka-leader-election",
        "kafka-log-dirs",
    ),
    *("kafka-metadata-quorum", "kafka-producer-perf-test", "kafka-reassign-partitions", "kafka-run-class"),
    *("kafka-server-stop", "kafka-storage", "kafka-topics", "kafka-transactions", "kafka-verifiable-consumer"),
    *("kafka-verifiable-producer", "zookeeper-server-start", "zookeeper-server-stop", "zookeeper-shell"),
)
"""Programs that have their names with and without .sh."""
_WITHOUT_ENDING: Final = ("cub", "ub", "dub", "kcat", "kafkacat")
_SERVER_START: Final = "kafka-server-start"


def mounted_data_dir() -> str | None:
    """Return the log directory on the first volume that is mounted at another image's place; None without one."""
    return next((directory for place, directory in _VOLUMES.items() if os.path.ismount(place)), None)


def write_properties(path: str, properties: Mapping[str, str]) -> None:
    """Write a properties file, which only its owner and group may read since it can hold passwords. OSError."""
    from minibroker.support.properties import format_properties  # noqa: PLC0415 - the start of a broker writes none

    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o660)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(format_properties(properties))


def link_tools(directories: Sequence[str]) -> None:
    """Give Kafka's tools their names in each directory: links to `minibroker-tools`, where it is installed."""
    program = shutil.which("minibroker-tools") or shutil.which("minibroker-tools", path="/opt/minibroker/bin")
    start = Path("/usr/bin") / _SERVER_START
    for directory in map(Path, directories):
        names = [_SERVER_START, f"{_SERVER_START}.sh"]
        _link(directory, names, start)
        if program is not None:
            tools = [name + ending for name in TOOLS for ending in ("", ".sh")]
            _link(directory, [*tools, *_WITHOUT_ENDING], Path(program))


def _link(directory: Path, names: Sequence[str], target: Path) -> None:
    for name in names:
        if not os.path.lexists(directory / name):
            (directory / name).symlink_to(target)
