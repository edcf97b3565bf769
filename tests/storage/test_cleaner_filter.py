"""Cleaning of single log entries."""

import dataclasses
from collections.abc import Iterable
from struct import pack

import pytest

from minibroker_protocol.errors import DecodeError, InvalidRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.cleaner.batch_filter import BatchFilter, CleanedTransactions, RetainedEntry
from minibroker_storage.cleaner.offset_map import OffsetMap
from minibroker_storage.cleaner.plan import ActiveProducer
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
            offsets, CleanedTransactions(self.aborted), self.producers, now_ms=self.now_ms, delete_retention_ms=DAY_MS
        )

    def kept(self, log_entry: Entry) -> RetainedEntry | None:
        return self.filter.filter(log_entry.data, log_entry.header)

    def left(self, log_entry: Entry) -> Entry:
        """Return the retained part as an entry, after checking its checksum."""
        retained = self.kept(log_entry)
        assert retained is not None
        (remaining,) = entries_of(bytes(retained.data))
        assert (retained.last_offset, retained.max_timestamp) == (
            remaining.header.last_offset,
            remaining.header.max_timestamp,
        )
        return remaining


# Format v2


def test_a_batch_that_loses_nothing_comes_back_as_the_same_object() -> None:
    log_entry = batch(5, (b"a", b"1"), (b"b", b"2"))
    retained = Filtering({b"a": 5, b"b": 6}).kept(log_entry)
    assert retained is not None
    assert retained.data is log_entry.data
    assert (retained.last_offset, retained.max_timestamp) == (6, NOW + 1)


def test_records_without_a_key_go_and_are_counted() -> None:
    filtering = Filtering({b"a": 6})
    remaining = filtering.left(batch(5, (None, b"1"), (b"a", b"2"), (None, None)))
    assert [record.offset for record in records_of([remaining])] == [6]
    assert filtering.filter.invalid_messages_read == 2
    assert (filtering.filter.messages_read, filtering.filter.messages_written) == (3, 1)


def test_timestamps_and_headers_of_survivors_stay_with_larger_and_smaller_deltas() -> None:
    times = [NOW, NOW + 70, NOW - 5_000_000, NOW + 2**40, NOW + 1]
    records = [NewRecord(b"%d" % number, b"v" * 60, time, (("h", None),)) for number, time in enumerate(times)]
    log_entry = entry(build_batch(records, base_offset=10))
    remaining = Filtering({b"0": 99}).left(log_entry)
    assert [(r.key, r.timestamp, r.headers) for r in records_of([remaining])] == [
        (b"%d" % number, time, (("h", None),)) for number, time in enumerate(times) if number
    ]
    assert (remaining.header.base_timestamp, remaining.header.max_timestamp) == (NOW + 70, NOW + 2**40)


def test_a_record_of_several_kilobytes_is_kept_whole() -> None:
    log_entry = batch(5, (b"a", b"x"), (b"k" * 3000, b"v" * 100_000), timestamps=[NOW, NOW + 10**9])
    remaining = Filtering({b"a": 9}).left(log_entry)
    (record,) = records_of([remaining])
    assert record[:2] == (6, NOW + 10**9)
    assert (record.key, record.value) == (b"k" * 3000, b"v" * 100_000)


# Transactions


def test_the_only_marker_of_an_active_producer_keeps_its_epoch() -> None:
    horizon = Filtering({}).left(marker(8, 1, commit=True, epoch=4))
    filtering = Filtering({}, now_ms=NOW + DAY_MS, producers=[ActiveProducer(1, -1, 4)])
    remaining = filtering.left(horizon)
    assert (remaining.header.record_count, remaining.header.is_control, remaining.header.producer_epoch) == (0, True, 4)
    assert Filtering({}, producers=[ActiveProducer(1, -1, 5)]).kept(remaining) is None


def test_an_unknown_control_record_stays() -> None:
    record = NewRecord(pack(">hh", 0, 2), b"leader change", NOW)
    log_entry = entry(build_batch([record], base_offset=3, is_control=True))
    assert Filtering({}).left(log_entry) == log_entry


# Invalid bytes


@pytest.mark.parametrize(
    ("position", "value"),
    [(61, 0x7E), (61, 0x02), (65, 0x7E), (60, 3), (60, 1)],
    ids=[
        "longer than the batch",
        "shorter than its fields",
        "a key beyond the end",
        "a record too many",
        "one too few",
    ],
)
def test_records_that_are_none_are_refused(position: int, value: int) -> None:
    data = bytearray(batch(5, (b"a", b"1"), (b"b", b"2")).data)
    data[position] = value
    with pytest.raises(InvalidRecordError):
        Filtering({}).kept(entry(data))


def test_a_marker_without_a_type_is_refused() -> None:
    log_entry = entry(build_batch([NewRecord(b"\0", b"", NOW)], producer_id=1, is_transactional=True, is_control=True))
    with pytest.raises(DecodeError, match="a key of 1 bytes"):
        Filtering({}).kept(log_entry)
