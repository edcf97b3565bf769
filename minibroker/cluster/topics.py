"""The topics of a broker: ids, partitions, configurations, and the file that stores them (Kafka's `TopicsImage`).

A partition that has ever held a record is a directory `<topic>-<partition>` in the data directory, in Kafka's own
layout. Other partitions get their directories at a clean stop. The topics file
(`minibroker_storage.data_directory.names`) stores what the directories lack: which topics exist, and their ids, numbers
of partitions and configuration overrides. A request first changes all its topics one by one, then writes the file once.

A log is opened on first use, so the start-up time does not depend on the number of partitions.

This is one file of more than 500 lines, because all changes of topics must keep the topics file and the directories
consistent.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.directories import (
    find_markers,
    find_orphans,
    mark,
    marker_path,
    purge_and_log_errors,
    remove_leftovers,
)
from minibroker.cluster.durability import Durability
from minibroker.cluster.log_settings import append_policy, checks_schemas, keeps_batches, log_config
from minibroker.cluster.metadata_file import MetadataFile
from minibroker.cluster.partition import LogManager, Partition, PartitionRacks, Replicas, racks_of
from minibroker.config import BrokerConfig, TopicConfig
from minibroker.config.keys import LONG_MAX
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, METADATA_TOPIC, TRANSACTION_STATE
from minibroker_protocol.messages.metadata import MetadataResponsePartition
from minibroker_protocol.primitives import new_uuid, parse_uuid, uuid_text
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.names import (
    LEGAL_TOPIC,
    MAX_TOPIC_NAME,
    TOPICS_FILE,
    TopicsFileError,
    format_topics_file,
    parse_topics_file,
    topics_file_line,
)
from minibroker_storage.layout import purge, purge_contents, restart_partition_directory

_MAX_DELETED_NAMES: Final = 10_000
PRODUCER_ID_BLOCK: Final = 1000
"""Producer ids are reserved in blocks of the size that Kafka's controller assigns to a broker."""
_FIRST_PRODUCER_ID_AFTER_KAFKA: Final = 1 << 32
"""Used for an Apache Kafka directory, whose logs may contain sequence numbers of smaller ids."""
_ADOPTED_CONFIGS: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Directories do not contain the topic's configuration, and default retention must not delete records."""
_ADOPTED_COMPACTED_CONFIGS: Final = {"cleanup.policy": "compact", "compression.type": "producer"}
"""Two of Kafka's internal topics are always compacted, or they would grow without bound."""
_logger = logging.getLogger(__name__)
_COMPACTED: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})


def topic_name_error(name: str) -> str | None:
    """Return the reason why a topic name is invalid (Kafka's `Topic.validate`), or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in {".", ".."}:
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME}"
    if not LEGAL_TOPIC.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


class Topic:
    """A topic. `config` contains its configuration overrides."""

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        #: The replication factor that it has once there are enough nodes.
        self.wanted_factor = 1
        #: Whether the topic was deleted.
        self.is_gone = False
        #: The cached line in the topics file, or None if it must be encoded again.
        self.line: bytes | None = None
        #: Work that the next start must complete if this process is interrupted; see `Topics.note`.
        self.notes: dict[str, Any] = {}
        self._described: list[MetadataResponsePartition] = []
        self._racks: PartitionRacks = ()
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Set the configuration, and cache the values that hot paths use."""
        self.config = config
        self.line = None
        self.max_message_bytes = config.integer("max.message.bytes")
        #: The rules for appended records.
        self.append_policy = append_policy(config)
        #: Whether the records of producers are checked against schemas.
        self.checks_schemas = checks_schemas(config)
        #: Whether valid batches are appended unchanged; otherwise `append_policy` applies.
        self.keeps_batches = keeps_batches(self.append_policy) and not (self.checks_schemas or self.is_internal)
        self.min_insync_replicas = config.integer("min.insync.replicas")
        #: Whether the cleanup policy contains `compact`.
        self.is_compacted = "compact" in config.items("cleanup.policy")
        self.flushes_on_append = config.integer("flush.messages") < LONG_MAX
        self._log_config: LogConfig | None = None
        for partition in self.partitions:
            partition.reconfigure()

    @property
    def log_config(self) -> LogConfig:
        """The configuration of the topic's logs, created on first use."""
        if self._log_config is None:
            self._log_config = log_config(self.config)
        return self._log_config

    @property
    def is_internal(self) -> bool:
        """Whether this is one of Kafka's internal topics."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """Return the partition with this index, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def mark_changed(self) -> None:
        """Invalidate the cached Metadata response, because a partition has changed."""
        self._described = []
        self._racks = ()
        self.line = None

    def describe(self, cluster: Cluster) -> list[MetadataResponsePartition]:
        """Return the partitions for a Metadata response. They are cached until they change."""
        if len(self._described) != len(self.partitions):
            self._described = [partition.describe(cluster) for partition in self.partitions]
        return self._described

    def racks(self, cluster: Cluster) -> PartitionRacks:
        """Return the racks of the partitions' replicas."""
        if cluster.racks and len(self._racks) != len(self.partitions):
            self._racks = racks_of([partition.replicas for partition in self.partitions], cluster.racks)
        return self._racks if any(self._racks) else ()


class Topics:
    """All topics of one data directory.

    The constructor reads the topics file, adopts partition directories that are missing from the file (such as
    those of an Apache Kafka broker), and removes the leftovers of deletions.

    Attributes:
        next_producer_id: The end of the current block of producer ids.
        first_valid_producer_id: Transactional ids with a smaller producer id were restored from a snapshot. Their
            later epochs, if any, are unknown now. They therefore get a new producer id before they continue.
    """

    def __init__(
        self,
        data_dir: str,
        config: BrokerConfig,
        log_manager: LogManager,
        cluster: Cluster | None = None,
        durability: Durability | None = None,
    ) -> None:
        self.data_dir = data_dir
        self._config = config
        self._log_manager = log_manager
        self.cluster = cluster or Cluster()
        self._by_name: dict[str, Topic] = {}
        #: Returns the topic with this name, or None.
        self.get = self._by_name.get
        self._by_id: dict[bytes, Topic] = {}
        self._names: frozenset[str] | None = None
        self._folded: dict[str, dict[str, None]] = {}
        path = os.path.join(data_dir, TOPICS_FILE)
        self._file = MetadataFile(path) if durability is None else durability.file(path)
        self._markers: list[str] = []
        self._deleted: set[str] = set()
        self.next_producer_id = 0
        self.first_valid_producer_id = 0
        self._is_seeding = False
        self._load(is_start=True)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def names(self) -> frozenset[str]:
        """The names of all topics. The set is cached until a topic is created or deleted."""
        if self._names is None:
            self._names = frozenset(self._by_name)
        return self._names

    def with_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this id, or None."""
        return self._by_id.get(topic_id)

    def find_partition(self, name: str, index: int) -> Partition | None:
        """Return a partition by topic name and index, or None."""
        topic = self.get(name)
        return None if topic is None else topic.partition(index)

    def find_collision(self, name: str) -> str | None:
        """Return the name of a topic that differs from `name` only in '.' versus '_', or None.

        Kafka's metric names cannot distinguish such topics.
        """
        return next((other for other in self._folded.get(_fold(name), ()) if other != name), None)

    def create(
        self,
        specs: Sequence[tuple[str, int, TopicConfig]],
        placements: Sequence[Sequence[Replicas] | None] | None = None,
    ) -> list[Topic]:
        """Create topics: all of them or, on an error, none. A partition gets its directory with its first record.

        Args:
            specs: The name, number of partitions and configuration of each topic.
            placements: The replicas of each topic's partitions. None stands for one replica each.

        Raises:
            OSError: The topics file cannot be written. No topic was created.
        """
        created: list[Topic] = []
        for (name, partitions, config), placed in zip(specs, placements or [None] * len(specs), strict=True):
            topic = Topic(name, new_uuid(), config)
            if self._is_seeding:
                topic.notes = {"seeding": "new"}
            self._add_partitions(topic, partitions, placed)
            created.append(topic)
        # Remove the checkpoints of a deleted topic with the same name, or the new log would begin at the old offsets.
        self._log_manager.forget(topic.name for topic in created)
        self.save(also=created)
        for topic in created:
            self._add(topic)
        return created

    def grow(self, growths: Sequence[tuple[Topic, int, Sequence[Replicas] | None]]) -> None:
        """Add partitions to topics.

        Args:
            growths: Each topic, its new number of partitions, and the replicas of the new partitions. None in place
                of the replicas stands for one replica each.

        Raises:
            OSError: The topics file cannot be written. The topics have not changed.
        """
        before = [(topic, len(topic.partitions)) for topic, _, _ in growths]
        try:
            for growth in growths:
                self._add_partitions(*growth)
            if growths:
                self.save()
        except OSError:
            for topic, count in before:
                del topic.partitions[count:]
                topic.line = None
            raise

    def _add_partitions(self, topic: Topic, total: int, replicas: Sequence[Replicas] | None) -> None:
        """Add the missing partitions to a topic.

        An empty directory with the name of a new partition was left by a machine crash and is removed.

        Raises:
            FileExistsError: The path of a new partition's directory is taken by something else.
        """
        first = len(topic.partitions)
        topic.line = None
        for index in range(first, total):
            partition = self._append_partition(topic, index)
            self.cluster.place_partition(partition, None if replicas is None else replicas[index - first])
            if os.path.lexists(partition.directory):
                try:
                    os.rmdir(partition.directory)
                except OSError:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), partition.directory) from None

    def delete(self, topic: Topic) -> list[str]:
        """Delete a topic, and return the directories that still have to be removed.

        Raises:
            OSError: A directory cannot be renamed. The topic has not changed.
        """
        return self.save_deletions([(topic, self.rename_directories(topic))])

    def rename_directories(self, topic: Topic) -> list[str]:
        """Rename the directories of a topic to be deleted, and return their new paths.

        `save_deletions` completes the deletion, once for any number of topics.

        Raises:
            OSError: No directory can be renamed. The topic has not changed.
        """
        # Rename the directories before the topics file is saved. In the other order, a crash between the two steps
        # would make the next start adopt the directories as a topic.
        renamed: list[str] = []
        marker: str | None = marker_path(self.data_dir, topic.id)
        for partition in topic.partitions:
            is_marked = marker is not None and os.path.lexists(partition.directory)
            try:
                if (directory := partition.delete(marker if is_marked else None)) is not None:
                    renamed.append(directory)
                marker = None if is_marked else marker
            except OSError as error:
                # The topic is intact until a directory has been renamed. After that the deletion must be completed.
                if not renamed:
                    raise
                _logger.error("%s", error)  # noqa: TRY400 - a disk error, and the deletion must be completed
                if partition.opened_log is not None:
                    partition.opened_log.call_listeners()
        self._forget(topic)
        topic.is_gone = True
        return renamed

    def save_deletions(self, gone: Sequence[tuple[Topic, list[str]]]) -> list[str]:
        """Save the deletion of topics, and return the directories that remain to be removed.

        A full disk does not prevent the deletion; see `directories`.
        """
        try:
            self.save()
        except OSError as error:
            _logger.warning(
                "%s cannot be written (%s); removing deleted topics at once", self._file.path, error.strerror or error
            )
            # Deletion must work on a full disk, which may have no room for the topics file, but always allows renaming
            # a directory.
            self._markers += [mark(self.data_dir, topic.name, topic.id, directories) for topic, directories in gone]
            kept_markers = frozenset(self._markers)
            purge_and_log_errors({directory for _, directories in gone for directory in directories} - kept_markers)
            for marker in self._markers:
                with contextlib.suppress(OSError):
                    purge_contents(marker)
            self._save_if_possible()
            return []
        return [directory for _, directories in gone for directory in directories]

    def remember_deleted(self, name: str) -> None:
        """Remember that a client deleted this topic; see `was_deleted`."""
        # Clients may delete any number of names, so the set is bounded. A forgotten name only changes the response that
        # creates the topic again.
        if len(self._deleted) >= _MAX_DELETED_NAMES:
            self._deleted.clear()
        self._deleted.add(name)

    def was_deleted(self, name: str) -> bool:
        """Return whether clients deleted a topic of this name, and no client has created it again."""
        return name in self._deleted

    def configure_all(self, changes: Sequence[tuple[Topic, TopicConfig]]) -> None:
        """Change the configurations of topics, with immediate effect.

        Raises:
            OSError: The topics file cannot be written. The topics have not changed.
        """
        before = [(topic, topic.config) for topic, _ in changes]
        for topic, config in changes:
            topic.configure(config)
        try:
            self.save()
        except OSError:
            for topic, old_config in before:
                topic.configure(old_config)
            raise
        self.cluster.elect_missing_leaders(partition for topic, _ in changes for partition in topic.partitions)

    def reconfigure(self) -> None:
        """Apply a changed broker configuration to all topics."""
        for topic in self:
            topic.configure(TopicConfig(self._config, topic.config.overrides, are_old=True))
            self.cluster.elect_missing_leaders(topic.partitions)

    def write_into(self, directory: str, topics: Iterable[Topic]) -> None:
        """Write a topics file with only these topics to another directory.

        Raises:
            OSError: The file cannot be written.
        """
        self._write(MetadataFile(os.path.join(directory, TOPICS_FILE)), topics)

    def close_replaced(self, gone: Iterable[Topic], nowhere: str) -> None:
        """Close topics whose directories were moved away, after the topics file was replaced.

        Args:
            gone: The topics.
            nowhere: A directory that does not exist, for the paths of the abandoned logs.
        """
        self._file.reset()
        for topic in gone:
            for partition in topic.partitions:
                partition.abandon(nowhere)
            self._forget(topic)
            topic.is_gone = True

    def load(self) -> None:
        """Load the topics after all of them were replaced from outside.

        Raises:
            TopicsFileError: The topics file is damaged.
            OSError: The directory cannot be read.
        """
        self._deleted.clear()
        self._load(is_start=False)

    def note(self, notes: Mapping[Topic, dict[str, Any]]) -> None:
        """Set the topics' recovery notes: the work that the next start must do, unless the notes are cleared first.

        `{"seeding": "new"}` deletes the topic, `{"seeding": "empty"}` deletes all its records.
        `{"begins_at": [...]}` empties each partition and lets it continue at that offset. The notes of other topics
        are cleared. Notes take effect once they are saved.
        """
        for topic in self:
            topic_notes = notes.get(topic, {})
            if topic.notes != topic_notes:
                topic.notes, topic.line = topic_notes, None

    @contextlib.contextmanager
    def seeding(self, filled: Iterable[Topic]) -> Generator[None]:
        """Make the changes within the block atomic: the creation of topics, and records in new topics and in `filled`.

        Args:
            filled: Topics that exist and are empty.

        Raises:
            OSError: The topics file cannot be written.
        """
        self.note({topic: {"seeding": "empty"} for topic in filled})
        if any(topic.notes for topic in self):
            self.save()
        self._is_seeding = True
        try:
            yield
        except Exception:
            # Remove partly seeded topics. A running broker can continue without seeds, but not with half of them.
            for topic in [topic for topic in self if topic.notes]:
                purge_and_log_errors(self.delete(topic))
            raise
        finally:
            self._is_seeding = False
        if any(topic.notes for topic in self):
            self.note({})
            self.save()

    def _save_if_possible(self) -> None:
        with contextlib.suppress(OSError):
            self.save()

    def save(self, *, sync: bool = False, also: Iterable[Topic] = ()) -> None:
        """Write the topics file, once per request.

        The file is forced to disk soon afterwards (`Durability`).

        Args:
            sync: Force the file to disk immediately.
            also: Topics that are about to be added.

        Raises:
            OSError: The file cannot be written. The old one stays.
        """
        # Without a marker, a deleted topic would be back if a crash of the machine left the file of the time before.
        self._write(self._file, chain(self._by_name.values(), also), sync=sync or bool(self._markers))
        if self._markers:
            markers, self._markers = self._markers, []
            purge_and_log_errors(markers)

    def _write(self, file: MetadataFile, topics: Iterable[Topic], *, sync: bool = False) -> None:
        # The encoded lines of unchanged topics are cached. Adding a topic to 10,000 others must not encode all of them.
        lines = (topic.line or self._encode_line(topic) for topic in topics)
        content = format_topics_file(
            self.next_producer_id,
            lines,
            first_leader_epoch=self.cluster.first_epoch,
            first_valid_producer_id=self.first_valid_producer_id,
        )
        file.write(content, sync=sync)

    def _encode_line(self, topic: Topic) -> bytes:
        """Return a topic's line in the topics file. The placement is omitted if all partitions have the default."""
        entry: dict[str, Any] = {
            "id": uuid_text(topic.id),
            "partitions": len(topic.partitions),
            "configs": dict(topic.config.overrides),
            **topic.notes,
        }
        partitions = topic.partitions
        if not self.cluster.is_single or any(partition.leader_epoch for partition in partitions):
            entry["replicas"] = [list(partition.replicas) for partition in partitions]
            entry["leaders"] = [partition.leader and partition.leader.id for partition in partitions]
            entry["leader_epochs"] = [partition.leader_epoch for partition in partitions]
        topic.line = topics_file_line(topic.name, entry)
        return topic.line

    def _add(self, topic: Topic) -> None:
        self._names = None
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._folded.setdefault(_fold(topic.name), {})[topic.name] = None
        self._deleted.discard(topic.name)

    def _forget(self, topic: Topic) -> None:
        self._names = None
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        del self._folded[_fold(topic.name)][topic.name]

    def _append_partition(self, topic: Topic, index: int) -> Partition:
        partition = Partition(topic, index, f"{self.data_dir}/{topic.name}-{index}", self._log_manager)
        topic.partitions.append(partition)
        return partition

    def _load(self, *, is_start: bool) -> None:
        os.makedirs(self.data_dir, exist_ok=True)
        state = self._file.read(lambda data: parse_topics_file(data, self._file.path))
        deleted = find_markers(self.data_dir)
        has_completed, first_leader_epoch = False, 0
        if state is not None:
            try:
                # If the file was torn, the lost generation may have reserved another block of producer ids.
                lost_ids = PRODUCER_ID_BLOCK if self._file.was_torn else 0
                self.next_producer_id = int(state["next_producer_id"]) + lost_ids
                self.first_valid_producer_id = int(state.get("first_valid_producer_id", 0))
                for name, entry in state["topics"].items():
                    topic_id = parse_uuid(entry["id"])
                    # If the topics file could not be written after a deletion, it still contains the topic, but a
                    # deletion marker exists.
                    has_completed |= self._complete_change(name, entry, is_deleted=topic_id in deleted)
                    if topic_id not in deleted and entry.get("seeding") != "new":
                        self._restore(name, topic_id, entry)
                first_leader_epoch = int(state.get("first_leader_epoch", 0))
            except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
                raise TopicsFileError(f"{self._file.path} is damaged: {type(error).__name__}: {error}") from None
        if is_start:  # While the broker runs, whoever leaves files removes them in the background.
            remove_leftovers(self.data_dir)
        adopted = self._adopt()
        if adopted:
            self.next_producer_id = max(self.next_producer_id, _FIRST_PRODUCER_ID_AFTER_KAFKA)
        # Raise the first epoch only after the topics were restored, because these keep their own epochs.
        self.cluster.first_epoch = max(self.cluster.first_epoch, first_leader_epoch)
        self._markers = list(deleted.values())
        if adopted or state is None:
            self.save()
        elif deleted or has_completed or self._file.was_torn:
            self._save_if_possible()

    def _complete_change(self, name: str, entry: Mapping[str, Any], *, is_deleted: bool) -> bool:
        """Complete an interrupted change of a topic, and return whether there was one.

        Raises:
            ValueError: The entry is invalid.
            OSError: A file cannot be written or removed.
        """
        if error := topic_name_error(name):
            raise ValueError(error)
        directories = [f"{self.data_dir}/{name}-{index}" for index in range(int(entry["partitions"]))]
        if is_deleted or "seeding" in entry:
            for directory in directories:
                purge(directory)
        for directory, offset in zip(directories, entry.get("begins_at", ()), strict=False):
            if os.path.isdir(directory):
                restart_partition_directory(directory, int(offset))
        return not entry.keys().isdisjoint({"seeding", "begins_at"})

    def _restore(self, name: str, topic_id: bytes, entry: Mapping[str, Any]) -> None:
        """Restore a topic from its entry in the topics file, which may lack the placement."""
        topic = Topic(name, topic_id, TopicConfig(self._config, entry["configs"]))
        partitions = int(entry["partitions"])
        unknown: list[Any] = [None] * partitions
        replicas, leaders, epochs = (entry.get(key, unknown) for key in ("replicas", "leaders", "leader_epochs"))
        for index in range(partitions):
            partition = self._append_partition(topic, index)
            self.cluster.restore(partition, replicas[index], leaders[index], int(epochs[index] or 0))
        self._add(topic)

    def _adopt(self) -> bool:
        """Adopt partition directories that are missing from the topics file."""
        counts = {name: len(topic.partitions) for name, topic in self._by_name.items()}
        counts[METADATA_TOPIC] = 1
        adopted = [orphan for orphan in find_orphans(self.data_dir, counts) if topic_name_error(orphan.name) is None]
        for name, topic_id, epochs in adopted:
            configs = _ADOPTED_COMPACTED_CONFIGS if name in _COMPACTED else _ADOPTED_CONFIGS
            self._restore(name, topic_id, {"partitions": len(epochs), "configs": configs, "leader_epochs": epochs})
        return bool(adopted)


def _fold(name: str) -> str:
    return name.replace(".", "_")


class ProducerIds:
    """The allocator of producer ids."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._next: int = topics.next_producer_id
        self._block_end: int = self._next

    def skip_block(self) -> None:
        """Skip the rest of the block, because the topics were replaced and the new logs may already contain its ids."""
        self._next = self._block_end = self._topics.next_producer_id

    def next(self) -> int:
        """Return a producer id that has never been assigned.

        Raises:
            OSError: A new block of ids cannot be saved.
        """
        if self._next == self._block_end:
            self._topics.next_producer_id = self._block_end + PRODUCER_ID_BLOCK
            self._topics.save(sync=True)  # A sync per thousand ids is cheap, while a duplicate id would lose records.
            self._block_end += PRODUCER_ID_BLOCK
        self._next += 1
        return self._next - 1


def resolve_topic_ids(topics: Topics, requested: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Resolve the topic ids of a request (KIP-516) to names, which handlers and logs use.

    Returns:
        The elements whose topics exist, with their names filled in, and the elements with unknown ids.
    """
    resolved: list[Any] = []
    unknown: list[Any] = []
    for element in requested:
        topic = topics.with_id(element.topic_id)
        if topic is None:
            unknown.append(element)
        else:
            element.name = topic.name
            resolved.append(element)
    return resolved, unknown
