"""The operations of the registry: they read its state, and change it by writing records to the topic."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from minibroker_registry import errors, formats, records, subjects
from minibroker_registry.formats import FindVersion
from minibroker_registry.records import Config, Content, Record, Version
from minibroker_registry.schema import InvalidSchemaError, Parsed, Reference
from minibroker_registry.state import State
from minibroker_registry.values import TopicSource

MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_READ_ONLY: Final = ("READONLY", "READONLY_OVERRIDE")
_TAKES_IDS: Final = ("IMPORT", "FORWARD")
_ADDED: Final = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
"""The settings with what is added to new schemas."""
_INHERITED: Final = ("normalize", "validateFields", "validateNewSchemas", "compatibilityPolicy", "compatibilityGroup")
"""The settings that a subject takes from the registry's configuration, also if it has a configuration of its own."""
LATEST: Final = -1
_SHOWN_CHARACTERS: Final = 60
_MAX_QUOTED_CHARACTERS: Final = 1000
_T = TypeVar("_T")


class SchemaLog(Protocol):
    """The topic `_schemas`, in this process or on another broker."""

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster."""
        ...

    def read(self) -> tuple[bool, Sequence[Record]]:
        """Read to the end of the topic.

        Returns:
            Whether the topic begins anew, since it was deleted or emptied, and the records since the last call.
        """
        ...

    def append(self, new: Sequence[Record]) -> None:
        """Write records in one go. The topic is created if it does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema as a client has sent it.

    Attributes:
        id: The id that an import gives, or None.
        version: The version that the client expects. 0 means none, and -1 the latest.
    """

    content: Content
    id: int | None = None
    version: int = 0


class Registry:
    """A schema registry on a topic.

    Threads call operations through `run`. A change is answered after its own records have been read.

    Args:
        log: The topic.
        default_level: The compatibility level while none is configured.

    Attributes:
        log: The topic.
        state: The state as of the latest `sync`.
    """

    def __init__(self, log: SchemaLog, default_level: str = "BACKWARD") -> None:
        self.log = log
        self._defaults = {"CONFIG": {"compatibilityLevel": default_level}, "MODE": {"mode": "READWRITE"}}
        self._topic = TopicSource(log.read)
        self._lock = threading.Lock()
        self.state = State()

    def run(self, work: Callable[["Registry"], _T]) -> _T:
        """Call operations when no other thread does, after reading what others have written to the topic.

        Raises:
            RegistryError: an operation refuses its arguments.
        """
        with self._lock:
            self.sync()
            try:
                return work(self)
            except UnicodeEncodeError as error:
                shown = error.object[max(error.start - _SHOWN_CHARACTERS, 0) :][: 2 * _SHOWN_CHARACTERS]
                raise errors.RegistryError(400, f"the text {shown!r} has half of a surrogate pair") from None

    def sync(self) -> None:
        """Read the topic to its end."""
        self.state = self._topic.state

    def _write(self, *new: Record) -> None:
        self.log.append(new)
        self.sync()

    # Schemas

    def register(self, subject: str, new: NewSchema, *, normalize: bool, force: bool = False) -> Version:
        """Register a schema under a subject, and return its version there.

        With `force` it need not be compatible.

        Raises:
            RegistryError: the schema is not valid or not compatible, or the mode forbids it.
        """
        if not subjects.is_valid(subject):
            raise errors.refusal(42208, subject)
        config = self.settings_in_scope("CONFIG", subject)
        latest = self.state.version(subject, LATEST)
        if not new.content.text.strip() and latest is not None:  # Only the metadata or the rule set is new.
            metadata, rule_set = new.content.metadata, new.content.rule_set
            new = replace(new, content=replace(latest.content, metadata=metadata, rule_set=rule_set))
        parsed, content = self._parse_new(subject, new, normalize=normalize, is_new=True)
        is_completed = any(config.get(name) for name in _ADDED)
        version = None if is_completed else self._find(subject, content, only_latest=new.version == LATEST)
        if version is not None and _is_meant(new, version):
            return version
        self._check_can_register(subject, new)
        number = self._next_version(subject)
        if self._mode(subject) not in _TAKES_IDS:
            content = self._complete(subject, content, config, number, sets_number=new.version != 0)
            version = None if new.version else self._find(subject, content)
            if version is not None:
                return version
            if new.version > 0 and new.version != number:
                raise errors.RegistryError(errors.INVALID_SCHEMA, "Version is not one more than previous version")
            reasons = formats.compare(parsed, content, self.state.versions(subject), config, self.parsed)
            if reasons and not force:
                details = f'for subject "{subject}", details: [{", ".join(reasons)}]'
                raise errors.RegistryError(
                    409, f"Schema being registered is incompatible with an earlier schema {details}"
                )
        registered = Version(
            subject, new.version if new.version > 0 else number, self._choose_id(subject, new, content), content
        )
        self._write(*self._records_of(registered))
        return self._written(registered)

    def _records_of(self, new: Version) -> Iterable[Record]:
        """Yield the records that register a version."""
        context = subjects.split(new.subject)[0]
        if context not in self.state.contexts():
            yield records.context_record(context)
        for version in self.state.versions(new.subject, with_deleted=True):
            # A version that is registered again takes the place of the softly deleted one.
            is_replaced = version.is_deleted and version.id == new.id and version.version < new.version
            if is_replaced and not self.state.referrers(version.subject, version.version, with_deleted=True):
                yield records.schema_tombstone(version)
        yield records.schema_record(new)

    def _written(self, version: Version) -> Version:
        found = self.state.version(version.subject, version.version)
        if found is None or found.content.guid != version.content.guid:
            raise errors.RegistryError(50001, "the topic was changed by another program meanwhile")
        return found

    def _next_version(self, subject: str) -> int:
        return max((version.version for version in self.state.versions(subject, with_deleted=True)), default=0) + 1

    def _choose_id(self, subject: str, new: NewSchema, content: Content) -> int:
        context = subjects.split(subject)[0]
        if new.id is None:
            return self.state.id_of(context, content.guid) or self.state.greatest_ids[context] + 1
        existing = self.state.versions_of_id(context, new.id)
        if existing and existing[0].content.guid != content.guid:
            raise errors.RegistryError(
                42205, f"Overwrite new schema with id {new.id} in context {context} is not permitted."
            )
        return new.id

    def _check_can_register(self, subject: str, new: NewSchema) -> None:
        self._check_writable(subject)
        mode, place = self._mode(subject), _place(subject)
        if new.id is not None and mode not in _TAKES_IDS:
            raise errors.RegistryError(42205, f"{place} is not in import mode")
        if new.id is None and mode != "READWRITE":
            raise errors.RegistryError(42205, f"{place} is not in read-write mode")

    def look_up(self, subject: str, new: NewSchema, *, normalize: bool, with_deleted: bool) -> Version:
        """Return the version of a subject that has this schema.

        Raises:
            RegistryError: the subject or the schema does not exist, or the schema is not valid.
        """
        if new.content.text.strip():
            for namesake in self.state.namesakes(subject):
                try:
                    _, content = self._parse_new(namesake, new, normalize=normalize, is_new=False)
                except errors.RegistryError:
                    if namesake == subject:
                        raise
                    continue  # Another context may lack the references.
                version = self._find(namesake, content, with_deleted=with_deleted)
                if version is None:
                    completed = self._complete(namesake, content, self.settings_in_scope("CONFIG", namesake))
                    version = self._find(namesake, completed, with_deleted=with_deleted)
                if version is not None:
                    return version
        self.versions(subject, with_deleted=with_deleted)  # The subject may be unknown.
        raise errors.RegistryError(40403, "Schema not found")

    def check(self, subject: str, number: int | None, new: NewSchema, *, normalize: bool) -> list[str]:
        """Return why a schema is not compatible with a version of a subject, or with those that the level asks for.

        Args:
            subject: The subject.
            number: The version, `LATEST`, or None for those that the level asks for.
            new: The schema.
            normalize: Whether the schema is normalized.

        Raises:
            RegistryError: there is no such version, or the schema is not valid.
        """
        version = None if number is None else self.state.version(subject, number)
        if version is None and number is not None and number != LATEST:
            raise errors.refusal(40402, number)
        config = self.settings_in_scope("CONFIG", subject)
        parsed, content = self._parse_new(subject, new, normalize=normalize, is_new=True)
        versions = [version] if version is not None else self.state.versions(subject) if number is None else []
        return formats.compare(parsed, content, versions, config, self.parsed)

    def versions(self, subject: str, *, with_deleted: bool) -> list[Version]:
        """Return the versions of a subject, the oldest first.

        Raises:
            RegistryError: there are none.
        """
        versions = self.state.versions(subject, with_deleted=with_deleted)
        if not versions:
            raise errors.refusal(40401, subject)
        return versions

    def parsed(self, version: Version) -> Parsed:
        """Return the parsed schema of a version.

        Raises:
            RegistryError: the topic has a schema that is not valid.
        """
        return self._parse(version.content, version.subject, self.state.referenced)

    def _parse(self, content: Content, subject: str, find: FindVersion, *, is_new: bool = False) -> Parsed:
        try:
            return self._topic.formats.parse(content, subject, find, is_new=is_new)
        except InvalidSchemaError as error:
            text = content.text
            quoted = text if len(text) <= _MAX_QUOTED_CHARACTERS else f"{text[:_MAX_QUOTED_CHARACTERS]}..."
            names = ", ".join(reference.name for reference in content.references)
            message = f"Invalid schema {quoted} with refs [{names}] of type {content.kind}, details: {error}"
            raise errors.RegistryError(errors.INVALID_SCHEMA, message) from None

    def _parse_new(self, subject: str, new: NewSchema, *, normalize: bool, is_new: bool) -> tuple[Parsed, Content]:
        """Parse a client's schema. It is normalized on request, but imports stay as they are."""
        config = self.settings_in_scope("CONFIG", subject)
        references = tuple(self._pin(subject, reference) for reference in new.content.references)
        content = replace(new.content, references=references)
        find = self.state.version if is_new else self.state.referenced
        is_strict = is_new and new.id is None and config.get("validateNewSchemas") is not False
        parsed = self._parse(content, subject, find, is_new=is_strict)
        is_normalized = normalize or config.get("normalize") is True
        if not is_normalized or self._mode(subject) in _TAKES_IDS:
            return parsed, replace(content, text=parsed.canonical)
        references = tuple(sorted(dict.fromkeys(references), key=lambda item: (item.subject, item.version)))
        return parsed, replace(content, text=parsed.normalized, references=references)

    def _pin(self, parent: str, reference: Reference) -> Reference:
        """Return a reference to the latest version as one to its number."""
        version = None
        if reference.version == LATEST:
            version = self.state.version(subjects.qualify(reference.subject, parent), LATEST)
        return reference if version is None else replace(reference, version=version.version)

    def _find(
        self, subject: str, content: Content, *, with_deleted: bool = False, only_latest: bool = False
    ) -> Version | None:
        """Return the newest version of a subject with this content, or None."""
        id_ = self.state.id_of(subjects.split(subject)[0], content.guid)
        versions = self.state.versions(subject, with_deleted=with_deleted)[-1 if only_latest else 0 :]
        for version in reversed(versions):
            if version.id == id_:
                return version
        for version in reversed(versions):
            if records.is_equivalent(content, version):
                return version
        if content.kind == "AVRO" and not content.references:
            # Java clients look up a schema whose references are resolved.
            for version in reversed(versions):
                if version.content.references and self.parsed(version).formatted("resolved") == content.text:
                    return version
        return None

    def _complete(
        self, subject: str, content: Content, config: Config, number: int = 0, *, sets_number: bool = False
    ) -> Content:
        """Return a content with the metadata and rules that configuration and the latest version add.

        The metadata has the number of a new version if the client gives one, or if it has one already.
        """
        latest = self.state.version(subject, LATEST)
        before = content if latest is None else latest.content
        metadata = before.metadata if content.metadata is None else content.metadata
        metadata = records.merge_metadata(config.get("defaultMetadata"), metadata)
        metadata = records.merge_metadata(metadata, config.get("overrideMetadata"))
        rule_set = before.rule_set if content.rule_set is None else content.rule_set
        rule_set = records.merge_rule_sets(config.get("defaultRuleSet"), rule_set)
        rule_set = records.merge_rule_sets(rule_set, config.get("overrideRuleSet"))
        if number and (sets_number or records.CONFLUENT_VERSION in (metadata or {}).get("properties", {})):
            metadata = records.merge_metadata(metadata, {"properties": {records.CONFLUENT_VERSION: str(number)}})
        return replace(content, metadata=metadata, rule_set=rule_set)

    # Deletions

    def delete_version(self, subject: str, number: int, *, permanent: bool) -> int:
        """Delete a version softly, or permanently after it was deleted softly, and return its number.

        Raises:
            RegistryError: there is no such version, it is in another state, or the mode or a reference forbids it.
        """
        version = self.state.version(subject, number, with_deleted=number != LATEST)
        if version is None:
            self.versions(subject, with_deleted=True)  # The subject may be unknown.
            raise errors.refusal(40402, number)
        if version.is_deleted and not permanent:
            raise errors.refusal(40406, subject, version.version)
        self._check_writable(subject)
        self._check_unreferenced([version], permanent=permanent)
        if not permanent:
            self._write(records.schema_record(records.deleted(version)))
        elif version.is_deleted:
            is_last = len(self.state.versions(subject, with_deleted=True)) == 1
            self._write(records.schema_tombstone(version), *(self._settings_of(subject) if is_last else ()))
        else:
            raise errors.refusal(40407, subject, version.version)
        return version.version

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Delete all versions of a subject softly, or permanently after that, and return their numbers.

        Raises:
            RegistryError: there is no such subject, it is in another state, or the mode or a reference forbids it.
        """
        live = self.state.versions(subject)
        versions = self.versions(subject, with_deleted=True)
        if not live and not permanent:
            raise errors.refusal(40404, subject)
        self._check_writable(subject)
        self._check_unreferenced(versions if permanent else live, permanent=permanent)
        if not permanent:
            self._write(records.subject_record("DELETE_SUBJECT", subject, {"version": live[-1].version}))
            return [version.version for version in live]
        if live:
            raise errors.refusal(40405, subject)
        tombstones = [records.schema_tombstone(version) for version in reversed(versions)]
        self._write(*tombstones, *self._settings_of(subject))
        return [version.version for version in versions]

    def _settings_of(self, subject: str) -> Iterable[Record]:
        """Yield the tombstones of a subject's mode and configuration, if it has them."""
        for kind in ("MODE", "CONFIG"):
            if subject in self.state.settings[kind]:
                yield records.subject_record(kind, subject, None)

    def _check_writable(self, subject: str) -> None:
        if self._mode(subject) in _READ_ONLY:
            raise errors.RegistryError(42205, f"{_place(subject)} is in read-only mode")

    def _check_unreferenced(self, versions: Sequence[Version], *, permanent: bool) -> None:
        """Raise an error if other subjects refer to one of these versions, or the same subject to a single one."""
        for version in versions:
            for referrer in self.state.referrers(version.subject, version.version, with_deleted=permanent):
                if len(versions) == 1 or referrer.subject != version.subject:
                    raise errors.refusal(42206, version.subject, version.version)

    def delete_context(self, context: str) -> None:
        """Forget a context, given as `:.ctx:`.

        Raises:
            RegistryError: the context has subjects.
        """
        if not context or self.state.subjects(context, with_deleted=True):
            raise errors.refusal(42211, context)
        self._write(records.context_record(subjects.split(context)[0], is_deleted=True))

    # Configuration and modes

    def settings(self, kind: str, subject: str) -> Config | None:
        """Return what is set for a subject, a context or the registry, or None. The kind is CONFIG or MODE."""
        found = self.state.settings[kind].get(subject)
        if found is None and subject not in {"", subjects.GLOBAL}:
            return None
        return {**self._defaults[kind], **(found or {})}

    def settings_in_scope(self, kind: str, subject: str) -> Config:
        """Return the settings that apply to a subject. The kind is CONFIG or MODE."""
        known = self.state.settings[kind]
        own, top = known.get(subject), known.get("", {})
        if own is None:
            context = subjects.join(subjects.split(subject)[0], "")
            own = known.get(context) or known.get(subjects.GLOBAL) or {}
        else:
            own = {**{name: top[name] for name in _INHERITED if name in top}, **own}
        return {**self._defaults[kind], **own}

    def _mode(self, subject: str) -> str:
        mode: str = self.settings_in_scope("MODE", subject)["mode"]
        return mode

    def update_config(self, subject: str, changes: Mapping[str, Any]) -> Config:
        """Change settings of a subject, a context or the registry, and return all of them. None removes a setting.

        Raises:
            RegistryError: the mode forbids it, or the subject is not valid.
        """
        if not subjects.is_valid(subject, allows_context=True):
            raise errors.refusal(42208, subject)
        self._check_writable(subject)
        config = {**self.state.settings["CONFIG"].get(subject, {}), **changes}
        value = {name: setting for name, setting in config.items() if setting is not None}
        self._write(records.subject_record("CONFIG", subject, value))
        return value

    def set_mode(self, subject: str, mode: str | None, *, force: bool) -> None:
        """Set the mode of a subject, a context or the registry. None removes it.

        Raises:
            RegistryError: an import would begin while there are schemas, without `force`, or the subject is not valid.
        """
        if not subjects.is_valid(subject, allows_context=True):
            raise errors.refusal(42208, subject)
        removed: list[Record] = []
        if mode == "IMPORT" and self._mode(subject) != "IMPORT" and not force:
            if self.state.covered(subject, with_deleted=False):
                raise errors.RegistryError(42205, "Cannot import since found existing subjects")
            for name in self.state.covered(subject, with_deleted=True):
                versions = self.state.versions(name, with_deleted=True)
                self._check_unreferenced(versions, permanent=True)
                removed += map(records.schema_tombstone, versions)
            removed.append(records.subject_record("CLEAR_SUBJECT", subject, {}))
        value = None if mode is None else {"mode": mode}
        self._write(*removed, records.subject_record("MODE", subject, value))

    def delete_settings(self, kind: str, subject: str, *, recursive: bool = False) -> Config | None:
        """Delete what is set for a subject, a context or the registry, and return it.

        Args:
            kind: CONFIG or MODE. A mode can be deleted in any mode.
            subject: The subject, `:.ctx:` for a context, or an empty string for the registry.
            recursive: Whether to delete the settings of all subjects of the context, too.

        Raises:
            RegistryError: nothing is set, or the mode forbids it.
        """
        found, known = self.settings(kind, subject), self.state.settings[kind]
        if found is None and not recursive:
            raise errors.refusal(40401, subject)
        if kind == "CONFIG":
            self._check_writable(subject)
        names = {name for name in known if recursive and subjects.matches(name, subject)} | {subject}
        tombstones = [records.subject_record(kind, name, None) for name in sorted(names & known.keys())]
        if tombstones:
            self._write(*tombstones)
        return found


def _is_meant(new: NewSchema, version: Version) -> bool:
    """Return whether a registered version is what the client wants to register."""
    if new.version > 0:
        return (new.version, new.id) == (version.version, version.id)
    return new.id in {None, version.id}


def _place(subject: str) -> str:
    context = subjects.split(subject)[0]
    return f"Subject {subject} in context {subjects.join(context, '')}"
