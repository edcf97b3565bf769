"""Headers of log entries as one array."""

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from minibroker_pipeline.decode import HEADER_DTYPE, scan_headers
from minibroker_pipeline.decode.headers import as_bytes, find_entries, find_positions
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, read_entry_header
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.decode.logs import logs

SAME = set(HEADER_DTYPE.names or ()) - {"position", "size", "last_offset", "leader_epoch", "codec"}
"""The fields that have the same names in the headers of the record formats' own reader."""


@given(logs())
def test_the_array_says_what_the_record_formats_own_reader_says(data: bytes) -> None:
    headers = scan_headers(data)
    position = 0
    batches = list(iter_batches(data))
    assert headers.dtype == HEADER_DTYPE
    assert len(headers) == len(batches)
    for line, batch in zip(headers, batches, strict=True):
        header = batch.header
        assert {name: line[name].item() for name in SAME} == {name: getattr(header, name) for name in SAME}
        assert line["leader_epoch"] == header.partition_leader_epoch
        assert (line["position"], line["size"]) == (position, header.size_in_bytes)
        assert (line["last_offset"], line["codec"]) == (header.last_offset, header.codec)
        position += header.size_in_bytes
    assert position == len(data)


def entries(count: int) -> bytes:
    return b"".join(bytes(build_batch([NewRecord(None, b"v", 0)], base_offset=index)) for index in range(count))


def test_the_scan_ends_before_what_is_no_whole_entry() -> None:
    entry_size = len(entries(1))
    bad_magic = bytearray(entries(3))
    bad_magic[2 * entry_size + 16] = 3
    bad_length = bytearray(entries(3))
    bad_length[2 * entry_size + 8 : 2 * entry_size + 12] = bytes(4)
    for data in (entries(3)[:-1], entries(2) + b"\0" * 16, bytes(bad_magic), bytes(bad_length)):
        headers = scan_headers(data)
        assert (headers["position"] + headers["size"])[-1] == 2 * entry_size


def test_the_scan_can_begin_anywhere_and_positions_are_those_in_the_data() -> None:
    entry_size = len(entries(1))
    assert scan_headers(entries(3), position=entry_size)["position"].tolist() == [entry_size, 2 * entry_size]
    assert len(scan_headers(b"")) == 0
    assert len(scan_headers(entries(1), position=entry_size)) == 0


def test_thousands_of_entries_of_all_formats_are_found_in_order() -> None:
    legacy = b"".join(
        bytes(build_message_set([NewRecord(b"k", None, 5)], magic=magic, codec=codec))
        for magic in (0, 1)
        for codec in (CompressionCodec.NONE, CompressionCodec.GZIP)
    )
    headers = scan_headers((entries(2) + legacy) * 700)
    assert headers["magic"].tolist() == [2, 2, 0, 0, 1, 1] * 700
    assert headers["record_count"].tolist() == [1, 1, 1, -1, 1, -1] * 700
    assert headers["base_timestamp"].tolist() == [0, 0, -1, -1, 5, 5] * 700
    assert (np.diff(headers["position"]) == headers["size"][:-1]).all()


def test_the_compiled_chase_finds_what_the_plain_one_finds() -> None:
    kernel: Any = pytest.importorskip("minibroker_pipeline.decode.kernel")
    data = as_bytes(entries(3000) + b"\0\0")
    for until in (0, 1, 5000, len(data)):
        plain = find_positions(data, 0, until, find_entries)
        compiled = find_positions(data, 0, until, kernel.chase)
        assert (plain[0].tolist(), plain[1]) == (compiled[0].tolist(), compiled[1])


def test_a_mapped_file_can_be_scanned(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(entries(5))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        headers = scan_headers(memoryview(mapped))
        assert headers["base_offset"].tolist() == [0, 1, 2, 3, 4]
        last = int(headers["position"][-1])
        assert read_entry_header(mapped[last:]).base_offset == 4
