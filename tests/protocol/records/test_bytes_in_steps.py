"""Bytes of what was unpacked in steps, or comes as it is."""

from importlib import import_module
from typing import Any, Final

import pytest

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.compression import bytes_in_steps, compress, decompress, decompress_in_steps
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.steps import drain
from tests.protocol.records.test_compression import COMPRESSING, LARGE, TEXT, ZSTD

zstandard: Final[Any] = import_module("zstandard")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_what_was_unpacked_in_steps_is_made_bytes_without_a_copy(codec: CompressionCodec) -> None:
    view = drain(decompress_in_steps(codec, compress(codec, LARGE), max_size=len(LARGE)))
    assert view == LARGE
    assert drain(bytes_in_steps(view)) is view.obj


@pytest.mark.parametrize("data", [memoryview(bytearray(LARGE)), memoryview(b"-" + LARGE)[1:]])
def test_other_views_are_copied_in_steps(data: memoryview) -> None:
    assert drain(bytes_in_steps(data)) == LARGE


def test_a_wrong_checksum_of_zstd_is_found_in_steps_too() -> None:
    data = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    assert drain(decompress_in_steps(ZSTD, data, max_size=len(TEXT))) == TEXT
    data[-1] ^= 1
    with pytest.raises(InvalidRecordError, match="zstd"):
        decompress(ZSTD, data, max_size=len(TEXT))
    with pytest.raises(InvalidRecordError, match="zstd"):
        drain(decompress_in_steps(ZSTD, data, max_size=len(TEXT)))
