"""`minibroker-topics.json`: the file that keeps which topics there are.

    {"version": 1, "next_producer_id": 1000, "topics": {
    "orders": {"id": "<22 characters>", "partitions": 4, "configs": {"retention.ms": "60000"}}}}

A line for each topic. Where there are several brokers, or were, a topic also has `replicas`, `leaders` and
`leader_epochs`, one for each partition. Nodes in there that are no brokers of this run have no part in it.

The file is replaced as a whole. Each topic keeps its line until it changes, so that ten thousand topics take
milliseconds.
"""

import json
import os
from collections.abc import Iterable
from typing import Any, Final, cast

from minibroker.metadata.durability import Durability
from minibroker.metadata.metadata_file import MetadataFile

TOPICS_FILE: Final = "minibroker-topics.json"
_FILE_VERSION: Final = 1


class TopicsFileError(ValueError):
    """The topics file cannot be read; the message names it and says why."""


class TopicsFile:
    """The file of one data directory."""

    def __init__(self, data_dir: str, durability: Durability | None = None) -> None:
        self.path = os.path.join(data_dir, TOPICS_FILE)
        self._file = MetadataFile(self.path) if durability is None else durability.file(self.path)

    @property
    def was_torn(self) -> bool:
        """Whether `read` had to take the generation before, after a crash of the machine."""
        return self._file.was_torn

    def read(self) -> dict[str, Any] | None:
        """The content; None where there is no file. TopicsFileError, OSError."""
        return self._file.read(self._parse)

    def _parse(self, data: bytes) -> dict[str, Any]:
        try:
            state: object = json.loads(data)
        except ValueError as error:
            raise TopicsFileError(f"{self.path} is not JSON: {error}") from None
        if not isinstance(state, dict) or cast("dict[str, Any]", state).get("version") != _FILE_VERSION:
            raise TopicsFileError(f"{self.path} is no topics file of version {_FILE_VERSION}")
        return cast("dict[str, Any]", state)

    def write(self, next_producer_id: int, lines: Iterable[str], *, sync: bool = False) -> None:
        """Replace it by one with these `lines`, each as `line_of` makes them, with `sync` down to the disk.

        OSError, and the old one stays.
        """
        head = f'{{"version": {_FILE_VERSION}, "next_producer_id": {next_producer_id}, "topics": {{'
        text = ",\n".join(lines)
        self._file.write(f"{head}\n{text}}}}}\n".encode() if text else f"{head}}}}}\n".encode(), sync=sync)

    @staticmethod
    def line_of(name: str, entry: dict[str, Any]) -> str:
        """The line of a topic."""
        return f"{json.dumps(name)}: {json.dumps(entry)}"
