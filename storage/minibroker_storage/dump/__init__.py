"""The contents of log files, for `minibroker dump`: that of Kafka's DumpLogSegments, with its checks.

`find` yields events; `text` writes them as Kafka's tool does, `json_lines` for programs. Everything streams: memory
holds a batch, not a file. Files are opened for reading only, and a broker may be writing them meanwhile.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from minibroker_storage.dump.events import Event, FileBegins, Problem, UnknownFile
from minibroker_storage.dump.files import DumpFile, DumpOptions, FileKind, expand
from minibroker_storage.dump.indexes import offset_index_events, time_index_events, txn_index_events
from minibroker_storage.dump.logs import log_events
from minibroker_storage.dump.small_files import (
    leader_epoch_events,
    metadata_events,
    offset_checkpoint_events,
    snapshot_events,
)

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
    """Yield the events of all files that `paths` stand for (see `files.expand`).

    Whatever cannot be read is a `Problem` and ends its file alone. A file that a directory listed and that is gone
    when its turn comes (retention, a roll) is passed over.
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
        except OSError as error:
            if not file.listed or os.path.exists(file.path):
                yield Problem(file, None, _reason(file, error))


def _reason(file: DumpFile, error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason if error.filename in {None, file.path} else f"{error.filename}: {reason}"
