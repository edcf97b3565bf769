"""A partition directory written by Kafka 3.9.1 and closed by a clean shutdown.

The topic had segment.bytes=6000 and index.interval.bytes=512. Five idempotent producers wrote 42 records each, in
batches of 7, one per codec, with timestamps FIRST + 1 s per record. Offsets 210 to 219 were written without a producer
id and 30 s late. Then a transactional producer committed one record and aborted another. Expected values are Kafka's
own answers.
"""

import shutil
from pathlib import Path

import pytest

from minibroker_protocol.records.header import CompressionCodec
from minibroker_storage.checkpoints import partition_metadata, read_partition_metadata
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.producer_snapshot import decode_snapshot, encode_snapshot
from tests.storage.helpers import Home, batches_of, contents, offsets_of, sequenced
from tests.storage.time_search import find_by_timestamp, find_max_timestamp

WRITTEN = Path(__file__).parent / "data" / "kafka-3.9.1" / "orders-0"
CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=512, producer_id_expiration_ms=2**50)
FIRST = 1_700_000_000_000
INDEXES = [f"{base:020d}{suffix}" for base in (0, 42, 215, 221) for suffix in (".index", ".timeindex")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    copy = Home(tmp_path / "orders-0", CONFIG)
    copy.log.close()
    shutil.rmtree(copy.path)
    shutil.copytree(WRITTEN, copy.path)
    return copy


@pytest.mark.parametrize("last_stop", LastStop)
def test_every_record_is_read(home: Home, last_stop: LastStop) -> None:
    log = home.open(last_stop=last_stop)
    assert (log.log_start_offset, log.log_end_offset) == (0, 224)
    assert [(segment.base_offset, segment.size) for segment in log.segments] == [
        (0, 5868),
        (42, 5994),
        (215, 462),
        (221, 231),
    ]
    batches = batches_of(log)
    assert {batch.header.codec for batch in batches} == set(CompressionCodec)
    records = [record for batch in batches for record in batch]
    assert [record.offset for record in records] == list(range(224))
    for record in records[:210]:
        assert record.key == b"key-%d" % (record.offset % 10)
        assert record.value == b"value %d " % record.offset * 12
        assert record.timestamp == FIRST + 1000 * record.offset
    assert records[220].value == b"committed"
    for batch in batches:
        batch.check_crc()


@pytest.mark.parametrize("last_stop", LastStop)
def test_times_are_found_where_kafka_finds_them(home: Home, last_stop: LastStop) -> None:
    log = home.open(last_stop=last_stop)
    answers = {
        -1: 0,
        0: 0,
        500: 1,
        1000: 1,
        41000: 41,
        41001: 42,
        100000: 100,
        150500: 151,
        180000: 180,
        209000: 209,
        209001: 220,
        210000: 220,
        220000: 220,
        220001: 221,
    }
    record = {delta: find_by_timestamp(log, FIRST + delta) for delta in answers}
    assert {delta: place and place.offset for delta, place in record.items()} == answers
    assert find_by_timestamp(log, 2_699_999_999_999) is None
    assert find_max_timestamp(log) == (1795248470781, 223, 0)


def test_rebuilt_indexes_are_kafkas_byte_for_byte(home: Home) -> None:
    for name in INDEXES:
        home.file(name).unlink()
    home.open(last_stop=LastStop.CLEAN).close()
    after = contents(home.path)
    for name in INDEXES:
        assert after[name] == (WRITTEN / name).read_bytes(), name


def test_the_same_batches_appended_again_make_the_same_files(tmp_path: Path, home: Home) -> None:
    kafkas = home.open(last_stop=LastStop.CLEAN)
    copy = Home(tmp_path / "copy-0", CONFIG)
    for batch in batches_of(kafkas):
        view = memoryview(bytearray(batch.buffer))
        if not batch.header.is_control:
            assert copy.log.producers.check(batch.header) is None
        copy.log.append(view, batch.header, batch.header.partition_leader_epoch, batch.header.max_timestamp)
        copy.log.commit()
    copy.log.close()
    ours, expected = contents(copy.path), contents(WRITTEN)
    assert set(expected) == set(ours)
    for name in ours:
        if name != "partition.metadata" and not name.endswith(".snapshot"):
            assert ours[name] == expected[name], name
    for name in home.names(".snapshot"):
        assert decode_snapshot(ours[name]) == decode_snapshot(expected[name]), name


def test_the_snapshots_are_read_and_written_as_kafka_writes_them() -> None:
    for path in sorted(WRITTEN.glob("*.snapshot")):
        data = path.read_bytes()
        producers = decode_snapshot(data)
        assert len(producers) == {42: 1, 215: 5, 221: 6, 224: 6}[int(path.stem)]
        assert encode_snapshot(producers) == data


@pytest.mark.parametrize("last_stop", LastStop)
def test_its_producers_go_on_where_they_were(home: Home, last_stop: LastStop) -> None:
    log = home.open(last_stop=last_stop)
    assert sorted(log.producers.active) == [0, 1, 2, 3, 4, 5]
    for producer_id in range(5):
        assert log.producers.check(sequenced(42, producer_id=producer_id).header) is None
        repeated = log.producers.check(sequenced(35, 7, producer_id=producer_id).header)
        assert repeated is not None
        assert repeated.base_offset == 42 * producer_id + 35
    assert log.producers.active[5].current_txn_first_offset == -1
    assert home.append(sequenced(42, producer_id=0)) == [224]
    assert offsets_of(log)[-1] == 224


def test_its_metadata_is_read_and_written_as_kafka_writes_it() -> None:
    path = WRITTEN / "partition.metadata"
    assert partition_metadata(read_partition_metadata(str(path))) == path.read_bytes()


def test_its_leader_epochs_are_known(home: Home) -> None:
    assert home.open(last_stop=LastStop.CLEAN).epochs.entries == ((0, 0),)
