"""Single log entries after a cleaning."""

import dataclasses
from collections.abc import Callable, Iterable
from struct import pack
from typing import Any

import pytest

from minibroker_protocol.errors import DecodeError, InvalidRecordError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import DELETE_HORIZON_FLAG, HEADER, CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_storage.cleaner.batch_filter import BatchFilter, KeptEntry
from minibroker_storage.cleaner.offset_map import OffsetMap
from minibroker_storage.cleaner.plan import ActiveProducer
from minibroker_storage.cleaner.transactions import CleanedTransactions
from minibroker_storage.transaction_index import AbortedTxn
from tests.storage.cleaning import DAY_MS, Entry, batch, entries_of, entry, marker, records_of
from tests.storage.helpers import NOW

CODECS = [codec for codec in CompressionCodec if codec is not CompressionCodec.NONE]
LEGACY_CODECS = [codec for codec in CODECS if codec is not CompressionCodec.ZSTD]


@dataclasses.dataclass
class Filtering:
    """A filter whose offset map knows `newest` up to `latest`."""

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
        """Return what is left as one entry with a right checksum."""
        kept = self.kept(one)
        assert kept is not None
        (left,) = entries_of(bytes(kept.data))
        assert (kept.last_offset, kept.max_timestamp) == (left.header.last_offset, left.header.max_timestamp)
        return left


def survivors(one: Entry) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(record.offset, record.timestamp, record.key, record.value) for record in records_of([one])]


# v2


def test_a_batch_that_loses_nothing_comes_back_as_the_same_object() -> None:
    one = batch(5, (b"a", b"1"), (b"b", b"2"))
    kept = Filtering({b"a": 5, b"b": 6}).kept(one)
    assert kept is not None
    assert kept.data is one.data
    assert (kept.last_offset, kept.max_timestamp) == (6, NOW + 1)


def test_a_record_is_kept_when_its_key_is_not_in_the_map_at_all() -> None:
    one = batch(5, (b"a", b"1"))
    assert Filtering({b"b": 6}).left(one) == one


def test_an_overwritten_record_goes_and_all_that_names_the_batch_stays() -> None:
    one = batch(
        5,
        (b"a", b"1"),
        (b"b", b"2"),
        (b"c", b"3"),
        producer_id=9,
        producer_epoch=2,
        base_sequence=7,
        is_transactional=True,
    )
    left = Filtering({b"a": 10, b"b": 6, b"c": 11}).left(one)
    assert survivors(left) == [(6, NOW + 1, b"b", b"2")]
    assert left.header == one.header._replace(
        batch_length=left.header.batch_length,
        crc=left.header.crc,
        base_timestamp=NOW + 1,
        max_timestamp=NOW + 1,
        record_count=1,
    )
    assert left.header.last_offset == 7
    assert left.header.last_sequence == 9


def test_the_timestamps_of_a_filtered_batch_count_from_its_first_survivor() -> None:
    one = batch(100, (b"a", b"1"), (b"b", b"22"), timestamps=[1000, 2000])
    kept = Filtering({b"a": 200, b"b": 101}).kept(one)
    assert kept is not None
    assert HEADER.unpack_from(kept.data)[6:] == (1, 2000, 2000, -1, -1, -1, 1)
    assert kept.data[61:] == bytes.fromhex("12 00 00 02 02 62 04 3232 00")


def test_a_batch_without_survivors_goes() -> None:
    assert Filtering({b"a": 9}).kept(batch(5, (b"a", b"1"), (b"a", b"2"))) is None


def test_records_without_a_key_go_and_are_counted() -> None:
    filtering = Filtering({b"a": 6})
    left = filtering.left(batch(5, (None, b"1"), (b"a", b"2"), (None, None)))
    assert [record.offset for record in records_of([left])] == [6]
    assert filtering.filter.invalid_messages_read == 2
    assert (filtering.filter.messages_read, filtering.filter.messages_written) == (3, 1)


def test_records_behind_the_end_of_the_map_stay_whatever_they_are() -> None:
    one = batch(5, (b"a", b"1"), (None, b"2"), (b"a", b"3"))
    left = Filtering({b"a": 100}, latest=5).left(one)
    assert [record.offset for record in records_of([left])] == [6, 7]


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_is_compressed_again_with_its_codec(codec: CompressionCodec) -> None:
    one = batch(5, (b"a", b"1" * 100), (b"b", b"2" * 100), (b"c", b"3" * 100), codec=codec)
    left = Filtering({b"a": 9, b"b": 6, b"c": 7}).left(one)
    assert left.header.codec is codec
    assert [(record.offset, record.key) for record in records_of([left])] == [(6, b"b"), (7, b"c")]
    assert Filtering({b"a": 5}).left(one) == one


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


def test_the_brokers_timestamp_stays_on_every_record() -> None:
    one = batch(5, (b"a", b"1"), (b"b", b"2"), timestamp_type=TimestampType.LOG_APPEND_TIME)
    left = Filtering({b"a": 9}).left(one)
    (record,) = records_of([left])
    assert (record.timestamp, record.timestamp_type) == (NOW + 1, TimestampType.LOG_APPEND_TIME)
    assert (left.header.base_timestamp, left.header.max_timestamp) == (NOW + 1, NOW + 1)


# Tombstones


def test_the_first_tombstone_that_stays_gives_its_batch_a_delete_horizon() -> None:
    one = batch(5, (b"a", None), (b"b", b"2"))
    left = Filtering({b"a": 5, b"b": 6}).left(one)
    assert left.header.delete_horizon_ms == NOW + DAY_MS
    assert survivors(left) == survivors(one)
    assert left.header.max_timestamp == one.header.max_timestamp


def test_the_delete_horizon_is_not_moved_by_a_later_cleaning() -> None:
    first = Filtering({}).left(batch(5, (b"a", None), (b"b", b"2")))
    untouched = Filtering({}, now_ms=NOW + DAY_MS - 1).kept(first)
    assert untouched is not None
    assert untouched.data is first.data
    rebuilt = Filtering({b"b": 9}, now_ms=NOW + 5).left(first)
    assert rebuilt.header.delete_horizon_ms == NOW + DAY_MS
    assert survivors(rebuilt) == [(5, NOW, b"a", None)]


def test_a_tombstone_goes_at_its_delete_horizon_and_leaves_the_flag_behind() -> None:
    first = Filtering({}).left(batch(5, (b"a", None), (b"b", b"2")))
    left = Filtering({}, now_ms=NOW + DAY_MS).left(first)
    assert survivors(left) == [(6, NOW + 1, b"b", b"2")]
    assert left.header.delete_horizon_ms == NOW + DAY_MS


def test_an_overwritten_tombstone_goes_at_once() -> None:
    left = Filtering({b"a": 9}).left(batch(5, (b"a", None), (b"b", b"2")))
    assert left.header.delete_horizon_ms is None
    assert not left.header.attributes & DELETE_HORIZON_FLAG


# Producers


def test_the_last_batch_of_an_active_producer_leaves_its_header() -> None:
    one = batch(
        5, (b"a", b"1"), (b"a", b"2"), producer_id=9, producer_epoch=2, base_sequence=7, codec=CompressionCodec.LZ4
    )
    left = Filtering({b"a": 9}, producers=[ActiveProducer(9, 6, 2)]).left(one)
    assert left.header == one.header._replace(
        batch_length=49, crc=left.header.crc, attributes=0, base_timestamp=-1, record_count=0
    )
    again = Filtering({}, producers=[ActiveProducer(9, 6, 2)]).kept(left)
    assert again is not None
    assert again.data is left.data
    assert Filtering({}, producers=[ActiveProducer(9, 8, 2)]).kept(left) is None


@pytest.mark.parametrize("producers", [[], [ActiveProducer(9, 7, 2)], [ActiveProducer(8, 6, 2)]])
def test_an_older_batch_of_a_producer_goes(producers: list[ActiveProducer]) -> None:
    one = batch(5, (b"a", b"1"), (b"a", b"2"), producer_id=9, producer_epoch=2, base_sequence=7)
    assert Filtering({b"a": 9}, producers=producers).kept(one) is None


# Transactions


def transactional(base_offset: int, *pairs: tuple[bytes, bytes], producer_id: int = 1) -> Entry:
    return batch(
        base_offset, *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=base_offset, is_transactional=True
    )


def test_batches_of_an_aborted_transaction_go_and_its_marker_waits() -> None:
    transaction = AbortedTxn(1, 5, 8, 9)
    filtering = Filtering({}, aborted=[transaction])
    assert filtering.kept(transactional(5, (b"a", b"1"))) is None
    assert filtering.kept(transactional(6, (b"b", b"1"), producer_id=2)) is not None
    assert filtering.kept(transactional(7, (b"c", b"1"))) is None
    one = marker(8, 1, commit=False)
    assert filtering.left(one) == one
    assert filtering.filter._transactions.take_retained() == [transaction]
    assert filtering.filter._transactions.retained == []


def test_a_record_of_an_aborted_transaction_goes_even_when_it_is_the_last_of_its_producer() -> None:
    filtering = Filtering({}, aborted=[AbortedTxn(1, 5, 8, 9)], producers=[ActiveProducer(1, 5, 0)])
    left = filtering.left(transactional(5, (b"a", b"1")))
    assert left.header.record_count == 0
    assert left.header.is_transactional


@pytest.mark.parametrize("aborted", [[], [AbortedTxn(1, 5, 8, 9)]], ids=["commit", "abort"])
def test_a_marker_without_its_transaction_gets_a_delete_horizon_and_goes_after_it(aborted: list[AbortedTxn]) -> None:
    one = marker(8, 1, commit=not aborted)
    left = Filtering({}, aborted=aborted).left(one)
    assert left.header.delete_horizon_ms == NOW + DAY_MS
    assert survivors(left) == survivors(one)
    assert left.header.is_control
    before = Filtering({}, now_ms=NOW + DAY_MS - 1).kept(left)
    assert before is not None
    assert before.data is left.data
    assert Filtering({}, now_ms=NOW + DAY_MS).kept(left) is None


def test_a_committed_marker_stays_while_a_batch_of_its_transaction_is_there() -> None:
    filtering = Filtering({b"a": 100}, latest=200)
    assert filtering.kept(transactional(5, (b"a", b"1"))) is None
    one = marker(8, 1, commit=True)
    assert filtering.left(one) == one
    later = filtering.left(marker(9, 1, commit=True))
    assert later.header.delete_horizon_ms is not None


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


def test_two_transactions_of_one_producer_are_told_apart() -> None:
    filtering = Filtering({}, aborted=[AbortedTxn(1, 9, 10, 11), AbortedTxn(1, 5, 6, 7)])
    assert filtering.kept(transactional(5, (b"a", b"1"))) is None
    filtering.kept(marker(6, 1, commit=False))
    assert filtering.kept(transactional(7, (b"b", b"1"))) is not None
    filtering.kept(marker(8, 1, commit=True))
    assert filtering.kept(transactional(9, (b"c", b"1"))) is None
    filtering.kept(marker(10, 1, commit=False))
    assert [transaction.first_offset for transaction in filtering.filter._transactions.retained] == [5, 9]


# Formats v0 and v1


def legacy(
    magic: int, pairs: list[tuple[bytes | None, bytes | None]], codec: CompressionCodec, **fields: Any
) -> list[Entry]:
    records = [NewRecord(key, value, NOW + number if magic else -1) for number, (key, value) in enumerate(pairs)]
    return entries_of(bytes(build_message_set(records, magic=magic, base_offset=50, codec=codec, **fields)))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_plain_message_stays_to_the_byte_or_goes(magic: int) -> None:
    filtering = Filtering({b"a": 90, b"b": 51})
    first, second, third = legacy(magic, [(b"a", b"1"), (b"b", b"2"), (None, b"3")], CompressionCodec.NONE)
    assert filtering.kept(first) is None
    kept = filtering.kept(second)
    assert kept is not None
    assert kept.data is second.data
    assert (kept.last_offset, kept.max_timestamp) == (51, NOW + 1 if magic else -1)
    assert filtering.kept(third) is None
    assert filtering.filter.invalid_messages_read == 1


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_is_rebuilt_with_absolute_offsets_kept(magic: int, codec: CompressionCodec) -> None:
    pairs: list[tuple[bytes | None, bytes | None]] = [(b"%d" % number, b"v" * 50) for number in range(6)]
    (wrapper,) = legacy(magic, pairs, codec)
    untouched = Filtering({}).kept(wrapper)
    assert untouched is not None
    assert untouched.data is wrapper.data
    left = Filtering({b"0": 99, b"3": 99, b"5": 99}).left(wrapper)
    assert (left.header.magic, left.header.codec, left.header.base_offset) == (magic, codec, 54)
    assert [(record.offset, record.key) for record in records_of([left])] == [(51, b"1"), (52, b"2"), (54, b"4")]
    if magic:
        assert [record.timestamp for record in records_of([left])] == [NOW + 1, NOW + 2, NOW + 4]
    assert Filtering({b"%d" % number: 99 for number in range(6)}).kept(wrapper) is None


def test_a_wrapper_under_the_brokers_timestamp_keeps_it() -> None:
    (wrapper,) = legacy(
        1,
        [(b"a", b"1"), (b"b", b"2")],
        CompressionCodec.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=NOW + 77,
    )
    left = Filtering({b"a": 99}).left(wrapper)
    (record,) = records_of([left])
    assert record == Record(51, NOW + 77, TimestampType.LOG_APPEND_TIME, b"b", b"2")


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.SNAPPY])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_tombstones_stay_as_long_as_their_segment_says(magic: int, codec: CompressionCodec) -> None:
    (one,) = legacy(magic, [(b"a", None)], codec)
    filtering = Filtering({})
    assert filtering.left(one) == one
    filtering.filter.retain_legacy_deletes = False
    assert filtering.kept(one) is None


# Bytes that are no records


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
