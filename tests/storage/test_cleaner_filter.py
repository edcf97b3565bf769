"""Cleaning of single log entries."""

import dataclasses
from collections.abc import Callable, Iterable
from struct import pack
from typing import Any

import pytest

from minibroker_protocol.errors import DecodeError, InvalidRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.cleaner.batch_filter import BatchFilter, KeptEntry
from minibroker_storage.cleaner.offset_map import OffsetMap
from minibroker_storage.cleaner.plan import ActiveProducer
from minibroker_storage.cleaner.transactions import CleanedTransactions
from minibroker_storage.transaction_index import AbortedTxn
from tests.storage.cleaning import DAY_MS, Entry, batch, entries_of, entry, marker, records_of
from tests.storage.helpers import NOW


@dataclasses.dataclass
class Filtering:
    """A filter whose offset map contains `newest` up to the offset `latest`."""

    newest: dict[bytes, int]
    latest: int = 1000
    aborted: Iterable[AbortedTxn] = ()
    producers: Iterable[ActiveProducer] = ()
    now_ms: int = NOW

    def __post_init__(self) -> None:
        offsets = OffsetMap(100)
        offsets.put_all(self.newest, self.newest.values())
        offsets.latest_offset = self.latest
        self.filter = BatchFilter(
            offsets,
            CleanedTransactions(self.aborted),
            self.producers,
            now_ms=self.now_ms,
            delete_retention_ms=DAY_MS,
        )

    def kept(self, one: Entry) -> KeptEntry | None:
        return self.filter.filter(one.data, one.header)

    def left(self, one: Entry) -> Entry:
        """Return the retained part as an entry, after checking its checksum."""
        kept = self.kept(one)
        assert kept is not None
        (left,) = entries_of(bytes(kept.data))
        assert (kept.last_offset, kept.max_timestamp) == (left.header.last_offset, left.header.max_timestamp)
        return left


def survivors(one: Entry) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(record.offset, record.timestamp, record.key, record.value) for record in records_of([one])]


# Format v2


def test_a_batch_that_loses_nothing_comes_back_as_the_same_object() -> None:
    one = batch(5, (b"a", b"1"), (b"b", b"2"))
    kept = Filtering({b"a": 5, b"b": 6}).kept(one)
    assert kept is not None
    assert kept.data is one.data
    assert (kept.last_offset, kept.max_timestamp) == (6, NOW + 1)


def test_records_without_a_key_go_and_are_counted() -> None:
    filtering = Filtering({b"a": 6})
    left = filtering.left(batch(5, (None, b"1"), (b"a", b"2"), (None, None)))
    assert [record.offset for record in records_of([left])] == [6]
    assert filtering.filter.invalid_messages_read == 2
    assert (filtering.filter.messages_read, filtering.filter.messages_written) == (3, 1)


def test_timestamps_and_headers_of_survivors_stay_with_larger_and_smaller_deltas() -> None:
    times = [NOW, NOW + 70, NOW - 5_000_000, NOW + 2**40, NOW + 1]
    records = [NewRecord(b"%d" % number, b"v" * 60, time, (("h", None),)) for number, time in enumerate(times)]
    one = entry(build_batch(records, base_offset=10))
    left = Filtering({b"0": 99}).left(one)
    assert [(r.key, r.timestamp, r.headers) for r in records_of([left])] == [
        (b"%d" % number, time, (("h", None),)) for number, time in enumerate(times) if number
    ]
    assert (left.header.base_timestamp, left.header.max_timestamp) == (NOW + 70, NOW + 2**40)


def test_a_record_of_several_kilobytes_is_kept_whole() -> None:
    one = batch(5, (b"a", b"x"), (b"k" * 3000, b"v" * 100_000), timestamps=[NOW, NOW + 10**9])
    left = Filtering({b"a": 9}).left(one)
    assert survivors(left) == [(6, NOW + 10**9, b"k" * 3000, b"v" * 100_000)]


# Tombstones


# Producers


# Transactions


def test_the_only_marker_of_an_active_producer_keeps_its_epoch() -> None:
    horizon = Filtering({}).left(marker(8, 1, commit=True, epoch=4))
    filtering = Filtering({}, now_ms=NOW + DAY_MS, producers=[ActiveProducer(1, -1, 4)])
    left = filtering.left(horizon)
    assert (left.header.record_count, left.header.is_control, left.header.producer_epoch) == (0, True, 4)
    assert Filtering({}, producers=[ActiveProducer(1, -1, 5)]).kept(left) is None


def test_an_unknown_control_record_stays() -> None:
    record = NewRecord(pack(">hh", 0, 2), b"leader change", NOW)
    one = entry(build_batch([record], base_offset=3, is_control=True))
    assert Filtering({}).left(one) == one


# Formats v0 and v1


def legacy(
    magic: int, pairs: list[tuple[bytes | None, bytes | None]], codec: CompressionCodec, **fields: Any
) -> list[Entry]:
    records = [NewRecord(key, value, NOW + number if magic else -1) for number, (key, value) in enumerate(pairs)]
    return entries_of(bytes(build_message_set(records, magic=magic, base_offset=50, codec=codec, **fields)))


# Invalid bytes


def damaged(change: Callable[[bytearray], None]) -> Entry:
    one = bytearray(batch(5, (b"a", b"1"), (b"b", b"2")).data)
    change(one)
    return entry(one)


def set_byte(position: int, value: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[position] = value

    return change


@pytest.mark.parametrize(
    "change",
    [set_byte(61, 0x7E), set_byte(61, 0x02), set_byte(65, 0x7E), set_byte(60, 3), set_byte(60, 1)],
    ids=[
        "longer than the batch",
        "shorter than its fields",
        "a key beyond the end",
        "a record too many",
        "one too few",
    ],
)
def test_records_that_are_none_are_refused(change: Callable[[bytearray], None]) -> None:
    one = damaged(change)
    with pytest.raises(InvalidRecordError):
        Filtering({}).kept(one)


def test_a_marker_without_a_type_is_refused() -> None:
    one = entry(build_batch([NewRecord(b"\0", b"", NOW)], producer_id=1, is_transactional=True, is_control=True))
    with pytest.raises(DecodeError, match="a key of 1 bytes"):
        Filtering({}).kept(one)
