"""Transaction markers: their format, disk errors, and a broker that stops before they are written.

Markers of transactions with many partitions are written in slices.
"""

from collections.abc import Callable

import pytest

from minibroker.coordinators.transactions.transaction import Marker, TransactionState, write_marker
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.records.batch import RecordBatch, iter_batches
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_storage.segment import LogSegment
from tests.broker.coordinators.groups.offset_requests import offsets_of
from tests.broker.coordinators.transactions.disk import Disk
from tests.broker.coordinators.transactions.producer import Producer, markers_in, read_committed
from tests.broker.coordinators.transactions.test_coordinator import state_of
from tests.broker.harness import Harness, bytes_in
from tests.broker.logs.world import log_of, topic_of

RETRY_MS = 500


COMMIT = 1


def batches(harness: Harness, topic: str = "t") -> list[RecordBatch]:
    data = memoryview(bytes_in(harness.fetch_one(0, topic)))
    return [batch for batch in iter_batches(data) if isinstance(batch, RecordBatch)]


@pytest.mark.parametrize(("commit", "kind"), [(True, b"\0\1"), (False, b"\0\0")])
def test_a_marker_has_the_same_bytes_as_kafkas(harness: Harness, commit: bool, kind: bytes) -> None:  # noqa: FBT001 - a parameter
    producer = Producer(harness)
    producer.write(b"x")
    assert producer.end(commit=commit) == 0
    _, marker = batches(harness)
    header = marker.header
    assert (header.is_control, header.is_transactional, header.codec) == (True, True, CompressionCodec.NONE)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer.id, 0, -1)
    assert (header.partition_leader_epoch, header.max_timestamp) == (0, harness.clock.now_ms())
    (record,) = marker
    assert (record.key, record.value, record.headers) == (b"\0\0" + kind, b"\0\0\0\0\0\0", ())


@pytest.mark.parametrize(
    "configs",
    [
        {"compression_type": "gzip"},
        {"message_timestamp_type": "LogAppendTime"},
        {"message_timestamp_before_max_ms": "1"},
        {"max_message_bytes": "70"},
    ],
    ids=str,
)
def test_a_marker_ignores_the_record_settings_of_its_topic(harness: Harness, configs: dict[str, str]) -> None:
    harness.create("picky", 1, **configs)
    producer = Producer(harness)
    assert producer.add(("picky", 0)) == [0]
    assert producer.commit() == 0
    (marker,) = batches(harness, "picky")
    assert (marker.header.is_control, marker.header.codec) == (True, CompressionCodec.NONE)
    appended = configs.get("message_timestamp_type") == "LogAppendTime"
    assert marker.header.timestamp_type is (TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME)


@pytest.mark.parametrize("version", ["0.9.0", "0.10.2"])
def test_a_topic_of_an_older_format_needs_no_marker(harness: Harness, version: str) -> None:
    harness.create("old", 1, message_format_version=version)
    producer = Producer(harness)
    assert producer.add(("old", 0)) == [0]
    producer.write(b"x")
    assert producer.commit() == 0
    assert log_of(harness, "old").log_end_offset == 0
    assert read_committed(harness) == [b"x"]


def test_a_marker_follows_staged_batches(harness: Harness) -> None:
    producer = Producer(harness)
    assert producer.add(("t", 0)) == [0]
    log = log_of(harness)
    assert producer.send(b"x").error_code == 0
    staged = producer.batch(b"y", base_sequence=1)
    view = memoryview(staged)
    header = next(iter(iter_batches(view))).header
    log.append(view, header, 0, harness.clock.now_ms())
    assert producer.commit() == 0
    assert read_committed(harness) == [b"x", b"y"]
    assert markers_in(harness) == [(2, producer.id, 0, COMMIT)]


def test_a_marker_that_the_disk_rejects_is_retried(
    harness: Harness, disk: Disk, errors: Callable[[], list[str]]
) -> None:
    harness.create("other")
    producer = Producer(harness)
    producer.write(b"here")
    producer.write(b"there", topic="other")
    disk.refused = {"other-0"}
    assert producer.commit() == 0
    assert state_of(harness) is TransactionState.PREPARE_COMMIT
    assert read_committed(harness) == [b"here"]
    assert read_committed(harness, "other") == []
    assert producer.add(("t", 0)) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert producer.commit() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.abort() == ErrorCode.INVALID_TXN_STATE
    assert producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.add_offsets("g") == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.send(b"late").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(10):
        harness.clock.advance(RETRY_MS)
    assert disk.attempts == 11
    assert len([text for text in errors() if "other-0" in text]) == 1
    disk.refused.clear()
    harness.clock.advance(RETRY_MS)
    assert state_of(harness) is TransactionState.COMPLETE_COMMIT
    assert read_committed(harness, "other") == [b"there"]
    assert markers_in(harness) == [(1, producer.id, 0, COMMIT)]
    producer.write(b"next")
    assert producer.commit() == 0


def test_a_transaction_stays_open_if_its_end_cannot_be_saved(harness: Harness, disk: Disk) -> None:
    producer = Producer(harness)
    producer.write(b"x")
    partition = harness.services.transactions.store.log.partition_of("mine")
    disk.refused = {f"__transaction_state-{partition}"}
    assert producer.commit() == ErrorCode.NOT_COORDINATOR
    assert state_of(harness) is TransactionState.ONGOING
    assert markers_in(harness) == []
    assert producer.add(("t", 1), ("t", 0)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED]
    disk.refused.clear()
    assert producer.commit() == 0
    assert read_committed(harness) == [b"x"]


def test_a_completion_that_cannot_be_saved_is_retried_without_a_second_marker(harness: Harness, disk: Disk) -> None:
    producer = Producer(harness)
    producer.write(b"x")
    partition = harness.services.transactions.store.log.partition_of("mine")
    write = disk.write

    def failing_after(segment: LogSegment) -> None:
        write(segment)
        if segment is log_of(harness).segments[-1]:
            disk.refused = {f"__transaction_state-{partition}"}

    disk.write = failing_after
    assert producer.commit() == 0
    assert state_of(harness) is TransactionState.PREPARE_COMMIT
    disk.refused.clear()
    harness.clock.advance(RETRY_MS)
    assert state_of(harness) is TransactionState.COMPLETE_COMMIT
    assert markers_in(harness) == [(1, producer.id, 0, COMMIT)]


def test_a_decided_transaction_is_completed_after_a_restart(
    harness: Harness, disk: Disk, again: Callable[[Harness], None]
) -> None:
    harness.create("other")
    producer = Producer(harness)
    producer.write(b"here")
    producer.write(b"there", topic="other")
    disk.refused = {"other-0"}
    assert producer.commit() == 0
    disk.refused.clear()
    again(harness)
    harness.run_soon()
    assert state_of(harness) is TransactionState.COMPLETE_COMMIT
    assert read_committed(harness, "other") == [b"there"]
    # As in Kafka, all markers are written again, because the log does not say which ones were written.
    assert [marker[3] for marker in markers_in(harness)] == [COMMIT, COMMIT]
    assert read_committed(harness) == [b"here"]


def refused_commit(harness: Harness, disk: Disk) -> Producer:
    """Commit a transaction whose marker the disk refuses."""
    producer = Producer(harness)
    producer.write(b"x")
    disk.refused = {"t-0"}
    assert producer.commit() == 0
    return producer


def test_a_request_completes_a_decided_transaction(harness: Harness, disk: Disk) -> None:
    producer = refused_commit(harness, disk)
    disk.refused.clear()
    harness.crash()
    producer.write(b"y")
    assert producer.commit() == 0
    assert read_committed(harness) == [b"x", b"y"]


def test_no_marker_is_retried_after_the_broker_stopped(harness: Harness, disk: Disk) -> None:
    refused_commit(harness, disk)
    attempts = disk.attempts
    harness.restart()
    harness.clock.advance(RETRY_MS)
    assert disk.attempts <= attempts + 2  # The new broker may try twice.


def test_a_newer_epoch_in_the_log_does_not_keep_a_transaction_open(harness: Harness) -> None:
    producer = Producer(harness)
    producer.write(b"x")
    assert write_marker(harness.core, "t", 0, Marker(producer.id, 7, commit=False)) == 0
    assert producer.commit() == 0
    assert state_of(harness) is TransactionState.COMPLETE_COMMIT
    assert read_committed(harness) == []


def test_a_marker_of_a_newer_coordinator_does_not_fence_this_one(harness: Harness) -> None:
    """A directory of Apache Kafka has markers of later coordinator epochs."""
    producer = Producer(harness)
    producer.write(b"x")
    assert write_marker(harness.core, "t", 0, Marker(producer.id, 0, commit=True, coordinator_epoch=9)) == 0
    assert producer.commit() == 0
    producer.write(b"y")
    assert producer.commit() == 0
    assert read_committed(harness) == [b"x", b"y"]
    assert log_of(harness).producers.active[producer.id].coordinator_epoch == 9


def test_committed_offsets_become_visible_with_the_marker(harness: Harness) -> None:
    harness.ask(FindCoordinatorRequest(key="g", key_type=0), 2)
    producer = Producer(harness)
    for offset, commit in ((5, True), (7, False)):
        assert producer.add_offsets("g") == 0
        assert producer.commit_offset("g", offset) == 0
        assert producer.end(commit=commit) == 0
    partition = harness.services.groups.store.partition_of("g")
    assert offsets_of(harness) == {("t", 0): 5}
    kinds = [marker[3] for marker in markers_in(harness, "__consumer_offsets", partition)]
    assert kinds == [1, 0]


PARTITIONS = 60
EVERYTHING = [("many", index) for index in range(PARTITIONS)]


@pytest.fixture
def many(harness: Harness) -> Producer:
    """Return a producer with many partitions in its transaction, on a broker that writes markers in slices."""
    harness.create("many", PARTITIONS)
    producer = Producer(harness)
    assert producer.add(*EVERYTHING) == [0] * PARTITIONS
    harness.core.slices.slice_s = 0.0
    return producer


def ends(harness: Harness) -> list[int]:
    return [partition.log.log_end_offset for partition in topic_of(harness, "many").partitions]


def test_the_response_is_sent_before_all_markers_are_written(harness: Harness, many: Producer) -> None:
    coordinator = harness.services.transactions
    assert coordinator.end("mine", many.id, many.epoch, commit=True).error_code == ErrorCode.NONE
    assert 0 < sum(ends(harness)) < PARTITIONS
    assert coordinator.add_partitions("mine", many.id, many.epoch, EVERYTHING) == ErrorCode.CONCURRENT_TRANSACTIONS
    harness.crash()  # The next start writes the markers.
    harness.run_soon()
    assert many.commit() == 0
    assert all(ends(harness))


def test_markers_written_in_slices_complete_the_transaction(harness: Harness, many: Producer) -> None:
    coordinator = harness.services.transactions
    assert coordinator.end("mine", many.id, many.epoch, commit=False).error_code == ErrorCode.NONE
    harness.run_soon()
    assert ends(harness) == [1] * PARTITIONS
    assert coordinator.add_partitions("mine", many.id, many.epoch, EVERYTHING[:1]) == ErrorCode.NONE


def test_a_reloaded_transaction_gets_its_markers(harness: Harness, many: Producer) -> None:
    coordinator = harness.services.transactions
    assert coordinator.end("mine", many.id, many.epoch, commit=True).error_code == ErrorCode.NONE
    coordinator.store.leader_moved(coordinator.store.log.partition_of("mine"))
    assert coordinator.store.check_readiness("mine") == ErrorCode.NONE  # Old markers are still being written.
    harness.run_soon()
    assert all(ends(harness))
    assert coordinator.add_partitions("mine", many.id, many.epoch, EVERYTHING[:1]) == ErrorCode.NONE
