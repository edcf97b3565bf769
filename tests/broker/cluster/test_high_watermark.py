"""A high watermark that stands still, and a failover that loses what is above it."""

from typing import Any, cast

import pytest

from minibroker.cluster.cluster import ClusterError
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import log_offsets
from minibroker_protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from minibroker_protocol.messages.produce import PartitionProduceResponse
from minibroker_storage.log import Log
from tests.broker.cluster.conftest import MakeCluster
from tests.broker.cluster.nodes import GROUP, TRANSACTION, at, coordinator, create, described, partition
from tests.broker.coordinators.transactions.producer import Producer, committed_values
from tests.broker.harness import Harness, Pending, batch, bytes_in, fetch_request, produce_request, values_in


def hold(cluster: Harness, topic: str = "t") -> Log:
    cluster.core.writes.commit()
    log = partition(cluster, topic=topic).log
    log.hold()
    return log


def send(cluster: Harness, *values: bytes, version: int = 10, **fields: Any) -> Pending:
    pending = cluster.send(produce_request(batch(*values, **fields)), version)
    assert isinstance(pending, Pending)
    return pending


def outcome(pending: Pending) -> PartitionProduceResponse:
    answered: PartitionProduceResponse = pending.response.responses[0].partition_responses[0]
    return answered


def read(cluster: Harness, offset: int = 0, **fields: Any) -> list[bytes | None]:
    data = cluster.fetch_one(offset, **fields)
    assert data.error_code == 0
    return [value for _, value in values_in(bytes_in(data))]


def look_up(cluster: Harness, timestamp: int = -1, version: int = 7, isolation: int = 0) -> tuple[int, int]:
    part = log_offsets.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    topic = log_offsets.ListOffsetsTopic(name="t", partitions=[part])
    request = log_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
    found = cluster.ask(request, version).topics[0].partitions[0]
    return found.error_code, found.offset


def end_of_epoch(cluster: Harness, epoch: int) -> tuple[int, int]:
    part = log_offsets.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    topic = log_offsets.OffsetForLeaderTopic(topic="t", partitions=[part])
    request = log_offsets.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
    found = cluster.ask(request, 4).topics[0].partitions[0]
    return found.leader_epoch, found.end_offset


def fetch_offset(cluster: Harness) -> tuple[int, int]:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    answer = cluster.ask(OffsetFetchRequest(groups=[group], require_stable=True), 8).groups[0]
    return answer.error_code or answer.topics[0].partitions[0].error_code, (
        answer.topics[0].partitions[0].committed_offset
    )


def fail_over(cluster: Harness, to: int, cut: int) -> None:
    cluster.core.writes.commit()
    cluster.core.cluster.fail_over("t", 0, to, cut, cluster.clock.now_ms())
    cluster.run_soon()


def test_records_above_the_high_watermark_are_stored_and_not_shown(cluster: Harness) -> None:
    cluster.produce(batch(b"a"))
    log = hold(cluster)
    assert cluster.produce(batch(b"b", timestamp=1_700_000_001_000), acks=1).base_offset == 1
    assert (log.high_watermark, log.log_end_offset) == (1, 2)
    assert (read(cluster), read(cluster, 1), read(cluster, 2)) == ([b"a"], [], [])
    assert look_up(cluster) == look_up(cluster, isolation=1) == (0, 1)
    assert look_up(cluster, timestamp=1_700_000_000_500) == (0, -1)
    assert cluster.fetch_one(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    log.release()
    assert (read(cluster), look_up(cluster), look_up(cluster, 1_700_000_000_500)) == ([b"a", b"b"], (0, 2), (0, 1))


def test_a_producer_with_acks_all_waits_for_the_high_watermark(cluster: Harness) -> None:
    log = hold(cluster)
    pending = send(cluster, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    repeated = send(cluster, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    cluster.produce(batch(b"b"), acks=1)
    assert not pending.is_answered
    assert not repeated.is_answered
    log.release()
    cluster.run_soon()
    assert [(outcome(each).error_code, outcome(each).base_offset) for each in (pending, repeated)] == [(0, 0)] * 2
    assert read(cluster) == [b"a", b"b"]


def test_a_partition_that_is_replicated_before_the_others_of_a_request_forgets_it(cluster: Harness) -> None:
    cluster.core.cluster.move_leader("t", 1, 1)
    logs = [partition(cluster, index).log for index in range(2)]
    for log in logs:
        log.hold()
    request = produce_request(batch(b"a"))
    request.topic_data[0].partition_data += produce_request(batch(b"b"), partition=1).topic_data[0].partition_data
    pending = cluster.send(request, 10)
    for log in logs:
        assert not pending.is_answered
        log.release()
        assert not log._listeners  # pyright: ignore[reportPrivateUsage] - what else remembers the request is unseen
        cluster.run_soon()
    assert [answer.error_code for answer in pending.response.responses[0].partition_responses] == [0, 0]


def test_a_repeated_batch_below_the_high_watermark_is_answered(cluster: Harness) -> None:
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    cluster.produce(batch(b"a", **fields))
    hold(cluster)
    assert cluster.produce(batch(b"a", **fields)).base_offset == 0


def test_a_producer_that_waits_too_long_gets_an_error_and_its_record_stays(cluster: Harness) -> None:
    log = hold(cluster)
    pending = send(cluster, b"a")
    cluster.clock.advance(999)
    cluster.run_soon()
    assert not pending.is_answered
    cluster.clock.advance(1)
    cluster.run_soon()
    assert outcome(pending).error_code == ErrorCode.REQUEST_TIMED_OUT
    log.release()
    assert read(cluster) == [b"a"]


def test_a_producer_that_waits_hears_of_another_leader(cluster: Harness) -> None:
    log = hold(cluster)
    pending, gone = send(cluster, b"a"), send(cluster, b"b")
    gone.cancel()
    cluster.core.cluster.move_leader("t", 0, 2)
    cluster.run_soon()
    assert outcome(pending).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert outcome(pending).current_leader.leader_id == 2
    assert not gone.is_answered
    log.release()
    cluster.run_soon()
    assert read(at(cluster, 2)) == [b"a", b"b"]


def test_nothing_above_the_high_watermark_is_deleted(cluster: Harness) -> None:
    cluster.produce(batch(b"a"))
    log = hold(cluster)
    cluster.produce(batch(b"b"), acks=1)
    partition_ = log_offsets.DeleteRecordsPartition(partition_index=0, offset=2)
    topic = log_offsets.DeleteRecordsTopic(name="t", partitions=[partition_])
    answer = cluster.ask(log_offsets.DeleteRecordsRequest(topics=[topic], timeout_ms=1), 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    far_ms = cluster.clock.now_ms() + 10**12
    assert log.delete_old_segments(far_ms) == 0
    log.release()
    assert log.delete_old_segments(far_ms) == 1


@pytest.fixture
def producer(make_cluster: MakeCluster) -> Producer:
    """Return a transactional producer of brokers of which the first leads and coordinates everything."""
    cluster = make_cluster(transaction_state_log_num_partitions="1", offsets_topic_num_partitions="1")
    create(cluster)
    coordinator(cluster, "mine", TRANSACTION)
    coordinator(cluster, "g", GROUP)
    for name in ("__transaction_state", "__consumer_offsets"):
        cluster.core.cluster.move_leader(name, 0, 1)
    cluster.run_soon()
    return Producer(cluster)


def test_a_transaction_is_open_for_readers_until_its_marker_is_replicated(producer: Producer) -> None:
    cluster = cast("Harness", producer.broker)
    producer.write(b"a")
    log = hold(cluster)
    assert producer.commit() == 0
    assert (log.last_stable_offset, log.high_watermark) == (0, 1)
    assert (read(cluster), read(cluster, isolation_level=1)) == ([b"a"], [])
    assert producer.add(("t", 1)) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    log.release()
    cluster.services.transactions.retry_markers()
    assert committed_values(cluster.fetch_one(isolation_level=1)) == [b"a"]
    assert producer.add(("t", 1)) == [0]


def test_the_offsets_of_a_transaction_are_unstable_until_its_marker_is_replicated(producer: Producer) -> None:
    cluster = cast("Harness", producer.broker)
    assert producer.add_offsets("g") == producer.commit_offset("g", 7) == 0
    log = hold(cluster, "__consumer_offsets")
    assert producer.commit() == 0
    assert fetch_offset(cluster) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    log.release()
    cluster.services.transactions.retry_markers()
    assert fetch_offset(cluster) == (0, 7)


def test_a_failover_loses_only_what_is_above_the_high_watermark(cluster: Harness) -> None:
    cluster.produce(batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0))
    log = hold(cluster)
    cluster.produce(batch(b"b"), acks=1)
    lost = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 1}
    pending = send(cluster, b"c", **lost)
    with pytest.raises(ClusterError, match="keeps its records below 1"):
        fail_over(cluster, 2, 0)
    with pytest.raises(ClusterError, match="no in-sync follower"):
        fail_over(cluster, 1, 2)
    fail_over(cluster, 2, 2)
    assert outcome(pending).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (log.high_watermark, log.log_end_offset, partition(cluster).leader_epoch) == (1, 2, 1)
    assert end_of_epoch(at(cluster, 2), 0) == (0, 2)
    repeated = send(at(cluster, 2), b"c", **lost)  # The producer is known, and its lost batch is not.
    log.release()
    cluster.run_soon()
    assert (outcome(repeated).error_code, outcome(repeated).base_offset) == (0, 2)
    assert read(cluster) == [b"a", b"b", b"c"]
    assert (end_of_epoch(cluster, 0), end_of_epoch(cluster, 1)) == ((0, 2), (1, 3))
    with pytest.raises(ClusterError, match="keeps its records below 3"):
        fail_over(cluster, 3, 2)


def test_a_transaction_that_is_lost_is_not_open_any_more(producer: Producer) -> None:
    cluster = cast("Harness", producer.broker)
    assert producer.add(("t", 0)) == [0]
    log = hold(cluster)
    request = produce_request(producer.batch(b"a"), acks=1)
    request.transactional_id = producer.transactional_id
    assert cluster.ask(request, 9).responses[0].partition_responses[0].error_code == 0
    assert log.producers.active[producer.id].current_txn_first_offset == 0
    fail_over(cluster, 2, 0)
    log.release()
    assert producer.id not in log.producers.active
    assert producer.abort() == 0
    assert (log.last_stable_offset, log.log_end_offset) == (1, 1)


def test_a_new_leader_does_not_know_the_end_at_first(cluster: Harness) -> None:
    cluster.produce(batch(b"a"))
    log = hold(cluster)
    cluster.produce(batch(b"b", timestamp=1_700_000_001_000), acks=1)
    assert look_up(cluster) == (0, 1)
    fail_over(cluster, 2, 2)
    at(cluster, 2)
    assert look_up(cluster) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert look_up(cluster, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert look_up(cluster, timestamp=1_700_000_000_500) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert look_up(cluster, timestamp=-2) == (0, 0)
    assert (read(cluster), read(cluster, 1)) == ([b"a"], [])
    cluster.produce(batch(b"c"), acks=1)
    assert look_up(cluster) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    log.release()
    assert look_up(cluster) == (0, 3)


def test_a_failover_ends_the_fetch_sessions_of_the_old_leader(cluster: Harness) -> None:
    session_id = cluster.fetch(("t", 0, 0), session_epoch=0).session_id
    assert session_id
    fail_over(cluster, 2, 0)
    request = fetch_request(session_id=session_id, session_epoch=1)
    assert at(cluster, 1).ask(request, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_replicas_out_of_sync_refuse_only_acks_all(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    create(cluster, min_insync_replicas="2")
    log = hold(cluster)
    nodes = cluster.core.cluster
    nodes.shrink_isr(partition(cluster))
    assert described(cluster)[0].isr_nodes == [1]
    assert cluster.produce(batch(b"a")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster.produce(batch(b"b"), acks=1).error_code == 0
    assert read(cluster) == []
    nodes.restore_isr(partition(cluster))
    log.release()
    assert described(cluster)[0].isr_nodes == [1, 2, 3]
    assert read(cluster) == [b"b"]
