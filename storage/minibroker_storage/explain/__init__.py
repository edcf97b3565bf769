"""Explains log files to people who are learning the formats: position, bytes, name, value and meaning of each field.

The fields of batches and messages come from `minibroker_protocol.fields`, which also describes requests. Unlike a
normal dump, an explanation does not check files against each other.
"""

import os
from collections.abc import Callable, Iterable
from typing import Final, TextIO

from minibroker_protocol.errors import DecodeError
from minibroker_storage.dump.files import DumpFile, DumpOptions, FileKind, expand
from minibroker_storage.explain.logs import explain_log
from minibroker_storage.explain.page import Page
from minibroker_storage.explain.small_files import (
    explain_leader_epochs,
    explain_metadata,
    explain_offset_checkpoint,
    explain_offset_index,
    explain_snapshot,
    explain_time_index,
    explain_txn_index,
)

_EXPLAINERS: Final[dict[FileKind, tuple[str, Callable[[Page, DumpFile], None]]]] = {
    FileKind.OFFSET_INDEX: ("offset index: where in the log an offset is", explain_offset_index),
    FileKind.TIME_INDEX: ("time index: up to which offset a timestamp is", explain_time_index),
    FileKind.TXN_INDEX: ("transaction index: the aborted transactions", explain_txn_index),
    FileKind.SNAPSHOT: ("producer snapshot: what the log knew of its producers here", explain_snapshot),
    FileKind.LEADER_EPOCHS: ("leader epochs: which leader began at which offset", explain_leader_epochs),
    FileKind.OFFSET_CHECKPOINT: ("offsets of a data directory's partitions", explain_offset_checkpoint),
    FileKind.PARTITION_METADATA: ("which topic this partition belongs to", explain_metadata),
}


def explain(paths: Iterable[str], options: DumpOptions, out: TextIO) -> bool:
    """Write an explanation of the files in `paths` to `out`, and return whether all of these files are valid."""
    page = Page(out)
    for file in expand(paths):
        try:
            _explain_file(page, file, options)
        except OSError as error:
            if not file.listed or os.path.exists(file.path):
                page.write_fault(f"{file.path}: {error.strerror or error}")
        except DecodeError as error:
            page.write_fault(str(error))
        page.write_gap()
    return page.sound


def _explain_file(page: Page, file: DumpFile, options: DumpOptions) -> None:
    if file.kind in {FileKind.LOG, FileKind.LOG_07}:
        explain_log(page, file, options)
    elif file.kind in _EXPLAINERS:
        kind, explainer = _EXPLAINERS[file.kind]
        page.write_heading(f"{file.path}: {kind}")
        explainer(page, file)
    else:
        os.stat(file.path)
        page.write_heading(f"{file.path}: its name tells nothing")
