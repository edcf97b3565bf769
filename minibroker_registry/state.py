"""The state of a registry, which follows from the records of its topic alone."""

import json
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from minibroker_registry import subjects
from minibroker_registry.records import Config, Record, Version, deleted, read_version

_logger: Final = logging.getLogger(__name__)
_READ_ERRORS: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What reading a record of another program can raise."""


class State:
    """Subjects with their versions, configurations and modes.

    Settings are kept by subject: by a qualified name, by `:.ctx:` for a context, and by an empty string for the
    registry.

    Args:
        greatest_ids: The greatest id of each context that an earlier state has used, which clients may remember.

    Attributes:
        settings: The settings of subjects, by the kinds of their records.
        greatest_ids: The greatest id that was ever used in each context.
    """

    def __init__(self, greatest_ids: Mapping[str, int] | None = None) -> None:
        self.settings: dict[str, dict[str, Config]] = {"CONFIG": {}, "MODE": {}}
        self._subjects: dict[str, dict[int, Version]] = {}
        self.greatest_ids: Counter[str] = Counter(greatest_ids)
        self._contexts = {subjects.DEFAULT_CONTEXT}
        self._versions_of_ids: dict[tuple[str, int], dict[tuple[str, int], Version]] = {}
        """The versions with an id, by context and id, and then by subject and number."""
        self._ids: dict[tuple[str, str], int] = {}
        """The ids of contents, by context and guid."""
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], Version]] = {}

    def apply(self, record: Record) -> None:
        """Apply a record of the topic. A record that cannot be understood is skipped, and logged."""
        try:
            key = _read_json(record.key)
            # Karapace writes an empty value in the place of null.
            value = _read_json(record.value) if record.value else None
            self._apply(key["keytype"], key, value, record.timestamp)
        except _READ_ERRORS as error:
            _logger.warning("a record of the schema topic was skipped: %r with the key %.200r", error, record.key)

    def subjects(self, prefix: str, *, with_deleted: bool) -> list[str]:
        """Return the subjects that match a prefix, sorted."""
        return sorted(
            subject
            for subject in self._subjects
            if subjects.matches(subject, prefix) and self.versions(subject, with_deleted=with_deleted)
        )

    def covered(self, scope: str, *, with_deleted: bool) -> list[str]:
        """Return the subjects of a context if `scope` names a context, or else the subject itself if it exists."""
        named = self.subjects(scope, with_deleted=with_deleted)
        return named if not subjects.split(scope)[1] else [scope] if scope in named else []

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[Version]:
        """Return the versions of a subject, in their order."""
        found = self._subjects.get(subject, {})
        return [found[number] for number in sorted(found) if with_deleted or not found[number].is_deleted]

    def version(self, subject: str, number: int, *, with_deleted: bool = False) -> Version | None:
        """Return a version of a subject, the latest live one for -1, or None."""
        if number < 0:
            return next(reversed(self.versions(subject)), None)
        version = self._subjects.get(subject, {}).get(number)
        return version if version is not None and (with_deleted or not version.is_deleted) else None

    def referenced(self, subject: str, number: int) -> Version | None:
        """Return a version of a subject, softly deleted or not, or None."""
        return self.version(subject, number, with_deleted=True)

    def contexts(self) -> list[str]:
        """Return the names of all contexts."""
        return sorted(self._contexts)

    def namesakes(self, subject: str) -> list[str]:
        """Return a subject, and if it is in the default context those of its name in all other contexts."""
        context, name = subjects.split(subject)
        is_default = context == subjects.DEFAULT_CONTEXT and bool(name)
        return [subjects.join(other, name) for other in self.contexts()] if is_default else [subject]

    def target_of(self, subject: str) -> str:
        """Return the subject that the setting `alias` of a subject names, or the subject itself."""
        alias = self.settings["CONFIG"].get(subjects.normalize(subject), {}).get("alias")
        return subjects.qualify(alias, subject) if alias else subject

    def aliases(self, prefix: str) -> dict[str, list[str]]:
        """Return the subjects that match a prefix and have the setting `alias`, by the subjects that it names."""
        found: dict[str, list[str]] = {}
        for subject in sorted(self.settings["CONFIG"]):
            target = self.target_of(subject)
            if target != subject and subjects.matches(subject, prefix):
                found.setdefault(target, []).append(subject)
        return found

    def versions_of_id(self, context: str, id_: int) -> list[Version]:
        """Return all versions with an id, softly deleted ones included, by subject and version."""
        return [version for _, version in sorted(self._versions_of_ids.get((context, id_), {}).items())]

    def id_of(self, context: str, guid: str) -> int | None:
        """Return the id of a content in a context, or None."""
        return self._ids.get((context, guid))

    def versions_of_guid(self, guid: str) -> list[Version]:
        """Return a version with a guid for each context that has one."""
        found = ((context, self.id_of(context, guid)) for context in self.contexts())
        return [self.versions_of_id(context, id_)[0] for context, id_ in found if id_ is not None]

    def referrers(self, subject: str, version: int, *, with_deleted: bool = False) -> list[Version]:
        """Return the versions whose schemas refer to this one."""
        return [
            referrer
            for referrer in self._referrers.get((subject, version), {}).values()
            if with_deleted or not referrer.is_deleted
        ]

    def _put(self, version: Version) -> None:
        self._remove(version.subject, version.version)
        place = (version.subject, version.version)
        context = subjects.split(version.subject)[0]
        self._contexts.add(context)
        self.greatest_ids[context] = max(self.greatest_ids[context], version.id)
        self._versions_of_ids.setdefault((context, version.id), {})[place] = version
        self._ids[context, version.content.guid] = version.id
        self._subjects.setdefault(version.subject, {})[version.version] = version
        for target in version.references():
            self._referrers.setdefault(target, {})[place] = version

    def _remove(self, subject: str, number: int) -> None:
        versions = self._subjects.get(subject, {})
        version = versions.pop(number, None)
        if version is None:
            return
        if not versions:
            del self._subjects[subject]
        context, guid = subjects.split(subject)[0], version.content.guid
        same = self._versions_of_ids[context, version.id]
        del same[subject, number]
        if not same:
            del self._versions_of_ids[context, version.id]
            if self.id_of(context, guid) == version.id:
                del self._ids[context, guid]
        for target in version.references():
            self._referrers.get(target, {}).pop((subject, number), None)

    def _apply(  # noqa: C901, PLR0912 - a case for each kind of record
        self, keytype: str, key: Mapping[str, Any], value: Mapping[str, Any] | None, timestamp: int
    ) -> None:
        subject = subjects.normalize(key.get("subject") or "")
        match keytype:
            case "SCHEMA" if value is not None:
                self._put(read_version({**value, "subject": key["subject"], "version": key["version"]}, timestamp))
            case "SCHEMA":
                self._remove(subject, key["version"])
            case "CONFIG" if value is not None:
                self.settings[keytype][subject] = {name: each for name, each in value.items() if name != "subject"}
            case "MODE" if value is not None:
                self.settings[keytype][subject] = {"mode": value["mode"]}
            case "CONFIG" | "MODE":
                self.settings[keytype].pop(subject, None)
            case "DELETE_SUBJECT" if value is not None:
                for version in self.versions(subject):
                    if version.version <= value["version"]:
                        self._put(deleted(version))
            case "CLEAR_SUBJECT" if value is not None:
                for name in self.covered(subject, with_deleted=True):
                    for version in self.versions(name, with_deleted=True):
                        self._remove(name, version.version)
            case "CONTEXT" if value is not None:
                self._contexts.add(key["context"])
            case "CONTEXT":
                names = self.subjects(subjects.join(key["context"], ""), with_deleted=True)
                if not names and key["context"] != subjects.DEFAULT_CONTEXT:
                    self._contexts.discard(key["context"])
            case "DELETE_SUBJECT" | "CLEAR_SUBJECT" | "NOOP" | "ASSOC":
                pass  # Associations are not supported.
            case _:
                raise ValueError(f"the keytype {keytype!r} is unknown")


def _read_json(data: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, or it holds half of a surrogate pair, which no answer can contain.
    """
    value = json.loads(data.decode())
    if b"\\u" in data:
        json.dumps(value, ensure_ascii=False).encode()
    return value
