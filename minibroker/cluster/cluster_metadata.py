"""ACLs, credentials, quotas and configurations in `minibroker-cluster.json`, where Kafka has `__cluster_metadata`.

Each kind of metadata has a section in this file, which is in the data directory. Every change replaces the file
atomically:

    {"version": 1, "sections": {"acls": [...], "configs": {...}}}

A section is a JSON value that only its owner reads. The owner writes the section first, then applies the change.
"""

import json
import os
from typing import Any, Final, cast

from minibroker.cluster.durability import Durability
from minibroker.cluster.hooks import Hook
from minibroker.cluster.metadata_file import MetadataFile
from minibroker_storage.data_directory.names import CLUSTER_FILE

_FILE_VERSION: Final = 1
_FILE_MODE: Final = 0o600
"""The file can contain keys of users and passwords of brokers."""


class ClusterFileError(ValueError):
    """`minibroker-cluster.json` cannot be parsed. The message names the file and gives the reason."""


class ClusterMetadata:
    """The sections of one data directory.

    Attributes:
        replaced: The event that `load` has found other content.

    Raises:
        ClusterFileError: The file is damaged.
        OSError: The file cannot be read.
    """

    def __init__(self, data_dir: str, durability: Durability | None = None) -> None:
        self._path = os.path.join(data_dir, CLUSTER_FILE)
        make_file = MetadataFile if durability is None else durability.file
        self._file = make_file(self._path, mode=_FILE_MODE)
        self._sections = self._read()
        self._first = dict(self._sections)
        self.replaced: Hook[[]] = Hook()

    def read(self, section: str) -> Any:
        """Return the content of a section, or None if there is none. To change it, write a new value."""
        return self._sections.get(section)

    def write(self, section: str, value: Any) -> None:
        """Replace a section with a JSON value. None removes it.

        The value and its content must not change later, because `write_first` may write them again.

        Raises:
            OSError: The file cannot be written. Nothing has changed.
        """
        sections = {**self._sections, section: value}
        if value is None:
            del sections[section]
        self._save(sections)

    def write_first(self, directory: str) -> "ClusterMetadata":
        """Write the sections as they were at the start to another directory, for a later `load`.

        Raises:
            OSError: The file cannot be written.
        """
        copy = ClusterMetadata(directory)
        copy._save(dict(self._first))
        return copy

    def load(self) -> None:
        """Load the file after it was replaced from outside.

        Raises:
            ClusterFileError: The file is damaged.
            OSError: The file cannot be read.
        """
        self._file.reset()
        before, self._sections = self._sections, self._read()
        if before != self._sections:
            self.replaced()

    def _save(self, sections: dict[str, Any]) -> None:
        if sections or os.path.exists(self._path):
            self._file.write(json.dumps({"version": _FILE_VERSION, "sections": sections}).encode() + b"\n")
        self._sections = sections

    def _read(self) -> dict[str, Any]:
        return self._file.read(self._parse) or {}

    def _parse(self, data: bytes) -> dict[str, Any]:
        try:
            content: object = json.loads(data)
        except ValueError as error:
            raise ClusterFileError(f"{self._path} cannot be understood: {error}") from None
        if not isinstance(content, dict):
            raise ClusterFileError(f"{self._path} holds no object")
        document = cast("dict[str, Any]", content)
        if document.get("version") != _FILE_VERSION:
            raise ClusterFileError(f"{self._path} is not of version {_FILE_VERSION}")
        sections = document.get("sections")
        if not isinstance(sections, dict):
            raise ClusterFileError(f"{self._path} has no sections")
        return cast("dict[str, Any]", sections)
