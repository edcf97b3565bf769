"""OffsetForLeaderEpoch; what is expected is what Kafka's `LeaderEpochFileCache.endOffsetFor` answers."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.log_offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.harness import Harness, batch


def asked(
    harness: Harness, epoch: int, *, current: int = -1, version: int = 4, topic: str = "t", partition: int = 0
) -> tuple[int, int, int]:
    """Error code, epoch, end offset."""
    requested_partition = OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[requested_partition])]
    )
    (answer,) = harness.ask(request, version).topics
    (outcome,) = answer.partitions
    assert (answer.topic, outcome.partition) == (topic, partition)
    return outcome.error_code, outcome.leader_epoch, outcome.end_offset


@pytest.fixture
def led(harness: Harness) -> Harness:
    """A partition with one record of epoch 0, two of epoch 2, and none of epochs 1, 3 and 4, the current one."""
    harness.produce(batch(b"a"))
    cluster = harness.core.cluster
    cluster.stop_node(1)
    cluster.start_node(1)
    harness.produce(batch(b"b", b"c"))
    cluster.stop_node(1)
    cluster.start_node(1)
    return harness


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        (0, (0, 0, 1)),
        (1, (0, 0, 1)),
        (2, (0, 2, 3)),
        (3, (0, 2, 3)),
        (4, (0, 4, 3)),
        (5, (0, -1, -1)),
        (-1, (0, -1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(led: Harness, epoch: int, found: tuple[int, int, int]) -> None:
    assert asked(led, epoch) == found


def test_the_epoch_of_an_empty_log_ends_at_its_start(harness: Harness) -> None:
    assert asked(harness, 0) == (0, 0, 0)


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_served(led: Harness, version: int) -> None:
    assert asked(led, 2, version=version) == (0, 2 if version >= 1 else -1, 3)


@pytest.mark.parametrize(
    ("current", "code"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (4, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_clients_are_held_against_the_epoch_that_they_know_from_version_2_on(
    led: Harness, current: int, code: int
) -> None:
    assert asked(led, 2, current=current)[0] == code
    assert asked(led, 2, current=current, version=1)[0] == 0


@pytest.mark.parametrize(("topic", "partition"), [("t", 1), ("u", 0)])
def test_a_partition_that_does_not_exist_is_unknown(harness: Harness, topic: str, partition: int) -> None:
    assert asked(harness, 0, topic=topic, partition=partition) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
