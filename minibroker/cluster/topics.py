"""The topics of a broker: ids, partitions, configuration, and the file that keeps them (Kafka's `TopicsImage`).

A partition that has held a record is a directory `<topic>-<partition>` in the data directory, in Kafka's own layout;
the others get theirs at a clean stop. What no partition directory can tell, which topics there are, with which id, how
many partitions and which overrides, stands beside them in a file (`minibroker_storage.data_directory.names`). A
request changes what it changes, topic by topic, and then the file is written once.

A log is opened when it is first used, so a start takes the same time whatever the number of partitions.

One file of more than 500 lines, because all changes of topics keep the same file and the same directories in step.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from minibroker.cluster.cluster import Cluster
from minibroker.cluster.directories import clear_away, find_topics, mark, marked, marker_of, purge_logged
from minibroker.cluster.durability import Durability
from minibroker.cluster.log_settings import append_policy, keeps_batches, log_config
from minibroker.cluster.metadata_file import MetadataFile
from minibroker.cluster.partition import LogManager, Partition
from minibroker.cluster.replicas import PartitionRacks, Replicas, racks_of
from minibroker.config import BrokerConfig, TopicConfig
from minibroker.config.keys import LONG_MAX
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, METADATA_TOPIC, TRANSACTION_STATE
from minibroker_protocol.messages.metadata import MetadataResponsePartition
from minibroker_protocol.records.append_policy import AppendPolicy
from minibroker_protocol.uuids import new_uuid, parse_uuid, uuid_text
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

_MOST_REMEMBERED: Final = 10_000
PRODUCER_ID_BLOCK: Final = 1000
"""Producer ids are noted in blocks, as many as Kafka's controller hands to a broker at once."""
_FIRST_PRODUCER_ID_BESIDE_OTHERS: Final = 1 << 32
"""In a directory of a Kafka, which has given out small ids: its logs may know their sequence numbers still."""
_CONFIGS_OF_ADOPTED: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""No directory has its topic's configuration; our defaults must not delete records that should stay."""
_CONFIGS_OF_ADOPTED_COMPACTED: Final = {"cleanup.policy": "compact", "compression.type": "producer"}
"""But two of Kafka's own topics are always compacted, and must be or they grow without end."""
_logger = logging.getLogger(__name__)
_COMPACTED: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})


def topic_name_error(name: str) -> str | None:
    """Why `name` cannot be a topic's name (Kafka's `Topic.validate`), or None."""
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
    """A topic; `overrides` of its configuration are in `config`."""

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        #: It was deleted.
        self.is_gone = False
        #: The topic's line in the topics file; None when it has to be made again.
        self.line: bytes | None = None
        #: What the next start has to do, if this process does not come to it: see `Topics.note`.
        self.notes: dict[str, Any] = {}
        self._described: list[MetadataResponsePartition] = []
        self._racks: PartitionRacks = ()
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Take a configuration; what the hot paths ask for is looked up once."""
        self.config = config
        self.line = None
        self.max_message_bytes = config.integer("max.message.bytes")
        #: Whether sound batches are appended as they come; for the others see `append_policy`.
        self.keeps_batches = keeps_batches(config) and not self.is_internal
        self.min_insync_replicas = config.integer("min.insync.replicas")
        #: Is `compact` in its cleanup policy?
        self.is_compacted = "compact" in config.items("cleanup.policy")
        self.flushes_on_append = config.integer("flush.messages") < LONG_MAX
        self._append_policy: AppendPolicy | None = None
        self._log_config: LogConfig | None = None
        for partition in self.partitions:
            partition.reconfigure()

    @property
    def log_config(self) -> LogConfig:
        """The configuration of the topic's logs; made when it is first needed."""
        if self._log_config is None:
            self._log_config = log_config(self.config)
        return self._log_config

    @property
    def append_policy(self) -> AppendPolicy:
        """The rules for appended records, by the configuration; made when they are first needed."""
        if self._append_policy is None:
            self._append_policy = append_policy(self.config)
        return self._append_policy

    @property
    def is_internal(self) -> bool:
        """Is it one of Kafka's own topics?"""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """The partition with this index, if it exists."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def changed(self) -> None:
        """Something about the partitions in Metadata has changed."""
        self._described = []
        self._racks = ()
        self.line = None

    def describe(self, cluster: Cluster) -> list[MetadataResponsePartition]:
        """Return the partitions for a Metadata response, built once per change: clients ask again and again."""
        if len(self._described) != len(self.partitions):
            self._described = [partition.describe(cluster) for partition in self.partitions]
        return self._described

    def racks(self, cluster: Cluster) -> PartitionRacks:
        """Return the racks of the partitions' replicas."""
        if cluster.racks and len(self._racks) != len(self.partitions):
            self._racks = racks_of([partition.replicas for partition in self.partitions], cluster.racks)
        return self._racks if any(self._racks) else ()

    def placement(self) -> dict[str, list[Any]]:
        """The replicas and leaders of all partitions, as the topics file keeps them."""
        return {
            "replicas": [list(each.replicas) for each in self.partitions],
            "leaders": [None if each.leader is None else each.leader.id for each in self.partitions],
            "leader_epochs": [each.leader_epoch for each in self.partitions],
        }


class Topics:
    """All topics of one data directory.

    Opening reads the topics file, adopts partition directories that it does not know (such as those of an Apache
    Kafka), and takes away what a deletion left behind.

    Attributes:
        next_producer_id: the end of the block of producer ids in use.
        first_valid_producer_id: transactional ids with a smaller one were restored. Since the snapshot they may have
            had epochs that nothing is known of, so they get another producer id before they go on.
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
        #: Returns the topic with a name, or None.
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
        self._load()

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def names(self) -> frozenset[str]:
        """The names of all topics; one object until a topic comes or goes."""
        if self._names is None:
            self._names = frozenset(self._by_name)
        return self._names

    def with_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this id."""
        return self._by_id.get(topic_id)

    def colliding(self, name: str) -> str | None:
        """A topic whose name differs only in '.' against '_', which the names of Kafka's metrics cannot tell apart."""
        return next((other for other in self._folded.get(_folded(name), ()) if other != name), None)

    def create(
        self,
        specs: Sequence[tuple[str, int, TopicConfig]],
        placements: Sequence[Sequence[Replicas] | None] | None = None,
    ) -> list[Topic]:
        """Create topics (name, number of partitions, configuration), all or, with an OSError, none of them.

        A partition gets its directory with its first record. `placements` has the replicas of each topic's partitions;
        None for one each.
        """
        created: list[Topic] = []
        for (name, partitions, config), placed in zip(specs, placements or [None] * len(specs), strict=True):
            topic = Topic(name, new_uuid(), config)
            if self._is_seeding:
                topic.notes = {"seeding": "new"}
            self._add_partitions(topic, partitions, placed)
            created.append(topic)
        # A checkpoint of a deleted topic would have the new log begin at the old one's offsets.
        self._log_manager.forget(topic.name for topic in created)
        self.save(also=created)
        for topic in created:
            self._add(topic)
        return created

    def grow(self, growths: Sequence[tuple[Topic, int, Sequence[Replicas] | None]]) -> None:
        """Add partitions to topics; with an OSError of the disk the topics are as they were.

        Args:
            growths: each topic, its new number of partitions, and the replicas of the new ones; None for one each.
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
        """Add the partitions that a topic lacks.

        Raises:
            FileExistsError: Something is where the directory of a partition goes. An empty directory, which a crash of
                the machine leaves, is removed.
        """
        first = len(topic.partitions)
        topic.line = None
        for index in range(first, total):
            partition = self._append_partition(topic, index)
            self.cluster.settle(partition, None if replicas is None else replicas[index - first])
            if os.path.lexists(partition.directory):
                try:
                    os.rmdir(partition.directory)
                except OSError:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), partition.directory) from None

    def delete(self, topic: Topic) -> list[str]:
        """Delete a topic; returns the directories that are left to be removed (`purge_logged`), in any thread.

        OSError, and the topic is as it was.
        """
        return self.note_deleted([(topic, self.take_away(topic))])

    def take_away(self, topic: Topic) -> list[str]:
        """Begin a deletion, which `note_deleted` ends, once for many; returns the renamed directories.

        OSError, and the topic is as it was.
        """
        # The directories first: those that the file does not name would be taken for a topic at the next start.
        renamed: list[str] = []
        marker: str | None = marker_of(self.data_dir, topic.id)
        for partition in topic.partitions:
            is_marked = marker is not None and os.path.lexists(partition.directory)
            try:
                directory = partition.delete(marker if is_marked else None)
                marker = None if is_marked else marker
            except OSError as error:
                # As long as no directory is renamed the topic is whole. From the first one on there is no way back.
                if not renamed:
                    raise
                _logger.error("%s", error)  # noqa: TRY400 - the disk's fault; half a topic is not to be had
                if partition.opened_log is not None:
                    partition.opened_log.call_listeners()
            else:
                if directory is not None:
                    renamed.append(directory)
        self._forget(topic)
        topic.is_gone = True
        return renamed

    def note_deleted(self, gone: Sequence[tuple[Topic, list[str]]]) -> list[str]:
        """Write down that topics are gone; returns the directories that are left to be removed.

        A full disk does not keep them: see `deletion`.
        """
        try:
            self.save()
        except OSError as error:
            _logger.warning(
                "%s cannot be written (%s); removing deleted topics at once", self._file.path, error.strerror or error
            )
            # A full disk may have no room for the file, but for a name: deletion must work there, of all things.
            self._markers += [mark(self.data_dir, topic.name, topic.id, directories) for topic, directories in gone]
            marked_by = frozenset(self._markers)
            purge_logged({directory for _, directories in gone for directory in directories} - marked_by)
            for marker in self._markers:
                with contextlib.suppress(OSError):
                    purge_contents(marker)
            self._save_if_possible()
            return []
        return [directory for _, directories in gone for directory in directories]

    def remember_deleted(self, name: str) -> None:
        """A client has deleted the topic; see `was_deleted`."""
        # Only advice depends on it, and a client may delete as many names as it likes.
        if len(self._deleted) >= _MOST_REMEMBERED:
            self._deleted.clear()
        self._deleted.add(name)

    def was_deleted(self, name: str) -> bool:
        """Whether clients have deleted a topic of that name, and none has created it again."""
        return name in self._deleted

    def configure(self, topic: Topic, config: TopicConfig) -> None:
        """Give a topic another configuration; see `configure_all`."""
        self.configure_all([(topic, config)])

    def configure_all(self, changes: Sequence[tuple[Topic, TopicConfig]]) -> None:
        """Give topics other configurations, which count at once; OSError, and the topics are as they were."""
        before = [(topic, topic.config) for topic, _ in changes]
        for topic, config in changes:
            topic.configure(config)
        try:
            self.save()
        except OSError:
            for topic, older in before:
                topic.configure(older)
            raise
        self.cluster.elect_missing_leaders(partition for topic, _ in changes for partition in topic.partitions)

    def reconfigure(self) -> None:
        """Have all topics act on the broker's configuration, which has changed."""
        for topic in self:
            topic.configure(TopicConfig(self._config, topic.config.overrides, are_old=True))
            self.cluster.elect_missing_leaders(topic.partitions)

    def write_into(self, directory: str, kept: Iterable[Topic] = ()) -> None:
        """Write the topics file into another directory, with these topics only. OSError."""
        self._write(MetadataFile(os.path.join(directory, TOPICS_FILE)), kept)

    def replaced(self, gone: Iterable[Topic], nowhere: str) -> None:
        """Forget topics whose directories were set aside. Another topics file is there, but no directory `nowhere`."""
        self._file.replaced()
        for topic in gone:
            for partition in topic.partitions:
                partition.abandon(nowhere)
            self._forget(topic)
            topic.is_gone = True

    def load(self) -> None:
        """Take in what the directory holds, where all topics were replaced. TopicsFileError, OSError."""
        self._deleted.clear()
        self._load()

    def note(self, notes: Mapping[Topic, dict[str, Any]]) -> None:
        """Note with topics what the next start has to do, unless it is noted before that this is done: nothing.

        `{"seeding": "new"}` removes the topic, `{"seeding": "empty"}` all its records. `{"begins_at": [...]}` empties
        each partition, which goes on at that offset. The notes of other topics go. They count once they are saved.
        """
        for topic in self:
            noted = notes.get(topic, {})
            if topic.notes != noted:
                topic.notes, topic.line = noted, None

    @contextlib.contextmanager
    def seeding(self, filled: Iterable[Topic]) -> Generator[None]:
        """Have all happen that the block does, or nothing: topics that it creates, and records in them and in others.

        `filled` are topics that are there, and empty. OSError.
        """
        self.note({topic: {"seeding": "empty"} for topic in filled})
        if any(topic.notes for topic in self):
            self.save()
        self._is_seeding = True
        try:
            yield
        except Exception:
            # A broker that runs may go on without the seeds, but not with half of them.
            for topic in [topic for topic in self if topic.notes]:
                purge_logged(self.delete(topic))
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
        """Write the topics file; once for a request, whatever it changes. OSError, and the old one stays.

        It is forced to disk soon afterwards (`Durability`), with `sync` at once. `also` are topics to be added.
        """
        self._write(self._file, chain(self._by_name.values(), also), sync=sync)
        if self._markers:
            markers, self._markers = self._markers, []
            purge_logged(markers)

    def _write(self, file: MetadataFile, topics: Iterable[Topic], *, sync: bool = False) -> None:
        # The lines of unchanged topics are kept: a broker with 10,000 topics does not encode all for one more.
        lines = (topic.line or self._line(topic) for topic in topics)
        content = format_topics_file(
            self.next_producer_id,
            lines,
            first_leader_epoch=self.cluster.first_epoch,
            first_valid_producer_id=self.first_valid_producer_id,
        )
        file.write(content, sync=sync)

    def _line(self, topic: Topic) -> bytes:
        topic.line = topics_file_line(topic.name, self._entry(topic))
        return topic.line

    def _entry(self, topic: Topic) -> dict[str, Any]:
        """A topic as the file has it; of partitions that are all where they belong there is nothing to tell."""
        entry: dict[str, Any] = {
            "id": uuid_text(topic.id),
            "partitions": len(topic.partitions),
            "configs": dict(topic.config.overrides),
            **topic.notes,
        }
        if not self.cluster.is_single or any(each.leader_epoch for each in topic.partitions):
            entry.update(topic.placement())
        return entry

    def _add(self, topic: Topic) -> None:
        self._names = None
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self._folded.setdefault(_folded(topic.name), {})[topic.name] = None
        self._deleted.discard(topic.name)

    def _forget(self, topic: Topic) -> None:
        self._names = None
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        del self._folded[_folded(topic.name)][topic.name]

    def _append_partition(self, topic: Topic, index: int) -> Partition:
        partition = Partition(topic, index, f"{self.data_dir}/{topic.name}-{index}", self._log_manager)
        topic.partitions.append(partition)
        return partition

    def _load(self) -> None:
        os.makedirs(self.data_dir, exist_ok=True)
        state = self._file.read(lambda data: parse_topics_file(data, self._file.path))
        deleted = marked(self.data_dir)
        is_done, first_leader_epoch = False, 0
        if state is not None:
            try:
                # The generation that was lost may have given out another block.
                lost = PRODUCER_ID_BLOCK if self._file.was_torn else 0
                self.next_producer_id = int(state["next_producer_id"]) + lost
                self.first_valid_producer_id = int(state.get("first_valid_producer_id", 0))
                for name, entry in state["topics"].items():
                    topic_id = parse_uuid(entry["id"])
                    # The file was not written any more when it was deleted: its marker counts.
                    is_done |= self._do_noted(name, entry, is_deleted=topic_id in deleted)
                    if topic_id not in deleted and entry.get("seeding") != "new":
                        self._restore(name, topic_id, int(entry["partitions"]), entry["configs"], entry)
                first_leader_epoch = int(state.get("first_leader_epoch", 0))
            except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
                raise TopicsFileError(f"{self._file.path} is damaged: {type(error).__name__}: {error}") from None
        clear_away(self.data_dir)
        adopted = self._adopt()
        if adopted:
            self.next_producer_id = max(self.next_producer_id, _FIRST_PRODUCER_ID_BESIDE_OTHERS)
        # Only now: topics that were kept go on with their own epochs.
        self.cluster.first_epoch = max(self.cluster.first_epoch, first_leader_epoch)
        self._markers = list(deleted.values())
        if adopted or state is None:
            self.save()
        elif deleted or is_done or self._file.was_torn:
            self._save_if_possible()

    def _do_noted(self, name: str, entry: Mapping[str, Any], *, is_deleted: bool) -> bool:
        """Do what an interrupted change has left to do for a topic; whether there was anything. ValueError, OSError."""
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
            self.cluster.restore(partition, replicas[index], leaders[index], int(epochs[index] or 0))
        self._add(topic)

    def _adopt(self) -> bool:
        """Take in partition directories that the file does not know."""
        known = {name: len(topic.partitions) for name, topic in self._by_name.items()}
        known[METADATA_TOPIC] = 1
        found = [each for each in find_topics(self.data_dir, known) if topic_name_error(each.name) is None]
        for name, topic_id, epochs in found:
            configs = _CONFIGS_OF_ADOPTED_COMPACTED if name in _COMPACTED else _CONFIGS_OF_ADOPTED
            self._restore(name, topic_id, len(epochs), configs, {"leader_epochs": epochs})
        return bool(found)


def _folded(name: str) -> str:
    return name.replace(".", "_")


class ProducerIds:
    """The allocator."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._next: int = topics.next_producer_id
        self._block_end: int = self._next

    def skip_block(self) -> None:
        """Give out none of the rest of the block: other topics are there, whose logs may have such ids."""
        self._next = self._block_end = self._topics.next_producer_id

    def next(self) -> int:
        """A producer id that has never been given out. OSError when a new block cannot be noted."""
        if self._next == self._block_end:
            self._topics.next_producer_id = self._block_end + PRODUCER_ID_BLOCK
            self._topics.save(sync=True)  # once in a thousand ids; an id that is given out twice loses records
            self._block_end += PRODUCER_ID_BLOCK
        self._next += 1
        return self._next - 1


def with_names(topics: Topics, requested: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Resolve the topic ids of a request (KIP-516): handlers and logs go by names.

    Returns:
        The elements whose topics exist, with their names filled in, and those with an unknown id.
    """
    known: list[Any] = []
    unknown: list[Any] = []
    for each in requested:
        topic = topics.with_id(each.topic_id)
        if topic is None:
            unknown.append(each)
        else:
            each.name = topic.name
            known.append(each)
    return known, unknown
