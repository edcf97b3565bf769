"""Reading what fits into memory: producer snapshots and checkpoints."""

from collections.abc import Iterator

from minibroker_protocol.uuids import uuid_text
from minibroker_storage.atomic_files import read_file
from minibroker_storage.checkpoints import CHECKPOINT_VERSION, LeaderEpochCheckpoint, read_partition_metadata
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint
from minibroker_storage.dump.events import (
    CheckpointFound,
    EpochFound,
    Event,
    MetadataFound,
    Problem,
    ProducerFound,
)
from minibroker_storage.dump.files import DumpFile, DumpOptions
from minibroker_storage.errors import CorruptCheckpointError, CorruptSnapshotError
from minibroker_storage.producer_snapshot import decode_snapshot


def snapshot_events(file: DumpFile, _options: DumpOptions) -> Iterator[Event]:
    """A `ProducerFound` for each producer."""
    try:
        producers = decode_snapshot(read_file(file.path))
    except CorruptSnapshotError as error:
        yield Problem(file, None, str(error))
        return
    for producer_id, entry in producers.items():
        yield ProducerFound(producer_id, entry)


def leader_epoch_events(file: DumpFile, _options: DumpOptions) -> Iterator[Event]:
    """An `EpochFound` for each entry."""
    read_file(file.path)  # loading takes a missing file for an empty one
    checkpoint = LeaderEpochCheckpoint(file.path)
    try:
        checkpoint.load()
    except CorruptCheckpointError as error:
        yield _problem(file, error)
    for epoch, start_offset in checkpoint.entries:
        yield EpochFound(epoch, start_offset)


def offset_checkpoint_events(file: DumpFile, _options: DumpOptions) -> Iterator[Event]:
    """A `CheckpointFound` for each entry."""
    read_file(file.path)  # reading takes a missing file for an empty one
    try:
        for (topic, partition), offset in read_offset_checkpoint(file.path).items():
            yield CheckpointFound(topic, partition, offset)
    except CorruptCheckpointError as error:
        yield _problem(file, error)


def metadata_events(file: DumpFile, _options: DumpOptions) -> Iterator[Event]:
    """One `MetadataFound`."""
    try:
        yield MetadataFound(CHECKPOINT_VERSION, uuid_text(read_partition_metadata(file.path)))
    except CorruptCheckpointError as error:
        yield _problem(file, error)


def _problem(file: DumpFile, error: CorruptCheckpointError) -> Problem:
    return Problem(file, None, str(error).removeprefix(f"{file.path}: "))
