"""ACLs, credentials, quotas and configurations in `minibroker-cluster.json`, where Kafka has `__cluster_metadata`.

ACLs, credentials, quotas, dynamic configurations and the like each have a section of `minibroker-cluster.json` in the
data directory, replaced atomically at every change:

    {"version": 1, "sections": {"acls": [...], "configs": {...}}}

A section is a JSON value, and only its owner reads it. The owner writes the section first, then applies the change. Its
text is made in slices, and the text of each entry is kept: so an entry never changes once it is written, and the owner
checks before the write that the section is still the one it began with.
"""

import json
import os
from collections.abc import Callable
from typing import Any, Final, cast

from minibroker.cluster.durability import Durability
from minibroker.cluster.metadata_file import MetadataFile
from minibroker.cluster.section_text import SectionText
from minibroker.support.slices import Steps, drain
from minibroker_storage.data_directory.names import CLUSTER_FILE

_FILE_VERSION: Final = 1
_OWNER_ALONE: Final = 0o600
"""Keys of users and passwords of brokers may be in it."""


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
        self._texts: dict[str, SectionText] = {}
        self._changed: dict[str, list[Callable[[], None]]] = {}

    def read(self, section: str) -> Any:
        """The content of a section; None where nothing was ever written. Do not change it: write another one."""
        return self._sections.get(section)

    def preparing(self, section: str, value: Any) -> Steps[None]:
        """Make the text of a JSON value in slices, so that `write` of the same value costs little."""
        if value is not None:
            yield from self._texts.setdefault(section, SectionText()).encode(value)

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
        """A section as JSON; made only for another value, and of that only what is new."""
        known = self._texts.setdefault(name, SectionText())
        drain(known.encode(value))
        return known.text

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
