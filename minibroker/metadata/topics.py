"""The topics of a broker: their ids, partitions and configuration, and the file that keeps them.

A partition is a directory `<topic>-<partition>` in the data directory, in Kafka's own layout. What no partition
directory can tell, which topics there are, with which id, how many partitions and which overrides, stands beside them
in `minibroker-topics.json`, replaced atomically at every change:

    {"version": 1,
     "next_producer_id": 1000,
     "topics": {"orders": {"id": "<22 characters>", "partitions": 4, "configs": {"retention.ms": "60000"}}}}

Where there are several brokers, or were, a topic also has `replicas`, `leaders` and `leader_epochs`, one for each
partition. Whoever is named there and is no broker of this run has no part in it.

A log is opened when it is first used, so a start takes the same time whatever the number of partitions.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from minibroker.config import BrokerConfig, TopicConfig
from minibroker.config.keys import LONG_MAX
from minibroker.metadata.adoption import clear_away, find_topics
from minibroker.metadata.append_policy import append_policy, keeps_batches
from minibroker.metadata.cluster import NO_NODE, Cluster
from minibroker.metadata.log_settings import log_config
from minibroker.metadata.partition import LogKeeper, Partition
from minibroker.metadata.replicas import Replicas
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataResponsePartition
from minibroker_protocol.records.append_policy import AppendPolicy
from minibroker_storage.checkpoints import new_uuid, parse_uuid, uuid_text, write_atomically
from minibroker_storage.config import LogConfig
from minibroker_storage.layout import create_partition_directory, purge

TOPICS_FILE: Final = "minibroker-topics.json"
_FILE_VERSION: Final = 1
_MOST_REMEMBERED: Final = 10_000
_FIRST_PRODUCER_ID_BESIDE_OTHERS: Final = 1 << 32
"""In a directory of a Kafka, which has given out small ids: its logs may know their sequence numbers still."""
_CONFIGS_OF_ADOPTED: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""No directory tells its topic's configuration; what may have been meant to stay must not go by our defaults."""
_CONFIGS_OF_ADOPTED_INTERNAL: Final = {"cleanup.policy": "compact", "compression.type": "producer"}
"""But Kafka's own topics are always compacted, and must be or they grow without end."""
_MAX_NAME_LENGTH: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")
METADATA_TOPIC: Final = "__cluster_metadata"
"""What an Apache Kafka in KRaft mode keeps its metadata in, beside the topics; no client sees it."""
CONSUMER_OFFSETS: Final = "__consumer_offsets"
"""What the group coordinator keeps: groups and their committed offsets."""
TRANSACTION_STATE: Final = "__transaction_state"
"""What the transaction coordinator keeps: transactional ids and their transactions."""
_INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})


def topic_name_error(name: str) -> str | None:
    """Why `name` cannot be a topic's name (Kafka's `Topic.validate`), or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in {".", ".."}:
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > _MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {_MAX_NAME_LENGTH}"
    if not _LEGAL_NAME.match(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


TopicPartition = tuple[str, int]
"""A partition by its topic's name and its number."""


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
        self.min_insync_replicas = config.integer("min.insync.replicas")
        self.flushes_on_append = config.integer("flush.messages") < LONG_MAX
        self._append_policy: AppendPolicy | None = None
        self._log_config: LogConfig | None = None
        for partition in self.partitions:
            partition.reconfigure()

    @property
    def log_config(self) -> LogConfig:
        """What the configuration says to the logs; made when it is first needed."""
        if self._log_config is None:
            self._log_config = log_config(self.config)
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

    def changed(self) -> None:
        """Something that Metadata tells of the partitions has changed."""
        self._described = []

    def describe(self, cluster: Cluster) -> list[MetadataResponsePartition]:
        """The partitions as Metadata tells them; built once per change, since clients ask again and again."""
        if len(self._described) != len(self.partitions):
            self._described = [
                MetadataResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE if each.leader is None else ErrorCode.NONE,
                    partition_index=each.index,
                    leader_id=NO_NODE if each.leader is None else each.leader.id,
                    leader_epoch=each.leader_epoch,
                    replica_nodes=list(each.replicas),
                    isr_nodes=list(each.isr),
                    offline_replicas=[node_id for node_id in each.replicas if not cluster.nodes[node_id].is_up],
                )
                for each in self.partitions
            ]
        return self._described

    def placement(self) -> dict[str, list[Any]]:
        """What the topics file keeps of who has the partitions and leads them."""
        return {
            "replicas": [list(each.replicas) for each in self.partitions],
            "leaders": [None if each.leader is None else each.leader.id for each in self.partitions],
            "leader_epochs": [each.leader_epoch for each in self.partitions],
        }


class Topics:
    """All topics of one data directory.

    Opening reads the topics file, adopts partition directories that it does not know (such as those of an Apache
    Kafka), and takes away what a deletion left behind.
    """

    def __init__(self, data_dir: str, config: BrokerConfig, keeper: LogKeeper, cluster: Cluster | None = None) -> None:
        self.data_dir = data_dir
        self._config = config
        self._keeper = keeper
        self._cluster = cluster or Cluster()
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._deleted: set[str] = set()
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

    def create(
        self,
        wanted: Sequence[tuple[str, int, TopicConfig]],
        placements: Sequence[Sequence[Replicas] | None] | None = None,
    ) -> list[Topic]:
        """Create topics (name, number of partitions, configuration), all or, with an OSError, none of them.

        `placements` has the replicas of each topic's partitions; None for one each.
        """
        self._keeper.forget(name for name, _, _ in wanted)
        created = [Topic(name, new_uuid(), config) for name, _, config in wanted]
        replicas = placements or [None] * len(created)
        for topic, (_, partitions, _), placed in zip(created, wanted, replicas, strict=True):
            self._add_partitions(topic, partitions, placed)
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

    def add_partitions(self, topic: Topic, total: int, replicas: Sequence[Replicas] | None = None) -> None:
        """Grow a topic to `total` partitions; OSError when the disk refuses, and the topic is as it was.

        `replicas` are those of the new partitions; None for one each.
        """
        first = len(topic.partitions)
        self._add_partitions(topic, total, replicas)
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

    def remember_deleted(self, name: str) -> None:
        """A client has deleted the topic; see `was_deleted`."""
        if len(self._deleted) >= _MOST_REMEMBERED:
            self._deleted.clear()
        self._deleted.add(name)

    def was_deleted(self, name: str) -> bool:
        """Whether clients have deleted a topic of that name, which nobody has made again."""
        return name in self._deleted

    def configure(self, topic: Topic, config: TopicConfig) -> None:
        """Give a topic another configuration, which counts at once; OSError, and the topic is as it was."""
        before = topic.config
        topic.configure(config)
        try:
            self.save()
        except OSError:
            topic.configure(before)
            raise

    def reconfigure(self) -> None:
        """Have all topics act on the broker's configuration, which has changed."""
        for topic in self:
            topic.configure(TopicConfig(self._config, topic.config.overrides, are_old=True))

    def delete_all(self) -> list[str]:
        """Delete all topics; see `delete`. The file is written once."""
        renamed = [partition.delete() for topic in self for partition in topic.partitions]
        self._by_name.clear()
        self._by_id.clear()
        self._deleted.clear()
        self.save()
        return renamed

    def load(self) -> None:
        """Take in what the directory holds, where topics were brought back. TopicsFileError, OSError."""
        next_producer_id = self.next_producer_id
        self._load()
        self.next_producer_id = max(next_producer_id, self.next_producer_id)

    def _save_if_possible(self) -> None:
        with contextlib.suppress(OSError):
            self.save()

    def save(self) -> None:
        """Write the topics file anew."""
        state = {
            "version": _FILE_VERSION,
            "next_producer_id": self.next_producer_id,
            "topics": {topic.name: self._entry(topic) for topic in self._by_name.values()},
        }
        write_atomically(os.path.join(self.data_dir, TOPICS_FILE), json.dumps(state, indent=1).encode())

    def _entry(self, topic: Topic) -> dict[str, Any]:
        """A topic as the file has it; of partitions that are all where they belong there is nothing to tell."""
        entry: dict[str, Any] = {
            "id": uuid_text(topic.id),
            "partitions": len(topic.partitions),
            "configs": dict(topic.config.overrides),
        }
        if not self._cluster.is_single or any(each.leader_epoch for each in topic.partitions):
            entry.update(topic.placement())
        return entry

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._deleted.discard(topic.name)

    def _forget(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.id]

    def _add_partitions(self, topic: Topic, total: int, replicas: Sequence[Replicas] | None) -> None:
        first = len(topic.partitions)
        for index in range(first, total):
            partition = self._append_partition(topic, index)
            self._cluster.settle(partition, None if replicas is None else replicas[index - first])

    def _append_partition(self, topic: Topic, index: int) -> Partition:
        partition = Partition(topic, index, f"{self.data_dir}/{topic.name}-{index}", self._keeper)
        topic.partitions.append(partition)
        return partition

    def _load(self) -> None:
        os.makedirs(self.data_dir, exist_ok=True)
        path = os.path.join(self.data_dir, TOPICS_FILE)
        state = _read_state(path)
        if state is not None:
            try:
                self.next_producer_id = int(state["next_producer_id"])
                for name, entry in state["topics"].items():
                    self._restore(name, parse_uuid(entry["id"]), int(entry["partitions"]), entry["configs"], entry)
            except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
                raise TopicsFileError(f"{path} is damaged: {type(error).__name__}: {error}") from None
        clear_away(self.data_dir)
        adopted = self._adopt()
        if adopted:
            self.next_producer_id = max(self.next_producer_id, _FIRST_PRODUCER_ID_BESIDE_OTHERS)
        if adopted or state is None:
            self.save()

    def _restore(
        self,
        name: str,
        topic_id: bytes,
        partitions: int,
        overrides: Mapping[str, str],
        placement: Mapping[str, list[Any]],
    ) -> None:
        """Bring a topic back; `placement` is as `Topic.placement` has it, or as much of that as is known."""
        topic = Topic(name, topic_id, TopicConfig(self._config, overrides))
        unknown: list[Any] = [None] * partitions
        replicas, leaders = placement.get("replicas", unknown), placement.get("leaders", unknown)
        epochs = placement.get("leader_epochs", unknown)
        for index in range(partitions):
            partition = self._append_partition(topic, index)
            self._cluster.restore(partition, replicas[index], leaders[index], int(epochs[index] or 0))
        self._add(topic)

    def _adopt(self) -> bool:
        """Take in partition directories that the file does not know."""
        known = {*self._by_name, METADATA_TOPIC}
        found = [each for each in find_topics(self.data_dir, known) if topic_name_error(each.name) is None]
        for name, topic_id, epochs in found:
            configs = _CONFIGS_OF_ADOPTED_INTERNAL if name in _INTERNAL_TOPICS else _CONFIGS_OF_ADOPTED
            self._restore(name, topic_id, len(epochs), configs, {"leader_epochs": epochs})
        return bool(found)


def _make_directories(partitions: Iterable[Partition]) -> None:
    """Make the directories of new partitions, all or, with an OSError, none of them."""
    made: list[str] = []
    for partition in partitions:
        topic = partition.topic
        try:
            create_partition_directory(partition.directory, topic.id)
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
