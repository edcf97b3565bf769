"""Creates a broker's initial topics, schemas and records, which `seed_file` reads from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minibroker.cluster.errors import OperationError
from minibroker.cluster.topics import Topic
from minibroker.operations import schemas as operations_schemas
from minibroker.operations.producing import Codec, Format, Message, produce
from minibroker.operations.topics import create_topic
from minibroker.server.services import Services
from minibroker_protocol.lazy_imports import lazy

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
                messages.append(operations_schemas.encode_message(services, *record[1:]))
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
            if compatibility is not None and subject not in opened.state.configs:
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
        index, count = message.partition, len(topic.partitions)
        if index is not None and topic.partition(index) is None:
            raise SeedError(f"{place}: partition: topic {topic.name!r} has no partition {index}, only {count}")
