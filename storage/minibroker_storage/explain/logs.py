"""Explaining a log file, whatever the format of its messages."""

from minibroker_protocol.errors import DecodeError, UnsupportedMagicError
from minibroker_protocol.records.header import MAGIC_AT, MAGIC_V2
from minibroker_storage.dump.files import DumpFile
from minibroker_storage.dump.logs import Entry, Tail, open_log
from minibroker_storage.dump.options import DumpOptions
from minibroker_storage.explain.batches import explain_batch
from minibroker_storage.explain.legacy import explain_message, explain_message_07
from minibroker_storage.explain.page import Page


def explain_log(page: Page, file: DumpFile, options: DumpOptions) -> None:
    """Every entry of the log; of one that cannot be read to its end, how far that goes and why. `OSError`."""
    with open_log(file, options) as log:
        base = file.base_offset or 0
        begins = f"which begins at {'byte' if log.is_07 else 'offset'} {base}"
        page.heading(f"{file.path}: log, {begins}")
        page.table_head()
        for entry in log:
            if isinstance(entry, Tail):
                if options.max_bytes is None:
                    page.gap()
                    page.fault(f"{entry.size} bytes at byte {entry.position} are not a whole batch{_because(entry)}")
                return
            try:
                if log.is_07:
                    explain_message_07(page, entry.data, entry.position, base)
                else:
                    _explain_entry(page, entry)
            except DecodeError as error:
                page.fault(f"cannot be read on: {error}")


def _because(tail: Tail) -> str:
    return f": {tail.reason}" if tail.reason else ": it is cut short"


def _explain_entry(page: Page, entry: Entry) -> None:
    magic = entry.data[MAGIC_AT]
    if magic > MAGIC_V2:
        raise UnsupportedMagicError(f"at byte {entry.position}: magic {magic}, which no message format has")
    (explain_batch if magic == MAGIC_V2 else explain_message)(page, entry.data, entry.position)
