"""Creates a broker's initial topics, schemas and records, which `seed_file` reads from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from minibroker.cluster.errors import OperationError
from minibroker.cluster.topics import Topic
from minibroker.operations.producing import Codec, Format, Message, Payload, produce
from minibroker.operations.topics import create_topic
from minibroker.server.services import Services
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_registry import broker_log, compatibility, registry
    from minibroker_registry import errors as registry_errors
    from minibroker_registry import records as registry_records
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
    """An initial schema, and its position in the seed file. Fields that are None have the registry's default."""

    place: str
    subject: str
    text: str
    kind: str
    references: Sequence[Mapping[str, Any]]
    id: int | None
    compatibility: str | None


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
    for name in names:
        records = seeds.records[name]
        topic = services.core.topics.get(name)
        seed = seeds.topics.get(name) or SeededTopic(records[0].place, name)
        if topic is None:
            topic = _create_topic(services, seed)
        _check_partitions(topic, records)
        messages = [_encode(services, record) for record in records]
        try:
            produce(services, name, messages, message_format=seed.message_format, codec=seed.codec)
        except OperationError as error:
            raise SeedError(f"{seeds.source}: records of the topic {name!r}: {error}") from None


def _register_schemas(services: Services, schemas: Sequence[SeededSchema]) -> None:
    """Register schemas that are missing. In an empty topic they get the same ids each time."""
    default_level = services.core.config.text("minibroker.registry.compatibility.level")
    opened = registry.Registry(broker_log.LocalLog(services), default_level)
    opened.sync()
    for place, subject, text, kind, references, id_, level in schemas:
        try:
            pinned = registry_records.read_references({"version": registry.LATEST, **item} for item in references)
            if level and level.upper() not in compatibility.LEVELS:
                raise SeedError(f"{place}: compatibility: {level!r} is not one of {', '.join(compatibility.LEVELS)}")
            if level and subject not in opened.state.configs:
                opened.update_config(subject, {"compatibilityLevel": level.upper()})
            is_imported = id_ is not None and not any(version.id == id_ for version in opened.state.versions(subject))
            if is_imported:
                opened.set_mode(subject, "IMPORT", force=True)
            opened.register(subject, registry.NewSchema(kind, text, pinned, id=id_), normalize=False)
            if is_imported:
                opened.delete_mode(subject, recursive=False)
        except registry_errors.RegistryError as error:
            raise SeedError(f"{place}: {error.message}") from None
        except (KeyError, TypeError) as error:
            raise SeedError(f"{place}: references: {error}") from None
        except ModuleNotFoundError as error:
            raise SeedError(f"{place}: {installation_hints.missing(error.name, 'registry')}") from None


def _encode(services: Services, record: SeededRecord) -> Message:
    """Return the message of a record, encoded with its schemas."""

    def encode(name: str, payload: Payload, subject: str | None) -> Payload:
        if subject is None or payload is None:
            return payload
        try:
            return services.schemas.values.encode(payload, subject)
        except ValueError as error:
            raise SeedError(f"{record.place}: {name}: {error}") from None

    message = record.message
    return replace(
        message,
        value=encode("value", message.value, record.schema),
        key=encode("key", message.key, record.key_schema),
    )


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
        index, count = message.partition, len(topic.partitions)
        if index is not None and topic.partition(index) is None:
            raise SeedError(f"{place}: partition: topic {topic.name!r} has no partition {index}, only {count}")
