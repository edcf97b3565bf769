"""The state of a closed data directory that appending needs: its topics, and each log's end, epochs and producers.

Never opens `.lock`: closing it would let go of a POSIX lock that this process holds.
"""

import os
from dataclasses import dataclass

from minibroker_pipeline.decode import scan_headers
from minibroker_pipeline.filesystem import LocalFileSystem
from minibroker_pipeline.log_directories.directory_commit import DirectoryStateError
from minibroker_pipeline.log_directories.log_end_offsets import index_of
from minibroker_pipeline.log_directories.partition_logs import DataDirectory, FoundPartition, open_partition
from minibroker_protocol.uuids import parse_uuid
from minibroker_storage.checkpoints import EpochEntry, LeaderEpochCheckpoint, read_partition_metadata
from minibroker_storage.data_directory.names import TOPICS_FILE, parse_partition_directory, parse_topics_file
from minibroker_storage.errors import CorruptCheckpointError, CorruptSnapshotError
from minibroker_storage.files import read_file
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, SNAPSHOT_SUFFIX, file_name
from minibroker_storage.producer_snapshot import ProducerStateEntry, decode_snapshot


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic's number of partitions, and its id, 16 bytes, if it has one."""

    partitions: int
    topic_id: bytes | None


@dataclass(frozen=True, slots=True)
class ClosedLog:
    """A log that may be gone on with. `producers` is None when the newest snapshot was not taken at the log's end."""

    end_offset: int
    epochs: tuple[EpochEntry, ...]
    producers: dict[int, ProducerStateEntry] | None


def known_topics(data_dir: str) -> dict[str, KnownTopic]:
    """All topics: those that have directories, and those that minibroker's own file names. `DirectoryStateError`."""
    if not os.path.isdir(data_dir):
        return {}
    counts: dict[str, int] = {}
    for name in os.listdir(data_dir):
        named = parse_partition_directory(name)
        if named is not None and os.path.isdir(f"{data_dir}/{name}"):
            topic, partition = named
            counts[topic] = max(counts.get(topic, 0), partition + 1)
    known = {topic: KnownTopic(count, _topic_id(f"{data_dir}/{topic}-{count - 1}")) for topic, count in counts.items()}
    for topic, stored in _described_topics(f"{data_dir}/{TOPICS_FILE}").items():
        known[topic] = KnownTopic(max(stored.partitions, counts.get(topic, 0)), stored.topic_id)
    return known


def _topic_id(directory: str) -> bytes | None:
    try:
        return read_partition_metadata(f"{directory}/{PARTITION_METADATA}")
    except (FileNotFoundError, CorruptCheckpointError):
        return None


def _described_topics(path: str) -> dict[str, KnownTopic]:
    try:
        document = parse_topics_file(read_file(path), path)
        return {
            topic: KnownTopic(int(entry["partitions"]), parse_uuid(entry["id"]))
            for topic, entry in document["topics"].items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DirectoryStateError(f"{path} is damaged: {type(error).__name__}: {error}") from None


def closed_log(data_dir: str, topic: str, partition: int) -> ClosedLog | None:
    """The log of a partition, None when it has no directory. `DirectoryStateError` when its end is no entry's end."""
    directory = f"{data_dir}/{topic}-{partition}"
    if not os.path.isdir(directory):
        return None
    log = open_partition(FoundPartition(topic, partition, directory, DataDirectory(data_dir, LocalFileSystem())))
    end = 0
    for segment in reversed(log.segments):
        end = max(end, segment.base_offset)
        if segment.size:
            entries = index_of(log, segment)
            position = int(entries.positions[-1]) if len(entries.positions) else 0
            with log.filesystem.open(log.path(segment)) as file:
                headers = scan_headers(file.read_at(position, segment.size - position))
            if not len(headers) or position + headers["position"][-1] + headers["size"][-1] != segment.size:
                raise DirectoryStateError(
                    f"{log.path(segment)} does not end with a whole entry: start a broker on it and stop it"
                )
            end = max(end, int(headers["last_offset"][-1]) + 1)
            break
    epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    try:
        epochs.load()
    except CorruptCheckpointError as error:
        raise DirectoryStateError(f"{error}: start a broker on it and stop it") from None
    return ClosedLog(end, epochs.entries, _producers_at(directory, log.snapshots, end))


def _producers_at(directory: str, snapshots: tuple[int, ...], end: int) -> dict[int, ProducerStateEntry] | None:
    if not snapshots:
        return {}  # after a clean stop that means that there are none
    if snapshots[-1] != end:
        return None
    try:
        with open(f"{directory}/{file_name(end, SNAPSHOT_SUFFIX)}", "rb") as file:
            return decode_snapshot(file.read())
    except CorruptSnapshotError:
        return None
