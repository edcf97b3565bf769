"""Reading what fits into memory: producer snapshots and checkpoints."""

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


def snapshot_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return a `ProducerFound` for each producer."""
    try:
        return [ProducerFound(*producer) for producer in decode_snapshot(read_file(file.path)).items()]
    except CorruptSnapshotError as error:
        return [Problem(file, None, str(error))]


def leader_epoch_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return an `EpochFound` for each entry."""
    read_file(file.path)  # loading takes a missing file for an empty one
    checkpoint = LeaderEpochCheckpoint(file.path)
    events: list[Event] = []
    try:
        checkpoint.load()
    except CorruptCheckpointError as error:
        events.append(_problem(file, error))
    return events + [EpochFound(*entry) for entry in checkpoint.entries]


def offset_checkpoint_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return a `CheckpointFound` for each entry."""
    read_file(file.path)  # reading takes a missing file for an empty one
    try:
        return [CheckpointFound(*key, offset) for key, offset in read_offset_checkpoint(file.path).items()]
    except CorruptCheckpointError as error:
        return [_problem(file, error)]


def metadata_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return one `MetadataFound`."""
    try:
        return [MetadataFound(CHECKPOINT_VERSION, uuid_text(read_partition_metadata(file.path)))]
    except CorruptCheckpointError as error:
        return [_problem(file, error)]


def _problem(file: DumpFile, error: CorruptCheckpointError) -> Problem:
    return Problem(file, None, str(error).removeprefix(f"{file.path}: "))
