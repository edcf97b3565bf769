"""ACLs, credentials, quotas and configurations in `minibroker-cluster.json`, where Kafka has `__cluster_metadata`.

Each kind of metadata has a section in this file, which is in the data directory. Every change replaces the file
atomically:

    {"version": 1, "sections": {"acls": [...], "configs": {...}}}

A section is a JSON value that only its owner reads. The owner writes the section first, then applies the change. The
JSON text of each entry is cached, so an entry must not change after it was written.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from minibroker.cluster.durability import Durability
from minibroker.cluster.metadata_file import MetadataFile
from minibroker_storage.data_directory.names import CLUSTER_FILE

_FILE_VERSION: Final = 1
_FILE_MODE: Final = 0o600
"""The file can contain keys of users and passwords of brokers."""
_DEPTH: Final = 2
"""Entries are the elements of a list section, or the values of the objects in an object section."""


class ClusterFileError(ValueError):
    """`minibroker-cluster.json` cannot be parsed. The message names the file and gives the reason."""


class ClusterMetadata:
    """The sections of one data directory.

    Raises:
        ClusterFileError: The file is damaged.
        OSError: The file cannot be read.
    """

    def __init__(self, data_dir: str, durability: Durability | None = None) -> None:
        self._path = os.path.join(data_dir, CLUSTER_FILE)
        make_file: Callable[..., MetadataFile] = MetadataFile if durability is None else durability.file
        self._file = make_file(self._path, mode=_FILE_MODE)
        self._sections = self._read()
        self._first = dict(self._sections)
        self._texts: defaultdict[str, _SectionText] = defaultdict(_SectionText)
        self._changed: dict[str, list[Callable[[], None]]] = {}

    def read(self, section: str) -> Any:
        """Return the content of a section, or None if there is none. To change it, write a new value."""
        return self._sections.get(section)

    def write(self, section: str, value: Any) -> None:
        """Replace a section with a JSON value. None removes it.

        The value and its content must not change later, because their JSON text is cached.

        Raises:
            OSError: The file cannot be written. Nothing has changed.
        """
        sections = {**self._sections, section: value}
        if value is None:
            del sections[section]
        self._save(sections)

    def subscribe(self, section: str, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `load` replaces a section."""
        self._changed.setdefault(section, []).append(callback)

    def write_first(self, directory: str) -> "ClusterMetadata":
        """Write the sections as they were at the start to another directory, for a later `load`.

        Raises:
            OSError: The file cannot be written.
        """
        copy = ClusterMetadata(directory)
        copy._save(dict(self._first))
        return copy

    def keep(self) -> None:
        """Make `write_first` write the current content."""
        self._first = dict(self._sections)

    def load(self) -> None:
        """Load the file after it was replaced from outside.

        Raises:
            ClusterFileError: The file is damaged.
            OSError: The file cannot be read.
        """
        self._file.reset()
        before, self._sections = self._sections, self._read()
        for callbacks in self._changed.values() if before != self._sections else ():
            for callback in callbacks:
                callback()

    def _save(self, sections: dict[str, Any]) -> None:
        if sections or os.path.exists(self._path):
            texts = self._texts
            lines = ",\n".join(f"{json.dumps(name)}: {texts[name].update(value)}" for name, value in sections.items())
            text = f'{{"version": {_FILE_VERSION}, "sections": {{\n{lines}}}}}\n'
            self._file.write(text.encode())
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


class _SectionText:
    """The JSON text of a section. An update encodes only new entries, and reuses the text of the others."""

    def __init__(self) -> None:
        self._text = "null"
        self._value: Any = None
        # Keyed by id(). The entries keep their objects alive, so that no id is reused.
        self._entries: dict[int, tuple[Any, str]] = {}

    def update(self, value: Any) -> str:
        """Return a new value of the section as JSON. Only new entries are encoded."""
        if value is not self._value:
            entries: dict[int, tuple[Any, str]] = {}
            self._text = self._encode(value, _DEPTH, entries)
            self._value, self._entries = value, entries
        return self._text

    def _encode(self, value: Any, depth: int, entries: dict[int, tuple[Any, str]]) -> str:
        if isinstance(value, dict) and depth:
            items = cast("Mapping[str, Any]", value).items()
            return f"{{{', '.join([f'{json.dumps(k)}: {self._encode(v, depth - 1, entries)}' for k, v in items])}}}"
        if isinstance(value, list) and depth:
            return f"[{', '.join([self._encode(element, 0, entries) for element in cast('Iterable[Any]', value)])}]"
        if not isinstance(value, dict | list):
            return json.dumps(value)
        entry = cast("Any", value)
        cached = self._entries.get(id(entry))
        if cached is None:
            cached = entry, json.dumps(entry)
        entries[id(entry)] = cached
        return cached[1]
