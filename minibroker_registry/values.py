"""Values and keys with a schema id: decoding and encoding them with the schemas of a registry."""

import struct
import uuid
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from minibroker.config.names import suggestion
from minibroker_protocol.lazy_imports import lazy
from minibroker_registry import subjects
from minibroker_registry.formats import Formats
from minibroker_registry.records import Record, Version
from minibroker_registry.schema import InvalidSchemaError, Parsed
from minibroker_registry.state import State

with lazy:
    from minibroker_storage import installation_hints

_ID: Final = 0
_GUID: Final = 1
_ID_SIZE: Final = 5
_GUID_SIZE: Final = 17
_LATEST: Final = -1
_UNUSABLE: Final = (LookupError, ModuleNotFoundError, InvalidSchemaError)
Headers = Iterable[tuple[str, bytes | None]]
SchemaId = int | uuid.UUID
"""The id of a schema in its context, or its guid, which is the same in all contexts."""


class UndecodableError(ValueError):
    """A value cannot be decoded or encoded. The message is a sentence that says why."""


class UnavailableError(UndecodableError, LookupError):
    """The registry does not answer, or fails. The message names it. Values have no part in it."""


class SchemaSource(Protocol):
    """Where schemas come from.

    Each method raises LookupError if there is no such schema, UnavailableError if the source does not answer, and
    InvalidSchemaError if the schema is not valid.
    """

    def by_id(self, id_: SchemaId, /) -> Parsed:
        """Return the schema with an id or a guid."""
        ...

    def latest(self, subject: str, /) -> tuple[int, Parsed]:
        """Return the id and the schema of the latest version of a subject."""
        ...


class Values:
    """Decodes and encodes values with the schemas of a source. Sources cache parsed schemas."""

    def __init__(self, source: SchemaSource) -> None:
        self._source = source

    @staticmethod
    def has_schema(data: bytes | None, headers: Headers = (), *, is_key: bool = False) -> bool:
        """Return whether a value begins like one with a schema id, or has a header for it."""
        return _find_id(data or b"", headers, is_key=is_key) is not None

    @staticmethod
    def locate(data: bytes, headers: Headers = (), *, is_key: bool = False) -> tuple[SchemaId, bytes]:
        """Return the id or the guid that a value names, and its payload, which is not looked at.

        Raises:
            UndecodableError: the value has no schema id.
        """
        located = _find_id(data, headers, is_key=is_key)
        if located is None:
            raise UndecodableError(f"The {'key' if is_key else 'value'} does not begin with a schema id")
        carrier, rest = located
        id_, size = _read_id(carrier)
        return id_, carrier[size:] + rest

    def find(self, data: bytes, headers: Headers = (), *, is_key: bool = False) -> tuple[SchemaId, Parsed, bytes]:
        """Return the id or the guid that a value names, its schema, and its payload. Message indexes are part of it.

        Raises:
            UndecodableError: the value has no schema id, or the schema is not known.
        """
        id_, payload = self.locate(data, headers, is_key=is_key)
        try:
            return id_, self._source.by_id(id_), payload
        except _UNUSABLE as error:
            raise _unusable(error, f"the schema with the {_name_of(id_)}") from None

    def decode(self, data: bytes | None, headers: Headers = (), *, is_key: bool = False) -> object:
        """Return a value in the types of JSON. A null value is None.

        Args:
            data: The value or key of a record.
            headers: The record's headers, of which `__value_schema_id` or `__key_schema_id` may name the schema.
            is_key: Whether it is the key.

        Raises:
            UndecodableError: the value has no schema id, the schema is not known, or the payload does not fit it.
        """
        if data is None:
            return None
        id_, schema, payload = self.find(data, headers, is_key=is_key)
        name = _name_of(id_)
        try:
            return schema.decode(payload)
        except _UNUSABLE as error:
            raise _unusable(error, f"the schema with the {name}") from None
        except ValueError as error:
            raise UndecodableError(f"The payload does not fit the schema with the {name}: {error}") from None

    def encode(self, value: object, subject: str, *, message: str | None = None) -> bytes:
        """Return a value with the id of a subject's latest schema before it.

        Args:
            value: The value, in the types of JSON.
            subject: The subject.
            message: The name of the message in a Protobuf schema. It is the first one by default.

        Raises:
            UndecodableError: the subject has no schema, or the schema cannot be used.
            ValueError: the value does not fit the schema. The message names the field.
        """
        try:
            id_, schema = self._source.latest(subject)
            return prefix_of(id_) + schema.encode(value, message)
        except _UNUSABLE as error:
            raise _unusable(error, f"the latest schema of the subject {subject!r}") from None


def prefix_of(id_: int) -> bytes:
    """Return the bytes before a payload: the magic byte and the schema's id."""
    return struct.pack(">bi", _ID, id_)


def _name_of(id_: SchemaId) -> str:
    return f"id {id_}" if isinstance(id_, int) else f"guid {id_}"


def _unusable(error: Exception, schema: str) -> UndecodableError:
    if isinstance(error, UndecodableError):
        return error
    if isinstance(error, ModuleNotFoundError):
        return UndecodableError(f"To use {schema}, {installation_hints.missing(error.name, 'registry')}")
    if isinstance(error, InvalidSchemaError):
        return UndecodableError(f"{schema.capitalize()} is not valid: {error}")
    return UndecodableError(str(error))


def _find_id(data: bytes, headers: Headers, *, is_key: bool) -> tuple[bytes, bytes] | None:
    """Return the bytes that begin with a schema id, and those that follow them elsewhere, or None."""
    name = "__key_schema_id" if is_key else "__value_schema_id"
    header = next((value for key, value in reversed([*headers]) if key == name), None)
    if header:
        return header, data
    # Ids begin at 1. The numbers that Java's LongSerializer writes begin with zeros.
    return (data, b"") if data[:1] == b"\0" and len(data) >= _ID_SIZE and any(data[1:_ID_SIZE]) else None


def _read_id(carrier: bytes) -> tuple[SchemaId, int]:
    """Return an id or a guid and its size. In a header, the message indexes of Protobuf follow.

    Raises:
        UndecodableError: the header has neither.
    """
    if carrier[0] == _ID and len(carrier) >= _ID_SIZE:
        return struct.unpack_from(">xi", carrier)[0], _ID_SIZE
    if carrier[0] == _GUID and len(carrier) >= _GUID_SIZE:
        return uuid.UUID(bytes=carrier[1:_GUID_SIZE]), _GUID_SIZE
    raise UndecodableError(f"The header with the schema id is not valid: {carrier[:_GUID_SIZE].hex()}")


class TopicSource:
    """Schemas in the records of the topic `_schemas`.

    Any thread may look schemas up while another one applies records.

    Args:
        read: Returns whether the topic begins anew, and its records since the last call. It is called at each look-up,
            so it must be cheap if nothing was written.

    Attributes:
        formats: Parses the schemas.
    """

    def __init__(self, read: Callable[[], tuple[bool, Iterable[Record]]] = lambda: (False, ())) -> None:
        self._read = read
        self._state = State()
        self.formats = Formats()

    def versions(self, id_: SchemaId) -> list[Version]:
        """Return the versions with an id in the default context, or one of each context with a guid.

        Raises:
            LookupError: there are none.
        """
        state = self.state
        if isinstance(id_, int):
            versions = state.versions_of_id(subjects.DEFAULT_CONTEXT, id_)
        else:
            versions = state.versions_of_guid(str(id_))
        if not versions:
            raise LookupError(f"No schema has the {_name_of(id_)}")
        return versions

    def by_id(self, id_: SchemaId, /) -> Parsed:
        """Return the schema with an id in the default context, or with a guid in any."""
        version = self.versions(id_)[0]
        return self.formats.parse(version.content, version.subject, self._state.referenced)

    def latest(self, subject: str, /) -> tuple[int, Parsed]:
        """Return the id and the schema of the latest version of a subject."""
        version = self.state.version(subjects.normalize(subject), _LATEST)
        if version is None:
            hint = suggestion(subject, self.state.subjects("", with_deleted=False)) or "; register one first"
            raise LookupError(f"There is no schema of the subject {subject!r}{hint}")
        return version.id, self.formats.parse(version.content, version.subject, self._state.referenced)

    def apply(self, begins_anew: bool, records: Iterable[Record]) -> None:  # noqa: FBT001 - what `read` returns
        """Apply records that were read. Those from before a new beginning are void."""
        if begins_anew:
            self._state = State(self._state.greatest_ids)
        for record in records:
            self._state.apply(record)

    @property
    def state(self) -> State:
        """The state of the topic, read to its end."""
        self.apply(*self._read())
        return self._state
