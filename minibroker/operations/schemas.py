"""The schemas of a broker: operations on its registry, and keys and values that are encoded and decoded with them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from minibroker.cluster.errors import ConflictError, NotFoundError, OperationError, is_the_callers
from minibroker.operations.records import ConsumerRecord, DecodedRecord, Undecodable
from minibroker.operations.waiting import run_in_slices
from minibroker.operations.wording import missing_message
from minibroker.server.services import Services
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.steps import collect

with lazy:
    from minibroker_registry import broker_log, formats
    from minibroker_registry import errors as registry_errors
    from minibroker_registry import registry as registry_registry
    from minibroker_registry import values as registry_values
    from minibroker_storage import installation_hints

if TYPE_CHECKING:
    from minibroker.operations.producing import Message
    from minibroker.server.inspection.journal import Entry
    from minibroker_protocol.records.record import Record
    from minibroker_registry.registry import Registry
    from minibroker_registry.values import Values

__tracebackhide__ = is_the_callers

T = TypeVar("T")

_ERRORS: Final = {404: NotFoundError, 409: ConflictError}
"""The error for each HTTP status of the registry. Others are an OperationError."""


class SchemaVersion(NamedTuple):
    """A version of a subject. `kind` is AVRO, JSON or PROTOBUF, and `text` the schema."""

    subject: str
    version: int
    id: int
    kind: str
    text: str


async def run_on_registry(services: Services, work: "Callable[[Registry], T]") -> T:
    """Run an operation of the registry on another thread, since it waits for the broker's event loop.

    Raises:
        OperationError: the registry refuses it, or a package is missing.
    """
    loop = asyncio.get_running_loop()
    try:
        return await asyncio.to_thread(lambda: broker_log.registry_of(services, loop).run(work))
    except registry_errors.RegistryError as error:
        raise _ERRORS.get(error.status, OperationError)(error.message) from None
    except ModuleNotFoundError as error:
        raise OperationError(f"schemas: {installation_hints.missing(error.name, 'registry')}") from None


def latest(registry: "Registry", subject: str) -> SchemaVersion:
    """Return the latest version of a subject."""
    version = registry.state.version(subject, registry_registry.LATEST)
    if version is None:
        raise NotFoundError(missing_message("subject", subject, registry.state.subjects("", with_deleted=False)))
    return SchemaVersion(subject, version.version, version.id, version.content.kind, version.content.text)


def set_level(registry: "Registry", subject: str, level: str) -> None:
    """Set the compatibility level of a subject, or of all."""
    if level.upper() not in formats.LEVELS:
        raise OperationError(f"level: {level!r} is not one of {', '.join(formats.LEVELS)}")
    registry.update_config(subject, {"compatibilityLevel": level.upper()})


class Decoder:
    """Keys and values, decoded with the schemas that the topic `_schemas` had when their records were added.

    They are decoded on a thread, since that can take seconds. The records must stay in memory.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._decoded: dict[tuple[int, str], object] = {}

    async def add(self, records: "Iterable[ConsumerRecord | Record]") -> None:
        """Decode the keys and values that have a schema. Those that cannot be decoded become an `Undecodable`."""
        services = self._services
        if services.core.topics.get(SCHEMAS_TOPIC) is not None:
            await run_in_slices(services, services.schemas.update())
            await asyncio.to_thread(self._decode, services.schemas.values, records)

    def _decode(self, values: "Values", records: "Iterable[ConsumerRecord | Record]") -> None:
        for record, name in product(records, ("key", "value")):
            data: bytes | None = getattr(record, name)
            is_key = name == "key"
            if values.has_schema(data, record.headers, is_key=is_key):
                try:
                    decoded = values.decode(data, record.headers, is_key=is_key)
                except registry_values.UndecodableError as error:
                    decoded = Undecodable(data or b"", str(error))
                self._decoded[id(record), name] = decoded

    def __call__(self, record: "ConsumerRecord | Record", name: str) -> object:
        """Return the `key` or `value` of a record: a value of JSON, an `Undecodable`, or bytes without a schema."""
        return self._decoded.get((id(record), name), getattr(record, name))


async def decode_records(services: Services, records: Sequence[ConsumerRecord]) -> list[DecodedRecord]:
    """Decode the keys and values that have a schema. Those that cannot be decoded become an `Undecodable`."""
    decode = Decoder(services)
    await decode.add(records)

    def decode_record(record: ConsumerRecord) -> DecodedRecord:
        fields: dict[str, Any] = {name: getattr(record, name) for name in ConsumerRecord.__dataclass_fields__}
        for name in ("key", "value"):
            fields[name] = decode(record, name)
        return DecodedRecord(**fields)

    return await run_in_slices(services, collect(map(decode_record, records)))


async def decode_entry(services: Services, entry: "Entry", limit: int | None = None) -> list[tuple[object, object]]:
    """Return the keys and values of an entry's first records, if the broker has schemas."""
    if services.core.topics.get(SCHEMAS_TOPIC) is None:
        return []
    records, decode = [*islice(entry.records(), limit)], Decoder(services)
    await decode.add(records)
    return [(decode(record, "key"), decode(record, "value")) for record in records]


async def encode_messages(
    services: Services, messages: "Sequence[Message]", value_subject: str | None, key_subject: str | None
) -> "list[Message]":
    """Encode the values and keys of messages with the latest schemas of subjects, on a thread. None stays a null.

    Raises:
        OperationError: a subject has no schema, or a value does not fit it.
    """
    await run_in_slices(services, services.schemas.update())
    values = services.schemas.values
    return await asyncio.to_thread(
        lambda: [encode_message(values, message, value_subject, key_subject) for message in messages]
    )


def encode_message(
    values: "Values", message: "Message", value_subject: str | None, key_subject: str | None
) -> "Message":
    """Encode a message like `encode_messages`."""

    def encode(name: str, value: Any, subject: str | None) -> Any:
        if value is None or subject is None:
            return value
        try:
            return values.encode(value, subject)
        except ValueError as error:
            raise OperationError(f"{name}: {error}") from None

    value, key = encode("value", message.value, value_subject), encode("key", message.key, key_subject)
    return replace(message, value=value, key=key)
