"""ACLs, credentials, quotas and configurations in `minibroker-cluster.json`, where Kafka has `__cluster_metadata`.

ACLs, credentials, quotas, dynamic configurations and the like each have a section of `minibroker-cluster.json` in the
data directory, replaced atomically at every change:

    {"version": 1, "sections": {"acls": [...], "configs": {...}}}

A section is a JSON value, and only its owner reads it. The owner writes the section first, then applies the change. The
text of each entry is kept, so an entry must not change once it is written.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from minibroker.cluster.durability import Durability
from minibroker.cluster.metadata_file import MetadataFile
from minibroker_storage.data_directory.names import CLUSTER_FILE

_FILE_VERSION: Final = 1
_OWNER_ALONE: Final = 0o600
"""Keys of users and passwords of brokers may be in it."""
_DEPTH: Final = 2
"""Entries are elements of a section that is a list, or values of the objects in a section that is an object."""


class ClusterFileError(ValueError):
    """`minibroker-cluster.json` cannot be understood; the message names it and says why."""


class ClusterMetadata:
    """The sections of one data directory. ClusterFileError, OSError."""

    def __init__(self, data_dir: str, durability: Durability | None = None) -> None:
        self._path = os.path.join(data_dir, CLUSTER_FILE)
        self._file = (
            MetadataFile(self._path, mode=_OWNER_ALONE)
            if durability is None
            else durability.file(self._path, mode=_OWNER_ALONE)
        )
        self._sections = self._read()
        self._first = dict(self._sections)
        self._texts: dict[str, _SectionText] = {}
        self._changed: dict[str, list[Callable[[], None]]] = {}

    def read(self, section: str) -> Any:
        """The content of a section; None where nothing was ever written. Do not change it: write another one."""
        return self._sections.get(section)

    def write(self, section: str, value: Any) -> None:
        """Put a JSON value in the place of a section; None removes it. OSError, and then nothing has changed.

        The value and what is in it have to stay as they are: their texts are kept.
        """
        sections = {**self._sections, section: value}
        if value is None:
            del sections[section]
        self._save(sections)

    def subscribe(self, section: str, callback: Callable[[], None]) -> None:
        """Have `callback` called when a section was replaced from outside, by `load`."""
        self._changed.setdefault(section, []).append(callback)

    def write_first(self, directory: str) -> "ClusterMetadata":
        """Write the sections that there were at the start into another directory, for a later `load`. OSError."""
        copy = ClusterMetadata(directory)
        copy._save(dict(self._first))
        return copy

    def keep(self) -> None:
        """Make the current content the one that `write_first` writes."""
        self._first = dict(self._sections)

    def load(self) -> None:
        """Take in what the directory holds, where it was replaced. ClusterFileError, OSError."""
        self._file.replaced()
        before, self._sections = self._sections, self._read()
        for callbacks in self._changed.values() if before != self._sections else ():
            for callback in callbacks:
                callback()

    def _save(self, sections: dict[str, Any]) -> None:
        if sections or os.path.exists(self._path):
            lines = ",\n".join(f"{json.dumps(name)}: {self._text(name, value)}" for name, value in sections.items())
            text = f'{{"version": {_FILE_VERSION}, "sections": {{\n{lines}}}}}\n'
            self._file.write(text.encode())
        self._sections = sections

    def _text(self, name: str, value: Any) -> str:
        """Return a section as JSON. Only the entries that are new are encoded."""
        section = self._texts.setdefault(name, _SectionText())
        section.update(value)
        return section.text

    def _read(self) -> dict[str, Any]:
        return self._file.read(self._parse) or {}

    def _parse(self, data: bytes) -> dict[str, Any]:
        try:
            content: object = json.loads(data)
        except ValueError as error:
            raise ClusterFileError(f"{self._path} cannot be understood: {error}") from None
        if not isinstance(content, dict):
            raise ClusterFileError(f"{self._path} holds no object")
        known = cast("dict[str, Any]", content)
        if known.get("version") != _FILE_VERSION:
            raise ClusterFileError(f"{self._path} is not of version {_FILE_VERSION}")
        sections = known.get("sections")
        if not isinstance(sections, dict):
            raise ClusterFileError(f"{self._path} has no sections")
        return cast("dict[str, Any]", sections)


class _SectionText:
    """The JSON text of a section. A change costs what has changed, and a look at each of the other entries."""

    __slots__ = ("_entries", "_value", "text")

    def __init__(self) -> None:
        self.text = "null"
        self._value: Any = None
        self._entries: dict[int, tuple[Any, str]] = {}  # by identity, which an entry keeps as long as it is in here

    def update(self, value: Any) -> None:
        """Encode another value of the section."""
        if value is self._value:
            return
        entries: dict[int, tuple[Any, str]] = {}
        self.text = self._encode(value, _DEPTH, entries)
        self._value, self._entries = value, entries

    def _encode(self, value: Any, depth: int, entries: dict[int, tuple[Any, str]]) -> str:
        if isinstance(value, dict) and depth:
            items = cast("Mapping[str, Any]", value).items()
            return f"{{{', '.join([f'{json.dumps(k)}: {self._encode(v, depth - 1, entries)}' for k, v in items])}}}"
        if isinstance(value, list) and depth:
            return f"[{', '.join([self._encode(each, 0, entries) for each in cast('Iterable[Any]', value)])}]"
        if not isinstance(value, dict | list):
            return json.dumps(value)
        entry = cast("Any", value)
        kept = self._entries.get(id(entry))
        if kept is None:
            kept = entry, json.dumps(entry)
        entries[id(entry)] = kept
        return kept[1]
