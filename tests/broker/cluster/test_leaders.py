"""Leaders that move, nodes that stop and start again, and what clients get."""

from collections.abc import Callable

import pytest

from minibroker.cluster.cluster import ClusterError
from minibroker.cluster.node import ListenerEndpoint
from minibroker.cluster.routing.outcomes import Waiting
from minibroker.config.keys import ConfigResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import log_offsets
from minibroker_protocol.messages import metadata as api
from minibroker_protocol.messages.describe_transactions import DescribeProducersRequest, TopicRequest
from minibroker_protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from minibroker_protocol.messages.transactions import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from minibroker_protocol.records.header import read_header
from tests.broker.cluster.conftest import MakeCluster
from tests.broker.cluster.nodes import NODES, at, create, described, leader, metadata, others, partition, stop
from tests.broker.config.configs import OK, put
from tests.broker.harness import (
    ADVERTISED,
    Harness,
    Pending,
    batch,
    bytes_in,
    fetch_request,
    only_partition,
    produce_request,
)

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def list_offsets(cluster: Harness, epoch: int = -1) -> int:
    partition = log_offsets.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    request = log_offsets.ListOffsetsRequest(
        replica_id=-1, topics=[log_offsets.ListOffsetsTopic(name="t", partitions=[partition])]
    )
    return int(cluster.ask(request, 7).topics[0].partitions[0].error_code)


def delete_records(cluster: Harness) -> int:
    topic = log_offsets.DeleteRecordsTopic(
        name="t", partitions=[log_offsets.DeleteRecordsPartition(partition_index=0, offset=0)]
    )
    return int(
        cluster.ask(log_offsets.DeleteRecordsRequest(topics=[topic], timeout_ms=1), 2)
        .topics[0]
        .partitions[0]
        .error_code
    )


def write_marker(cluster: Harness) -> int:
    marker = WritableTxnMarker(
        producer_id=5,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
    )
    answer = cluster.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def describe_producers(cluster: Harness) -> int:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    return int(cluster.ask(request, 0).topics[0].partitions[0].error_code)


def produce(cluster: Harness) -> int:
    return cluster.produce(batch(b"a")).error_code


@pytest.mark.parametrize("ask", [produce, list_offsets, delete_records, write_marker])
def test_only_the_leader_serves(cluster: Harness, ask: Callable[[Harness], int]) -> None:
    assert [ask(at(cluster, node_id)) for node_id in NODES] == [0, NOT_LEADER, NOT_LEADER]
    cluster.core.cluster.move_leader("t", 0, 3)
    assert [ask(at(cluster, node_id)) for node_id in NODES] == [NOT_LEADER, NOT_LEADER, 0]


def test_a_node_without_a_replica_serves_nobody(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    create(cluster, factor=2)  # Partition 0 is on nodes 1 and 2.
    at(cluster, 3)
    assert (cluster.fetch_one().error_code, describe_producers(cluster), produce(cluster)) == (NOT_LEADER,) * 3


def test_a_producer_that_asks_the_wrong_node_learns_of_the_right_one(cluster: Harness) -> None:
    cluster.core.cluster.move_leader("t", 0, 3)
    cluster.core.cluster.node(3).endpoints["PLAINTEXT"] = ListenerEndpoint(port=9999)
    response: ProduceResponse = at(cluster, 1).ask(produce_request(batch(b"a")), 10)
    outcome: PartitionProduceResponse = response.responses[0].partition_responses[0]
    hint = outcome.current_leader
    assert (outcome.error_code, hint.leader_id, hint.leader_epoch) == (NOT_LEADER, 3, 1)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (3, ADVERTISED[0], 9999)


def test_a_consumer_that_asks_the_wrong_node_learns_of_the_right_one_since_version_16(cluster: Harness) -> None:
    cluster.core.cluster.move_leader("t", 0, 3)
    for version in (15, 16, 18):
        # Followers serve consumers, too. Only the old epoch is an error.
        response = at(cluster, 1).fetch(("t", 0, 0), current_leader_epoch=0, version=version)
        data = only_partition(response)
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        hinted = (3, 1) if version >= 16 else (-1, -1)
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == hinted
        assert [endpoint.node_id for endpoint in response.node_endpoints] == ([3] if version >= 16 else [])


def test_every_leader_has_an_epoch_of_its_own(cluster: Harness) -> None:
    cluster.produce(batch(b"a"))
    cluster.core.cluster.move_leader("t", 0, 2)
    at(cluster, 2).produce(batch(b"b"))
    cluster.core.cluster.move_leader("t", 0, 1)
    cluster.core.cluster.move_leader("t", 0, 1)  # The node is already the leader.
    at(cluster, 1).produce(batch(b"c"))
    log = partition(cluster).log
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries] == [(0, 0), (1, 1), (2, 2)]
    data = bytes_in(cluster.fetch_one(2))
    assert read_header(memoryview(data)).partition_leader_epoch == 2
    assert described(cluster)[0].leader_epoch == 2


def test_a_leader_that_was_no_replica_takes_the_place_of_the_one_before(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    create(cluster, factor=1)
    cluster.core.cluster.move_leader("t", 0, 3)
    assert (partition(cluster).replicas, partition(cluster).isr, leader(cluster)) == ((3,), (3,), 3)


@pytest.mark.parametrize(
    ("place", "to", "reason"),
    [
        (("t", 0), 9, "there is no broker 9; ids of brokers: 1, 2, 3"),
        (("t", 7), 1, "there is no partition t-7"),
        (("u", 0), 1, "there is no partition u-0"),
        (("t", 0), 2, "t-0 cannot move to node 2, which is down"),
    ],
)
def test_a_move_that_cannot_be_is_refused_with_its_reason(
    cluster: Harness, place: tuple[str, int], to: int, reason: str
) -> None:
    stop(cluster, 2)
    with pytest.raises(ClusterError) as refused:
        cluster.core.cluster.move_leader(*place, to)
    assert str(refused.value) == reason


# Waiting requests.


def test_a_fetch_that_waits_at_the_old_leader_ends_when_the_leader_moves(cluster: Harness) -> None:
    waiting = cluster.send(fetch_request(("t", 0, 0), current_leader_epoch=0), 12)
    old = cluster.send(fetch_request(("t", 0, 0)), 10)
    assert isinstance(waiting, Pending)
    assert isinstance(old, Pending)
    cluster.core.cluster.move_leader("t", 0, 2)
    cluster.run_soon()
    assert only_partition(waiting.response).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert only_partition(old.response).error_code == NOT_LEADER


def test_a_fetch_of_what_a_node_has_led_ends_when_the_node_goes(cluster: Harness) -> None:
    waiting = at(cluster, 2).send(fetch_request(("t", 0, 0), current_leader_epoch=0), 12)  # A fetch from a follower.
    assert isinstance(waiting, Pending)
    stop(cluster, 1)
    cluster.run_soon()
    assert only_partition(waiting.response).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_produce_that_waits_for_its_flush_fails_when_the_leader_moves_meanwhile(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    create(cluster, flush_messages="1")
    request = produce_request(batch(b"a"))
    outcome = cluster.accept(request, 9)
    assert isinstance(outcome, Waiting)
    pending = Pending(request, 9, outcome)
    cluster.core.cluster.move_leader("t", 0, 2)
    cluster.run_soon()
    assert pending.response.responses[0].partition_responses[0].error_code == NOT_LEADER


# Nodes that stop and start again.


def test_a_partition_whose_only_replica_is_down_is_offline(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    create(cluster, factor=1)
    cluster.produce(batch(b"a"))
    stop(cluster, 1)
    (first, *_) = described(at(cluster, 2))
    assert (first.error_code, first.leader_id, first.leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 1)
    assert first.isr_nodes == first.offline_replicas == [1]
    requested = api.TopicRequest(name="t")
    page = cluster.ask(api.DescribeTopicPartitionsRequest(topics=[requested]), 0)
    offline = page.topics[0].partitions[0]  # This API does not report it as an error.
    assert (offline.error_code, offline.leader_id, offline.offline_replicas) == (0, -1, [1])
    response = cluster.ask(produce_request(batch(b"a")), 10)
    assert response.responses[0].partition_responses[0].current_leader.leader_id == -1
    assert response.node_endpoints == []
    cluster.core.cluster.start_node(1)
    assert (leader(cluster), partition(cluster).leader_epoch) == (1, 2)
    assert bytes_in(at(cluster, 1).fetch_one())


def test_only_the_last_replica_in_sync_may_lead_again(cluster: Harness) -> None:
    stop(cluster, 1, 2, 3)
    assert (leader(cluster), partition(cluster).isr) == (-1, (3,))
    cluster.core.cluster.start_node(1)
    assert (leader(cluster), partition(cluster).isr) == (-1, (3,))
    cluster.core.cluster.start_node(3)
    assert (leader(cluster), partition(cluster).isr) == (3, (1, 3))  # Node 1 was only waiting for a leader.


def test_with_unclean_elections_any_replica_may_lead(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    create(cluster, unclean_leader_election_enable="true")
    stop(cluster, 1, 2, 3)
    cluster.core.cluster.start_node(1)
    assert (leader(cluster), partition(cluster).isr) == (1, (1,))


@pytest.mark.parametrize(("kind", "name"), [(ConfigResourceType.TOPIC, "t"), (ConfigResourceType.BROKER, "")])
def test_a_partition_without_a_leader_gets_one_when_unclean_elections_are_allowed(
    cluster: Harness, kind: ConfigResourceType, name: str
) -> None:
    stop(cluster, 1, 2, 3)
    cluster.core.cluster.start_node(1)
    assert leader(cluster) == -1
    assert put(at(cluster, 1), kind, name, "unclean.leader.election.enable", "true") == OK
    assert (leader(cluster), partition(cluster).isr) == (1, (1,))


def test_after_an_unclean_election_all_replicas_that_are_up_are_in_sync(cluster: Harness) -> None:
    stop(cluster, 1, 2, 3)
    cluster.core.cluster.start_node(1)
    cluster.core.cluster.start_node(2)
    assert leader(cluster) == -1
    cluster.core.cluster.elect_leader(partition(cluster), unclean=True)
    assert (leader(cluster), partition(cluster).isr) == (1, (1, 2))


def test_a_node_that_is_down_stays_down_and_one_that_is_up_stays_up(cluster: Harness) -> None:
    cluster.core.cluster.start_node(1)
    stop(cluster, 1)
    before = described(at(cluster, 2))
    stop(cluster, 1)
    assert described(cluster) == before
    with pytest.raises(ClusterError, match="there is no broker 4"):
        stop(cluster, 4)


def test_without_any_node_there_is_no_controller(cluster: Harness) -> None:
    stop(cluster, *NODES)
    assert cluster.core.cluster.controller is None
    cluster.core.cluster.start_node(3)
    assert metadata(at(cluster, 3)).controller_id == 3


def test_clients_of_long_ago_are_told_of_replicas_that_are_up(cluster: Harness) -> None:
    stop(cluster, 1)
    first = described(at(cluster, 2), version=0)[0]
    assert (first.error_code, first.leader_id) == (ErrorCode.REPLICA_NOT_AVAILABLE, 2)
    assert first.replica_nodes == first.isr_nodes == [2, 3]


def test_fetch_sessions_belong_to_a_node_and_go_with_it(cluster: Harness) -> None:
    session = cluster.fetch(("t", 0, 0), session_epoch=0).session_id
    assert session
    assert at(cluster, 2).fetch(session_id=session, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    stop(cluster, 1)
    cluster.core.cluster.start_node(1)
    assert at(cluster, 1).fetch(session_id=session, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# In-sync replicas.


def test_with_acks_of_all_enough_replicas_have_to_be_in_sync(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    create(cluster, min_insync_replicas="2")
    stop(cluster, 2)
    assert cluster.produce(batch(b"a")).error_code == 0
    stop(cluster, 3)
    refused = cluster.produce(batch(b"b"))
    assert (refused.error_code, refused.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert refused.log_start_offset == 0
    assert cluster.produce(batch(b"c"), acks=1).error_code == 0
    cluster.core.cluster.start_node(2)
    assert cluster.produce(batch(b"d")).base_offset == 2


def test_no_more_replicas_are_asked_for_than_there_are(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(min_insync_replicas="3")
    create(cluster, factor=2)
    assert cluster.produce(batch(b"a")).error_code == 0
    stop(cluster, 2)
    assert cluster.produce(batch(b"a")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_leaders_that_move_take_nothing_away(cluster: Harness) -> None:
    for number in range(6):
        node_id = leader(cluster)
        assert at(cluster, node_id).produce(batch(b"%d" % number)).base_offset == number
        cluster.core.cluster.move_leader("t", 0, others(node_id)[number % 2])
    assert partition(cluster).log.log_end_offset == 6
    cluster.restart()
    assert at(cluster, leader(cluster)).fetch_one().high_watermark == 6
