"""The contents of log files, for `minibroker dump`, with the checks of Kafka's DumpLogSegments.

`find` yields events. `text` writes them as Kafka's tool does, and `json_lines` writes JSON for programs. All files are
streamed, so only one batch at a time is in memory. Files are opened read-only, and a broker may write to them at the
same time.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from minibroker_protocol.primitives import uuid_text
from minibroker_storage.checkpoints import CHECKPOINT_VERSION, LeaderEpochCheckpoint, read_partition_metadata
from minibroker_storage.data_directory.offset_checkpoints import parse_offset_checkpoint
from minibroker_storage.dump.events import (
    CheckpointFound,
    EpochFound,
    Event,
    FileBegins,
    MetadataFound,
    Problem,
    ProducerFound,
    UnknownFile,
)
from minibroker_storage.dump.files import DumpFile, DumpOptions, FileKind, expand
from minibroker_storage.dump.indexes import offset_index_events, time_index_events, txn_index_events
from minibroker_storage.dump.logs import log_events
from minibroker_storage.errors import CorruptCheckpointError, CorruptSnapshotError
from minibroker_storage.files import read_file
from minibroker_storage.producer_snapshot import decode_snapshot


def snapshot_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return a `ProducerFound` for each producer."""
    return [ProducerFound(*producer) for producer in decode_snapshot(read_file(file.path)).items()]


def leader_epoch_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return an `EpochFound` for each entry."""
    read_file(file.path)  # This call raises an error if the file is missing, which load() would ignore.
    checkpoint = LeaderEpochCheckpoint(file.path)
    checkpoint.load()
    return [EpochFound(*entry) for entry in checkpoint.entries]


def offset_checkpoint_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return a `CheckpointFound` for each entry."""
    entries = parse_offset_checkpoint(read_file(file.path), file.path)
    return [CheckpointFound(*key, offset) for key, offset in entries.items()]


def metadata_events(file: DumpFile, _options: DumpOptions) -> list[Event]:
    """Return one `MetadataFound`."""
    return [MetadataFound(CHECKPOINT_VERSION, uuid_text(read_partition_metadata(file.path)))]


_READERS: Final[dict[FileKind, Callable[[DumpFile, DumpOptions], Iterable[Event]]]] = {
    FileKind.LOG: log_events,
    FileKind.LOG_07: log_events,
    FileKind.OFFSET_INDEX: offset_index_events,
    FileKind.TIME_INDEX: time_index_events,
    FileKind.TXN_INDEX: txn_index_events,
    FileKind.SNAPSHOT: snapshot_events,
    FileKind.LEADER_EPOCHS: leader_epoch_events,
    FileKind.OFFSET_CHECKPOINT: offset_checkpoint_events,
    FileKind.PARTITION_METADATA: metadata_events,
}


def find(paths: Iterable[str], options: DumpOptions) -> Iterator[Event]:
    """Yield the events of all files in `paths` (see `files.expand`).

    Unreadable content yields a `Problem` and does not affect other files. A file found in a directory is skipped if
    retention or a roll removes it before it is opened.
    """
    for file in expand(paths):
        yield FileBegins(file)
        reader = _READERS.get(file.kind)
        try:
            if reader is not None:
                yield from reader(file, options)
            else:
                os.stat(file.path)
                yield UnknownFile(file)
        except (CorruptCheckpointError, CorruptSnapshotError) as error:
            yield Problem(file, None, str(error).removeprefix(f"{file.path}: "))
        except OSError as error:
            if not file.listed or os.path.exists(file.path):
                yield Problem(file, None, _explain_error(file, error))


def _explain_error(file: DumpFile, error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason if error.filename in {None, file.path} else f"{error.filename}: {reason}"
