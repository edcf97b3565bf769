"""The topics file of a broker, which is replaced as a whole; see `minibroker_storage.data_directory.topics_file`.

Each topic keeps its line until it changes, so that ten thousand topics take milliseconds. Nodes in the file that are no
brokers of this run have no part in it.
"""

import os
from collections.abc import Iterable
from typing import Any

from minibroker.cluster.durability import Durability
from minibroker.cluster.metadata_file import MetadataFile
from minibroker_storage.data_directory.names import TOPICS_FILE
from minibroker_storage.data_directory.topics_file import format_topics_file, parse_topics_file


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
        return self._file.read(lambda data: parse_topics_file(data, self.path))

    def replaced(self) -> None:
        """Forget what was known of the file: another one is in its place."""
        self._file.replaced()

    def write(self, next_producer_id: int, lines: Iterable[bytes], *, sync: bool = False, **numbers: int) -> None:
        """Replace it by one with these `lines`, each as `topics_file_line` makes them, with `sync` down to the disk.

        `numbers` as `format_topics_file` has them. OSError, and the old one stays.
        """
        self._file.write(format_topics_file(next_producer_id, lines, **numbers), sync=sync)
