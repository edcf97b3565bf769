"""The schemas of a broker: operations on its registry, and keys and values that are encoded and decoded with them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
    from minibroker.operations.matching import Decode
    from minibroker.operations.producing import Message
    from minibroker.server.inspection.journal import Entry
    from minibroker_protocol.records.record import Record
    from minibroker_registry.registry import Registry

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


async def decoder_of(services: Services) -> "Decode":
    """Return a function that decodes keys and values with the schemas that the topic `_schemas` has now."""
    if services.core.topics.get(SCHEMAS_TOPIC) is None:
        return getattr
    await run_in_slices(services, services.schemas.update())
    values = services.schemas.values

    def decode(record: "ConsumerRecord | Record", name: str) -> object:
        data: bytes | None = getattr(record, name)
        is_key = name == "key"
        if data is None or not values.has_schema(data, record.headers, is_key=is_key):
            return data
        try:
            return values.decode(data, record.headers, is_key=is_key)
        except registry_values.UndecodableError as error:
            return Undecodable(data, str(error))

    return decode


async def decode_records(services: Services, records: Sequence[ConsumerRecord]) -> list[DecodedRecord]:
    """Decode the keys and values that have a schema. Those that cannot be decoded become an `Undecodable`."""
    decode = await decoder_of(services)

    def decode_record(record: ConsumerRecord) -> DecodedRecord:
        fields: dict[str, Any] = {name: getattr(record, name) for name in ConsumerRecord.__dataclass_fields__}
        for name in ("key", "value"):
            fields[name] = decode(record, name)
        return DecodedRecord(**fields)

    return await run_in_slices(services, collect(map(decode_record, records)))


def decode_entry(entry: "Entry", decode: "Decode") -> "Iterator[tuple[object, object]]":
    """Yield the keys and values of an entry's records, if the broker has schemas."""
    if decode is not getattr:
        for record in entry.records():
            yield decode(record, "key"), decode(record, "value")


async def encode_messages(
    services: Services, messages: "Sequence[Message]", value_subject: str | None, key_subject: str | None
) -> "list[Message]":
    """Encode the values and keys of messages with the latest schemas of subjects. None stays a null.

    Raises:
        OperationError: a subject has no schema, or a value does not fit it.
    """
    await run_in_slices(services, services.schemas.update())
    encoded = (encode_message(services, message, value_subject, key_subject) for message in messages)
    return await run_in_slices(services, collect(encoded))


def encode_message(
    services: Services, message: "Message", value_subject: str | None, key_subject: str | None
) -> "Message":
    """Encode a message like `encode_messages`, once `services.schemas` is up to date."""

    def encode(name: str, value: Any, subject: str | None) -> Any:
        if value is None or subject is None:
            return value
        try:
            return services.schemas.values.encode(value, subject)
        except ValueError as error:
            raise OperationError(f"{name}: {error}") from None

    value, key = encode("value", message.value, value_subject), encode("key", message.key, key_subject)
    return replace(message, value=value, key=key)
