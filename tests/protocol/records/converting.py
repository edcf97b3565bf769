"""Down-conversion that runs all steps without a pause."""

from minibroker_protocol.records.conversion import down_convert
from minibroker_protocol.steps import drain


def down_converted(data: bytes | bytearray, magic: int, first_offset: int, *, max_bytes: int) -> bytearray:
    return drain(down_convert(data, magic, first_offset, max_bytes=max_bytes))
