"""The topics of a broker: their ids, partitions and configuration, and the file that keeps them.

A partition is a directory `<topic>-<partition>` in the data directory, in Kafka's own layout. What no partition
directory can tell, which topics there are, with which id, how many partitions and which overrides, stands beside them
in `minibroker-topics.json`, replaced atomically at every change:

    {"version": 1,
     "next_producer_id": 1000,
     "topics": {"orders": {"id": "<22 characters>", "partitions": 4, "configs": {"retention.ms": "60000"}}}}

A log is opened when it is first used, so a start takes the same time whatever the number of partitions.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, cast

from minibroker.append_policy import append_policy, keeps_batches
from minibroker.config import BrokerConfig, TopicConfig
from minibroker.config.keys import LONG_MAX
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataResponsePartition
from minibroker_protocol.records.append_policy import AppendPolicy
from minibroker_storage.checkpoints import (
    new_uuid,
    parse_uuid,
    read_partition_metadata,
    uuid_text,
    write_atomically,
)
from minibroker_storage.config import LogConfig
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.layout import (
    PARTITION_METADATA,
    create_partition_directory,
    delete_directory_name,
    purge,
    rename_if_there,
)
from minibroker_storage.log import Log

TOPICS_FILE: Final = "minibroker-topics.json"
LEADER_EPOCH: Final = 0
"""Leadership never moves in a cluster of one broker, so every partition stays in its first epoch."""

_FILE_VERSION: Final = 1
_FIRST_PRODUCER_ID_BESIDE_OTHERS: Final = 1 << 32
"""In a directory of a Kafka, which has given out small ids: its logs may know their sequence numbers still."""
_CONFIGS_OF_ADOPTED: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""No directory tells its topic's configuration; what may have been meant to stay must not go by our defaults."""
_CONFIGS_OF_ADOPTED_INTERNAL: Final = {"cleanup.policy": "compact", "compression.type": "producer"}
"""But Kafka's own topics are always compacted, and must be or they grow without end."""
_MAX_NAME_LENGTH: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")
_PARTITION_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)\Z")
_DELETED_DIRECTORY: Final = re.compile(r".+\.[0-9a-f]{32}-delete\Z")
METADATA_TOPIC: Final = "__cluster_metadata"
"""What an Apache Kafka in KRaft mode keeps its metadata in, beside the topics; no client sees it."""
CONSUMER_OFFSETS: Final = "__consumer_offsets"
"""What the group coordinator keeps: groups and their committed offsets."""
TRANSACTION_STATE: Final = "__transaction_state"
"""What the transaction coordinator keeps: transactional ids and their transactions."""
_INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})

TopicPartition = tuple[str, int]
"""A partition by its topic's name and its number."""


def topic_name_error(name: str) -> str | None:
    """Why `name` cannot be a topic's name (Kafka's `Topic.validate`), or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in {".", ".."}:
        return f"Topic name is invalid: '{name}' cannot be '.' or '..'"
    if len(name) > _MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {_MAX_NAME_LENGTH}"
    if not _LEGAL_NAME.match(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def leader_epoch_error(epoch: int) -> ErrorCode:
    """What is wrong with the leader epoch that a client believes in (KIP-320); NONE also when it names none (-1)."""
    if epoch == LEADER_EPOCH or epoch < 0:
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH


class LogKeeper(Protocol):
    """What the topics need of whoever looks after their logs."""

    def open_log(self, partition: "Partition") -> Log:
        """Open a partition's log. StorageError or OSError when that fails."""
        ...

    def reconfigure(self, log: Log, config: LogConfig) -> None:
        """Let a log act on a new configuration."""
        ...

    def let_go(self, partition: "Partition") -> None:
        """The partition is going to be deleted."""
        ...

    def forget(self, names: Iterable[str]) -> None:
        """New topics take these names: what is known of older ones is not theirs. OSError."""
        ...


class Partition:
    """One partition: where its log is, and the log itself once someone asks for it."""

    __slots__ = ("_keeper", "_log", "directory", "index", "topic")

    def __init__(self, topic: "Topic", index: int, directory: str, keeper: LogKeeper) -> None:
        self.topic = topic
        self.index = index
        self.directory = directory
        self._keeper = keeper
        self._log: Log | None = None

    @property
    def key(self) -> TopicPartition:
        """As checkpoints name it."""
        return self.topic.name, self.index

    @property
    def log(self) -> Log:
        """The partition's log, opened and recovered on first use. StorageError or OSError when that fails."""
        if self._log is None:
            self._log = self._keeper.open_log(self)
        return self._log

    @property
    def opened_log(self) -> Log | None:
        """The log if someone has used it."""
        return self._log

    def reconfigure(self) -> None:
        """The topic has another configuration now."""
        if self._log is not None:
            self._keeper.reconfigure(self._log, self.topic.log_config)

    def delete(self) -> str:
        """Give the partition up; returns where its directory has gone, for `purge`. OSError when that fails."""
        self._keeper.let_go(self)
        if self._log is not None:
            return self._log.delete()
        renamed = delete_directory_name(self.directory)
        rename_if_there(self.directory, renamed)
        return renamed


class Topic:
    """A topic; `overrides` of its configuration are in `config`."""

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        self._described: list[MetadataResponsePartition] = []
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Take a configuration; what the hot paths ask for is looked up once."""
        self.config = config
        self.max_message_bytes = config.integer("max.message.bytes")
        #: Whether sound batches are appended as they come; for the others see `append_policy`.
        self.keeps_batches = keeps_batches(config) and not self.is_internal
        self.flushes_on_append = config.integer("flush.messages") < LONG_MAX
        self._append_policy: AppendPolicy | None = None
        self._log_config: LogConfig | None = None
        for partition in self.partitions:
            partition.reconfigure()

    @property
    def log_config(self) -> LogConfig:
        """What the configuration says to the logs; made when it is first needed."""
        if self._log_config is None:
            self._log_config = _log_config(self.config)
        return self._log_config

    @property
    def append_policy(self) -> AppendPolicy:
        """What the configuration asks of appended records; made when it is first needed."""
        if self._append_policy is None:
            self._append_policy = append_policy(self.config)
        return self._append_policy

    @property
    def is_compacted(self) -> bool:
        """Is `compact` in its cleanup policy?"""
        return "compact" in self.config.items("cleanup.policy")

    @property
    def is_internal(self) -> bool:
        """Is it one of Kafka's own topics?"""
        return self.name in _INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """The partition with this index, if it exists."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def describe(self, node_id: int) -> list[MetadataResponsePartition]:
        """The partitions as Metadata tells them; built once per change, since clients ask again and again."""
        if len(self._described) != len(self.partitions):
            nodes = [node_id]
            self._described = [
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=index,
                    leader_id=node_id,
                    leader_epoch=LEADER_EPOCH,
                    replica_nodes=nodes,
                    isr_nodes=nodes,
                    offline_replicas=[],
                )
                for index in range(len(self.partitions))
            ]
        return self._described


def _log_config(config: TopicConfig) -> LogConfig:
    policy = config.items("cleanup.policy")
    return LogConfig(
        segment_bytes=config.integer("segment.bytes"),
        segment_ms=config.integer("segment.ms"),
        segment_jitter_ms=config.integer("segment.jitter.ms"),
        index_interval_bytes=config.integer("index.interval.bytes"),
        segment_index_bytes=config.integer("segment.index.bytes"),
        retention_ms=config.integer("retention.ms"),
        retention_bytes=config.integer("retention.bytes"),
        compact="compact" in policy,
        delete="delete" in policy,
        delete_retention_ms=config.integer("delete.retention.ms"),
        min_cleanable_dirty_ratio=config.number("min.cleanable.dirty.ratio"),
        min_compaction_lag_ms=config.integer("min.compaction.lag.ms"),
        max_compaction_lag_ms=config.integer("max.compaction.lag.ms"),
        flush_messages=config.integer("flush.messages"),
        flush_ms=config.integer("flush.ms"),
        max_message_bytes=config.integer("max.message.bytes"),
        producer_id_expiration_ms=config.broker.integer("producer.id.expiration.ms"),
    )


class Topics:
    """All topics of one data directory.

    Opening reads the topics file, adopts partition directories that it does not know (such as those of an Apache
    Kafka), and takes away what a deletion left behind.
    """

    def __init__(self, data_dir: str, config: BrokerConfig, keeper: LogKeeper) -> None:
        self.data_dir = data_dir
        self._config = config
        self._keeper = keeper
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self.next_producer_id = 0
        self._load()

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Topic | None:
        """The topic with this name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this id."""
        return self._by_id.get(topic_id)

    def colliding(self, name: str) -> str | None:
        """A topic whose name differs only in '.' against '_', which the names of Kafka's metrics cannot tell apart."""
        folded = name.replace(".", "_")
        if folded == name and "_" not in name:
            return None
        return next((other for other in self._by_name if other != name and other.replace(".", "_") == folded), None)

    def create(self, wanted: Iterable[tuple[str, int, TopicConfig]]) -> list[Topic]:
        """Create topics (name, number of partitions, configuration), all or, with an OSError, none of them."""
        wanted = list(wanted)
        self._keeper.forget(name for name, _, _ in wanted)
        created = [Topic(name, new_uuid(), config) for name, _, config in wanted]
        for topic, (_, partitions, _) in zip(created, wanted, strict=True):
            self._add_partitions(topic, partitions)
            self._add(topic)
        try:
            # The file first: a topic that it names gets the directories that it lacks when they are first used, but
            # directories that it does not name would be taken for a topic without configuration.
            self.save()
            _make_directories([partition for topic in created for partition in topic.partitions])
        except OSError:
            for topic in created:
                self._forget(topic)
            self._save_if_possible()
            raise
        return created

    def add_partitions(self, topic: Topic, total: int) -> None:
        """Grow a topic to `total` partitions; OSError when the disk refuses, and the topic is as it was."""
        first = len(topic.partitions)
        self._add_partitions(topic, total)
        try:
            self.save()
            _make_directories(topic.partitions[first:])
        except OSError:
            del topic.partitions[first:]
            self._save_if_possible()
            raise

    def delete(self, topic: Topic) -> list[str]:
        """Delete a topic; returns the renamed directories, whose removal (`purge`) may take its time elsewhere."""
        # The directories first: those that the file does not name would be taken for a topic at the next start.
        renamed = [partition.delete() for partition in topic.partitions]
        self._forget(topic)
        self.save()
        return renamed

    def _save_if_possible(self) -> None:
        with contextlib.suppress(OSError):
            self.save()

    def save(self) -> None:
        """Write the topics file anew."""
        state = {
            "version": _FILE_VERSION,
            "next_producer_id": self.next_producer_id,
            "topics": {
                topic.name: {
                    "id": uuid_text(topic.id),
                    "partitions": len(topic.partitions),
                    "configs": dict(topic.config.overrides),
                }
                for topic in self._by_name.values()
            },
        }
        write_atomically(os.path.join(self.data_dir, TOPICS_FILE), json.dumps(state, indent=1).encode())

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic

    def _forget(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]

    def _add_partitions(self, topic: Topic, total: int) -> None:
        for index in range(len(topic.partitions), total):
            topic.partitions.append(Partition(topic, index, f"{self.data_dir}/{topic.name}-{index}", self._keeper))

    def _load(self) -> None:
        os.makedirs(self.data_dir, exist_ok=True)
        path = os.path.join(self.data_dir, TOPICS_FILE)
        state = _read_state(path)
        if state is not None:
            try:
                self.next_producer_id = int(state["next_producer_id"])
                for name, entry in state["topics"].items():
                    self._restore(name, parse_uuid(entry["id"]), int(entry["partitions"]), entry["configs"])
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise TopicsFileError(f"{path} is damaged: {type(error).__name__}: {error}") from None
        adopted = self._adopt()
        if adopted:
            self.next_producer_id = max(self.next_producer_id, _FIRST_PRODUCER_ID_BESIDE_OTHERS)
        if adopted or state is None:
            self.save()

    def _restore(self, name: str, topic_id: bytes, partitions: int, overrides: Mapping[str, str]) -> None:
        topic = Topic(name, topic_id, TopicConfig(self._config, overrides))
        for index in range(partitions):
            topic.partitions.append(Partition(topic, index, f"{self.data_dir}/{name}-{index}", self._keeper))
        self._add(topic)

    def _adopt(self) -> bool:
        """Take in partition directories that the file does not know; remove those of deleted topics."""
        found: dict[str, int] = {}
        for entry in os.scandir(self.data_dir):
            if _DELETED_DIRECTORY.match(entry.name):
                purge(entry.path)
            elif (
                (match := _PARTITION_DIRECTORY.match(entry.name))
                and match["topic"] not in self._by_name
                and match["topic"] != METADATA_TOPIC
                and entry.is_dir()
            ):
                found[match["topic"]] = max(found.get(match["topic"], 0), int(match["partition"]) + 1)
        for name, partitions in found.items():
            if topic_name_error(name) is None:
                topic_id = _topic_id_in(f"{self.data_dir}/{name}-{partitions - 1}")
                internal = name in _INTERNAL_TOPICS
                configs = _CONFIGS_OF_ADOPTED_INTERNAL if internal else _CONFIGS_OF_ADOPTED
                self._restore(name, topic_id, partitions, configs)
        return bool(found)


def _make_directories(partitions: Iterable[Partition]) -> None:
    """Make the directories of new partitions, all or, with an OSError, none of them."""
    made: list[str] = []
    for partition in partitions:
        topic = partition.topic
        try:
            create_partition_directory(partition.directory, topic.id, config=topic.log_config)
        except OSError as error:
            ours = [] if isinstance(error, FileExistsError) else [partition.directory]
            for directory in [*made, *ours]:
                purge(directory)
            raise
        made.append(partition.directory)


class TopicsFileError(ValueError):
    """The topics file cannot be read; the message names it and says why."""


def _read_state(path: str) -> dict[str, Any] | None:
    """The content of the topics file, None when there is none."""
    try:
        with open(path, "rb") as file:
            state: object = json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise TopicsFileError(f"{path} is not JSON: {error}") from None
    if not isinstance(state, dict) or cast("dict[str, Any]", state).get("version") != _FILE_VERSION:
        raise TopicsFileError(f"{path} is no topics file of version {_FILE_VERSION}")
    return cast("dict[str, Any]", state)


def _topic_id_in(directory: str) -> bytes:
    """The topic id that a partition directory names, or a new one: Kafka before 2.8 had none."""
    try:
        return read_partition_metadata(f"{directory}/{PARTITION_METADATA}")
    except (FileNotFoundError, CorruptCheckpointError):
        return new_uuid()
