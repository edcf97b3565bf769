"""Fetch responses for clients that cannot read the log's message format (Fetch versions 0 to 3).

Versions 0 and 1 require message format v0, versions 2 and 3 require v1. Newer clients read all formats. Records are
read up to the limit in the client's request, converted in steps, and sent from memory. Ranges that contain nothing for
an old client, such as transaction markers, are skipped. Otherwise the client would request them forever.
"""

from typing import Final

from minibroker_protocol.messages.fetch import FetchRequest
from minibroker_protocol.records.conversion import down_convert, overflow_message
from minibroker_protocol.records.header import MAGIC_AT, MAGIC_V0, MAGIC_V1, entry_bounds, read_entry_header
from minibroker_protocol.schema import first_version
from minibroker_protocol.steps import Steps
from minibroker_storage.files import LogSlice
from minibroker_storage.log import Log

_FIRST_WITH_V1: Final = 2
_FIRST_WITH_A_WHOLE_BATCH: Final = first_version(FetchRequest, "max_bytes")


def convert_records(
    log: Log, log_slice: LogSlice, offset: int, max_bytes: int, version: int, *, allowed: bool
) -> Steps[bytes | bytearray | None]:
    """Convert the result of a fetch from `offset` to a format that the client can read.

    Returns:
        The unchanged bytes if the client can read them, or None if a conversion is needed but not `allowed`.

    Raises:
        UnsupportedCodecError: The records are compressed with zstd.
        OSError: The log cannot be read.
        DecodeError: A record is corrupt.
    """
    hard_limits = version < _FIRST_WITH_A_WHOLE_BATCH
    magic = MAGIC_V1 if version >= _FIRST_WITH_V1 else MAGIC_V0
    content = memoryview(log_slice.read())
    newest_magic = max((content[position + MAGIC_AT] for position, _ in entry_bounds(content)), default=MAGIC_V0)
    if newest_magic <= magic:
        return bytes(content)
    if not allowed:
        return None
    while True:
        records = yield from down_convert(content, magic, offset, max_bytes=max_bytes)
        if records:
            return records
        next_offset = _find_end_offset(content)
        if next_offset is None:
            return overflow_message(max_bytes) if hard_limits and content else b""
        log_slice = log.read(next_offset, max_bytes, min_one_batch=not hard_limits)
        if not log_slice.size:
            return b""
        content = memoryview(log_slice.read())


def _find_end_offset(content: memoryview) -> int | None:
    """Return the offset after the last complete batch, or None if no batch is complete."""
    next_offset = None
    for position, size in entry_bounds(content):
        if position + size <= len(content):
            next_offset = read_entry_header(content, position).last_offset + 1
    return next_offset
