"""WriteTxnMarkers: the ends of transactions, written by whoever coordinates them."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.broker.coordinators.transactions.producer import Producer, markers_in, read_committed
from tests.broker.harness import Harness
from tests.broker.logs.world import log_of

VERSIONS = [0, 1, 2]


def written(
    harness: Harness,
    producer_id: int,
    *places: tuple[str, int],
    version: int = 1,
    epoch: int = 0,
    commit: bool = False,
    coordinator_epoch: int = 0,
) -> list[int]:
    """The error code for each place."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[index]) for name, index in places],
        coordinator_epoch=coordinator_epoch,
    )
    (result,) = harness.ask(WriteTxnMarkersRequest(markers=[marker]), version).markers
    assert result.producer_id == producer_id
    return [partition.error_code for topic in result.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_hanging_transaction_is_aborted(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    producer.write(b"x")
    assert written(harness, producer.id, ("t", 0), ("t", 1), ("nowhere", 0), version=version) == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert markers_in(harness) == [(1, producer.id, 0, 0)]
    assert log_of(harness).last_stable_offset == 2
    assert read_committed(harness) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_coordinator_that_was_replaced_and_an_old_producer_are_fenced(harness: Harness, version: int) -> None:
    def error(epoch: int, coordinator_epoch: int) -> int:
        (code,) = written(
            harness, 5, ("t", 0), version=version, epoch=epoch, commit=True, coordinator_epoch=coordinator_epoch
        )
        return code

    assert error(3, 7) == 0
    assert error(3, 6) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert error(2, 8) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert error(3, 7) == 0
    assert error(4, 8) == 0


def test_a_topic_of_an_older_format_has_no_markers(harness: Harness) -> None:
    harness.create("old", 1, message_format_version="0.9.0")
    assert written(harness, 5, ("old", 0)) == [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_marker_is_answered_with_none(harness: Harness, version: int) -> None:
    assert harness.ask(WriteTxnMarkersRequest(markers=[]), version).markers == []


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (5, -1), (-1, -1), (-(2**63), -(2**15))])
def test_a_marker_of_no_producer_is_refused(harness: Harness, producer_id: int, epoch: int) -> None:
    assert written(harness, producer_id, ("t", 0), epoch=epoch) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert log_of(harness).log_end_offset == 0
