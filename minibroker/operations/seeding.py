"""Creates a broker's initial topics, schemas and records, from Python or from a file."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar, cast

from minibroker.cluster.errors import OperationError
from minibroker.cluster.topic_admin import DEFAULT, TopicSpec
from minibroker.cluster.topics import Topic
from minibroker.config.documents import parse_json, read_document, read_text
from minibroker.operations import schemas as operations_schemas
from minibroker.operations.producing import Codec, Format, Message, magic_of, payload_bytes, payload_of, produce
from minibroker.operations.records import describe_missing_partition
from minibroker.operations.topics import create_topic
from minibroker.server.services import Services
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.steps import drain

with lazy:
    from minibroker_registry import broker_log, registry, routes
    from minibroker_registry import errors as registry_errors
    from minibroker_storage import installation_hints


class SeedError(ValueError):
    """Invalid seeds. The message names the file, the line or entry, and the field."""


class SeededTopic(NamedTuple):
    """An initial topic. `place` is its position in the seed file. Fields that are None have the broker's default."""

    place: str
    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str | float | bool] = {}
    message_format: Format = "v2"
    codec: Codec = "none"


class SeededSchema(NamedTuple):
    """An initial schema, and its position in the seed file. The body is that of the HTTP request to register it."""

    place: str
    subject: str
    compatibility: str | None
    body: Mapping[str, Any]


class SeededRecord(NamedTuple):
    """An initial record, and its position in the seed file. The schemas are those of subjects that encode it."""

    place: str
    message: Message
    schema: str | None = None
    key_schema: str | None = None


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds read from `source`: topics by name, schemas, records by topic name, and the racks of the brokers."""

    source: str
    topics: dict[str, SeededTopic] = field(default_factory=dict[str, SeededTopic])
    records: dict[str, list[SeededRecord]] = field(default_factory=dict[str, list[SeededRecord]])
    schemas: list[SeededSchema] = field(default_factory=list[SeededSchema])
    racks: list[str | None] = field(default_factory=list["str | None"])


def load_seeds(services: Services, seeds: Seeds) -> None:
    """Create missing topics and schemas, and write the seed records to topics that have never had a record.

    A broker restarted on the same directory therefore has each record only once. A kill or an error leaves either
    all of the changes or none.

    Raises:
        SeedError: the seeds are invalid.
        OSError: the disk fails.
    """
    topics = services.core.topics
    existing = {name: topic for name in seeds.records if (topic := topics.get(name)) is not None}
    ends = {name: [partition.log.log_end_offset for partition in topic.partitions] for name, topic in existing.items()}
    empty = [name for name in existing if not any(ends[name])]
    with topics.seeding([existing[name] for name in empty]):
        for seed in seeds.topics.values():
            if topics.get(seed.name) is None:
                _create_topic(services, seed)
        if seeds.schemas:
            _register_schemas(services, seeds.schemas)
        _write_records(services, seeds, [name for name in seeds.records if name not in existing or name in empty])


def _write_records(services: Services, seeds: Seeds, names: list[str]) -> None:
    values = None
    if any(record.schema or record.key_schema for name in names for record in seeds.records[name]):
        drain(services.schemas.update())
        values = services.schemas.values
    for name in names:
        records = seeds.records[name]
        topic = services.core.topics.get(name)
        seed = seeds.topics.get(name) or SeededTopic(records[0].place, name)
        if topic is None:
            topic = _create_topic(services, seed)
        _check_partitions(topic, records)
        messages: list[Message] = []
        for record in records:
            try:
                messages.append(
                    record.message if values is None else operations_schemas.encode_message(values, *record[1:])
                )
            except OperationError as error:
                raise SeedError(f"{record.place}: {error}") from None
        try:
            produce(services, name, messages, message_format=seed.message_format, codec=seed.codec)
        except OperationError as error:
            raise SeedError(f"{seeds.source}: records of the topic {name!r}: {error}") from None


def _register_schemas(services: Services, schemas: Sequence[SeededSchema]) -> None:
    """Register schemas that are missing. In an empty topic they get the same ids each time."""
    level = services.core.config.text("minibroker.registry.compatibility.level")
    opened = registry.Registry(broker_log.LocalLog(services), level)
    opened.sync()

    def ask(method: str, path: str, body: object, **query: Sequence[str]) -> None:
        route = "subjects/{subject}/versions" if path == "subjects" else f"{path}/{{subject}}"
        routes.ROUTES[route][method](routes.Request(opened, {"subject": subject}, query, body, is_lenient=False))

    for place, subject, compatibility, body in schemas:
        try:
            if compatibility is not None and subject not in opened.state.settings["CONFIG"]:
                ask("PUT", "config", {"compatibility": compatibility})
            is_imported = body["id"] not in [None, *(version.id for version in opened.state.versions(subject))]
            if is_imported:
                ask("PUT", "mode", {"mode": "IMPORT"}, force=["true"])
            ask("POST", "subjects", body)
            if is_imported:
                ask("DELETE", "mode", None)
        except ModuleNotFoundError as error:
            raise SeedError(f"{place}: {installation_hints.missing(error.name, 'registry')}") from None
        except (registry_errors.RegistryError, ValueError) as error:
            raise SeedError(f"{place}: {error}") from None


def _create_topic(services: Services, seed: SeededTopic) -> Topic:
    try:
        factor = seed.replication_factor
        create_topic(services, seed.name, partitions=seed.partitions, replication_factor=factor, configs=seed.configs)
    except OperationError as error:
        raise SeedError(f"{seed.place}: {error}") from None
    topic = services.core.topics.get(seed.name)
    assert topic is not None
    return topic


def _check_partitions(topic: Topic, records: list[SeededRecord]) -> None:
    for record in records:
        place, message = record.place, record.message
        index = message.partition
        if index is not None and topic.partition(index) is None:
            raise SeedError(f"{place}: partition: {describe_missing_partition(topic, index)}")


_LINES: Final = (".ndjson", ".jsonl")
_NO_TIMESTAMP: Final = "is neither a number of milliseconds since 1970 nor a date and time, such as 2026-01-31T12:00:00"
_DOCUMENT: Final = ("topics", "records", "schemas", "racks")
_TOPIC: Final = ("name", "partitions", "replication_factor", "configs", "records", "message_format", "codec")
_RECORD: Final = ("topic", "key", "value", "headers", "timestamp", "partition", "schema", "key_schema")
_SCHEMA: Final = ("subject", "schema", "file", "kind", "references", "id", "compatibility")
_REFERENCE: Final = ("name", "subject", "version")
_KINDS: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
"""The kind of a schema by the suffix of its file."""

T = TypeVar("T")


def read_seeds(path: str) -> Seeds:
    """Read the seeds from a file.

    Raises:
        SeedError: the file is invalid; the message names the file, the line or entry, and the field.
        OSError: the file cannot be read.
    """
    seeds = Seeds(path)
    try:
        if path.endswith(_LINES):
            _read_lines(seeds, read_text(path))
        else:
            _read_lists(seeds, read_document(path))
    except SeedError:
        raise
    except ValueError as error:
        raise SeedError(str(error)) from None
    return seeds


def _read_lists(seeds: Seeds, data: object) -> None:
    if data is None:
        raise SeedError(f"{seeds.source}: it is empty; there may be topics and records")
    document = _check_fields(data, _DOCUMENT, seeds.source)
    for number, entry in enumerate(_get_list(document, "topics", seeds.source), 1):
        _add_topic(seeds, entry, f"{seeds.source}: topic {number}")
    for number, entry in enumerate(_get_list(document, "schemas", seeds.source), 1):
        _add_schema(seeds, entry, f"{seeds.source}: schema {number}")
    for number, entry in enumerate(_get_list(document, "records", seeds.source), 1):
        _add_record(seeds, entry, f"{seeds.source}: record {number}")
    for number, entry in enumerate(_get_list(document, "racks", seeds.source), 1):
        seeds.racks.append(None if entry is None else _convert(_to_text, entry, place=f"{seeds.source}: rack {number}"))


def _read_lines(seeds: Seeds, text: str) -> None:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{seeds.source}: line {number}"
        data = parse_json(line, place)
        names = _field_names(data)
        if "topic" in names:
            _add_record(seeds, data, place)
        elif "subject" in names:
            _add_schema(seeds, data, place)
        elif "name" in names or isinstance(data, str):
            _add_topic(seeds, data, place)
        else:
            raise SeedError(f"{place}: it has no name as a topic, no subject as a schema and no topic as a record")


def _add_topic(seeds: Seeds, data: object, place: str) -> None:
    if isinstance(data, str):
        topic = _parse_topic(data, place)
        listed: Sequence[object] = ()
    else:
        fields = _check_fields(data, _TOPIC, place)
        topic = _make_topic(fields, place)
        listed = _get_list(fields, "records", place)
    if topic.name in seeds.topics:
        raise SeedError(f"{place}: name: there is a topic {topic.name!r} already")
    seeds.topics[topic.name] = topic
    for number, entry in enumerate(listed, 1):
        _add_record(seeds, entry, f"{place}: record {number}", topic)


def _parse_topic(text: str, place: str) -> SeededTopic:
    try:
        spec = TopicSpec.parse(text)
    except ValueError as error:
        raise SeedError(f"{place}: {error}") from None
    configs = {key: value for key, value in spec.configs.items() if value is not None}
    partitions, factor = (
        None if number == DEFAULT else number for number in (spec.partitions, spec.replication_factor)
    )
    return SeededTopic(place, spec.name, partitions, factor, configs)


def _make_topic(fields: Mapping[str, Any], place: str) -> SeededTopic:
    message_format = cast("Format", _get(fields, "message_format", place, _to_text, "v2"))
    codec = cast("Codec", _get(fields, "codec", place, _to_text, "none"))
    _convert(magic_of, message_format, codec, place=place)
    return SeededTopic(
        place,
        _get_required(fields, "name", place),
        _get(fields, "partitions", place, _to_integer),
        _get(fields, "replication_factor", place, _to_integer),
        _get(fields, "configs", place, _to_configs, {}),
        message_format,
        codec,
    )


def _add_record(seeds: Seeds, data: object, place: str, topic: SeededTopic | None = None) -> None:
    """Add a record listed in the file or within one of its topics."""
    fields = {"value": data} if topic is not None and isinstance(data, str) else _check_fields(data, _RECORD, place)
    if topic is None:
        name = _get_required(fields, "topic", place)
    elif "topic" in fields:
        raise SeedError(f"{place}: topic: this record is in the topic {topic.name!r} already")
    else:
        name = topic.name
    schemas = _get(fields, "schema", place, _to_text), _get(fields, "key_schema", place, _to_text)
    message = Message(
        value=fields.get("value") if schemas[0] else _get_payload(fields, "value", place),
        key=fields.get("key") if schemas[1] else _get_payload(fields, "key", place),
        headers=_get(fields, "headers", place, _to_headers, ()),
        timestamp=_get(fields, "timestamp", place, _to_timestamp),
        partition=_get(fields, "partition", place, _to_integer),
    )
    seeds.records.setdefault(name, []).append(SeededRecord(place, message, *schemas))


def _add_schema(seeds: Seeds, data: object, place: str) -> None:
    fields = _check_fields(data, _SCHEMA, place)
    text, file, kind = fields.get("schema"), _get(fields, "file", place, _to_text), "AVRO"
    if (text is None) == (file is None):
        raise SeedError(f"{place}: schema: give either the schema or a file with it")
    references = _get_list(fields, "references", place)
    if file is not None:
        kind = _KINDS.get(os.path.splitext(file)[1], kind)
        with open(os.path.join(os.path.dirname(seeds.source), file), encoding="utf-8") as opened:
            text = opened.read()
    body = {
        "schema": text if isinstance(text, str) else json.dumps(text, ensure_ascii=False),
        "schemaType": str(fields.get("kind", kind)).upper(),
        "references": [{"version": -1, **_check_fields(item, _REFERENCE, place)} for item in references],
        "id": fields.get("id"),
    }
    compatibility = _get(fields, "compatibility", place, _to_text)
    seeds.schemas.append(SeededSchema(place, _get_required(fields, "subject", place), compatibility, body))


def _check_fields(data: object, known: Sequence[str], place: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise SeedError(f"{place}: it is {_shorten(data)}, not a mapping with some of the fields {', '.join(known)}")
    fields = {str(name): value for name, value in cast("Mapping[object, Any]", data).items()}
    for name in fields:
        if name not in known:
            raise SeedError(f"{place}: {name}: there is no such field; there are {', '.join(known)}")
    return fields


def _field_names(data: object) -> frozenset[object]:
    return frozenset(cast("Mapping[object, object]", data)) if isinstance(data, Mapping) else frozenset()


def _get_list(fields: Mapping[str, Any], name: str, place: str) -> Sequence[object]:
    listed = fields.get(name)
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise SeedError(f"{place}: {name}: {_shorten(listed)} is not a list")
    return cast("Sequence[object]", listed)


def _get_required(fields: Mapping[str, Any], name: str, place: str) -> str:
    if fields.get(name) is None:
        raise SeedError(f"{place}: the field {name!r} is missing")
    return _convert(_to_text, fields[name], place=f"{place}: {name}")


def _get(fields: Mapping[str, Any], name: str, place: str, convert: Callable[[Any], T], default: Any = None) -> Any:
    value = fields.get(name)
    return default if value is None else _convert(convert, value, place=f"{place}: {name}")


def _get_payload(fields: Mapping[str, Any], name: str, place: str) -> bytes | None:
    return _convert(_to_bytes, fields.get(name), name, place=place)


def _convert(check: Callable[..., T], *values: Any, place: str) -> T:
    """Return the result of `check` for the values.

    Raises:
        SeedError: the check rejects the values.
    """
    try:
        return check(*values)
    except UnicodeEncodeError:
        raise SeedError(f"{place}: a text that has no form in UTF-8") from None
    except RecursionError:
        raise SeedError(f"{place}: nested too deeply") from None
    except ValueError as error:
        raise SeedError(f"{place}: {error}") from None


def _to_bytes(value: Any, subject: str) -> bytes | None:
    return payload_bytes(payload_of(value, subject), subject)


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_shorten(value)} is not a text")  # noqa: TRY004 - errors in a file are ValueErrors
    return value


def _to_integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{_shorten(value)} is not a whole number")  # noqa: TRY004 - as above
    return value


def _to_configs(value: Any) -> dict[str, str | float | bool]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{_shorten(value)} is not a mapping of keys to values")  # noqa: TRY004 - as above
    return {str(name): _to_config(str(name), config) for name, config in cast("Mapping[object, Any]", value).items()}


def _to_config(name: str, value: Any) -> str | float | bool:
    """Return a configuration value, joining the items of a list with commas."""
    if isinstance(value, list):
        return ",".join(str(_to_config(name, item)) for item in cast("Sequence[Any]", value))
    if not isinstance(value, str | int | float):
        raise ValueError(f"{name}: {_shorten(value)} is neither a text nor a number, true, false or a list of texts")  # noqa: TRY004 - as above
    return value


def _to_headers(value: Any) -> tuple[tuple[str, bytes | None], ...]:
    """Parse headers given as `{name: value}`, or as a list of `[name, value]`, which can repeat a name."""
    return tuple((name, _to_bytes(content, f"header {name!r}")) for name, content in _iterate_pairs(value))


def _iterate_pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(name), content) for name, content in cast("Mapping[object, Any]", value).items())
        return
    pairs: Sequence[object] = cast("Sequence[object]", value) if isinstance(value, list) else [value]
    for pair in pairs:
        items = _get_items(pair)
        if len(items) != len(("name", "value")):
            raise ValueError(f"{_shorten(pair)} is not [name, value]")
        yield _to_text(items[0]), items[1]


def _get_items(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def _to_timestamp(value: Any) -> int:
    """Convert a number of ms since the epoch, or a date with a time, which is in UTC if it has no zone, to ms."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value!r} {_NO_TIMESTAMP}") from None
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{_shorten(value)} {_NO_TIMESTAMP}")
    return value


def _shorten(value: object) -> str:
    text = repr(value)
    limit = 60
    return text if len(text) <= limit else f"{text[:limit]}..."
