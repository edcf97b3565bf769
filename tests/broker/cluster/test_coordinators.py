"""Groups and transactions in a cluster: their coordinators, and their state when a coordinator moves."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from minibroker.coordinators.transactions.transaction import TransactionState
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import offsets as offset_messages
from minibroker_protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from tests.broker.cluster.conftest import MakeCluster
from tests.broker.cluster.nodes import GROUP, NODES, TRANSACTION, at, coordinator, create, leader, others, stop
from tests.broker.coordinators.groups.driver import Members, answered
from tests.broker.coordinators.transactions.producer import Producer, init_producer_id
from tests.broker.harness import Harness

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def commit(cluster: Harness, offset: int = 5, **fields: Any) -> int:
    partition = offset_messages.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topics = [offset_messages.OffsetCommitRequestTopic(name="t", partitions=[partition])]
    code: int = (
        cluster.ask(offset_messages.OffsetCommitRequest(group_id="g", topics=topics, **fields), 8)
        .topics[0]
        .partitions[0]
        .error_code
    )
    return code


def fetched(cluster: Harness) -> tuple[int, int]:
    (group,) = cluster.ask(
        offset_messages.OffsetFetchRequest(groups=[offset_messages.OffsetFetchRequestGroup(group_id="g", topics=None)]),
        8,
    ).groups
    offset = group.topics[0].partitions[0].committed_offset if group.topics else -1
    return group.error_code, offset


def group_place(cluster: Harness, group_id: str = "g") -> int:
    return cluster.services.groups.store.partition_of(group_id)


def transaction_place(cluster: Harness, transactional_id: str = "mine") -> int:
    return cluster.services.transactions.store.log.partition_of(transactional_id)


def at_coordinator(cluster: Harness, key: str = "g", key_type: int = GROUP) -> Harness:
    return at(cluster, coordinator(cluster, key, key_type).node_id)


def move_group(cluster: Harness) -> int:
    """Move the coordinator of the group "g" to another node, and return its id."""
    index = group_place(cluster)
    to = others(leader(cluster, index, OFFSETS))[0]
    cluster.core.cluster.move_leader(OFFSETS, index, to)
    cluster.run_soon()
    return to


def test_groups_and_transactions_are_spread_over_the_nodes(cluster: Harness) -> None:
    for key_type in (GROUP, TRANSACTION):
        coordinators = {coordinator(cluster, f"k{number}", key_type).node_id for number in range(20)}
        assert coordinators == set(NODES)


def test_every_node_names_the_same_coordinator(cluster: Harness) -> None:
    assert len({coordinator(at(cluster, node_id), "g").node_id for node_id in NODES}) == 1


def test_without_a_leader_there_is_no_coordinator(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(offsets_topic_replication_factor="1")
    home = coordinator(cluster, "g").node_id
    stop(cluster, home)
    at(cluster, others(home)[0])
    result = coordinator(cluster, "g")
    assert (result.error_code, result.node_id, result.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    assert fetched(cluster)[0] == NOT_COORDINATOR


REQUESTS: Final[dict[str, Callable[[Harness], int]]] = {
    "JoinGroup": lambda cluster: Members(cluster).join().error_code,
    "SyncGroup": lambda cluster: Members(cluster).sync("m", 1).error_code,
    "Heartbeat": lambda cluster: Members(cluster).heartbeat("m", 1),
    "DescribeGroups": lambda cluster: Members(cluster).describe().error_code,
    "DeleteGroups": lambda cluster: int(cluster.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code),
    "OffsetDelete": lambda cluster: int(
        cluster.ask(offset_messages.OffsetDeleteRequest(group_id="g", topics=[]), 0).error_code
    ),
    "OffsetFetch": lambda cluster: fetched(cluster)[0],
    "OffsetCommit": commit,
}


@pytest.mark.parametrize("ask", REQUESTS.values(), ids=REQUESTS)
def test_only_its_coordinator_serves_a_group(cluster: Harness, ask: Callable[[Harness], int]) -> None:
    home = coordinator(cluster, "g").node_id
    assert ask(at(cluster, home)) != NOT_COORDINATOR
    assert [ask(at(cluster, node_id)) for node_id in others(home)] == [NOT_COORDINATOR] * 2


def test_each_node_lists_the_groups_that_it_coordinates(cluster: Harness) -> None:
    Members(at_coordinator(cluster)).alone()
    home = cluster.asks
    groups_by_node = {
        node_id: [group.group_id for group in at(cluster, node_id).ask(ListGroupsRequest(), 4).groups]
        for node_id in NODES
    }
    assert groups_by_node == {node_id: ["g"] if node_id == home else [] for node_id in NODES}


def test_a_group_goes_on_with_its_members_where_its_coordinator_has_moved_to(cluster: Harness) -> None:
    members = Members(at_coordinator(cluster))
    member = members.alone()
    to = move_group(cluster)
    assert members.heartbeat(member, 1) == NOT_COORDINATOR
    at(cluster, to)
    assert (members.heartbeat(member, 1), members.state, members.ids) == (0, "Stable", {member})
    assert commit(cluster, 9, member_id=member, generation_id_or_member_epoch=1) == 0


def test_offsets_are_there_where_the_coordinator_has_moved_to(cluster: Harness) -> None:
    assert commit(at_coordinator(cluster)) == 0
    assert fetched(at(cluster, move_group(cluster))) == (0, 5)


def test_members_that_wait_have_to_ask_for_the_new_coordinator(cluster: Harness) -> None:
    members = Members(at_coordinator(cluster))
    members.alone()
    waiting = members.begin_join(members.new_id())
    move_group(cluster)
    assert answered(waiting).error_code == NOT_COORDINATOR


def test_a_member_that_does_not_come_to_the_new_coordinator_is_taken_for_dead(cluster: Harness) -> None:
    members = Members(at_coordinator(cluster))
    members.alone(session_ms=10_000)
    at(cluster, move_group(cluster))
    cluster.clock.advance(10_001)
    cluster.run_soon()
    assert members.ids == set()


def test_a_coordinator_whose_node_goes_is_followed_by_another_one(cluster: Harness) -> None:
    members = Members(at_coordinator(cluster))
    member = members.alone()
    home = cluster.asks
    assert home is not None
    stop(cluster, home)
    cluster.run_soon()
    at(cluster, others(home)[0])
    to = coordinator(cluster, "g").node_id
    assert to in others(home)
    assert members.heartbeat(member, 1) == (0 if to == cluster.asks else NOT_COORDINATOR)
    assert Members(at(cluster, to)).state == "Stable"


def test_nothing_can_be_committed_while_too_few_replicas_are_in_sync(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(min_insync_replicas="2")
    create(cluster)
    home = at_coordinator(cluster).asks
    assert home is not None
    stop(cluster, *others(home))
    assert commit(at(cluster, home)) == ErrorCode.COORDINATOR_NOT_AVAILABLE


# Transactions.


class Spread:
    """A client of the whole cluster that sends each request to the right node."""

    def __init__(self, cluster: Harness) -> None:
        self._cluster = cluster

    def ask(self, request: Any, version: int) -> Any:
        if type(request).__name__ == "ProduceRequest":
            name = request.topic_data[0].name
            at(self._cluster, leader(self._cluster, request.topic_data[0].partition_data[0].index, name))
        elif type(request).__name__ == "TxnOffsetCommitRequest":
            at_coordinator(self._cluster, request.group_id)
        else:
            at_coordinator(self._cluster, "mine", TRANSACTION)
        return self._cluster.ask(request, version)


def move_transactions(cluster: Harness) -> int:
    index = transaction_place(cluster)
    to = others(leader(cluster, index, TRANSACTIONS))[0]
    cluster.core.cluster.move_leader(TRANSACTIONS, index, to)
    cluster.run_soon()
    return to


def state_of(cluster: Harness) -> TransactionState:
    store = cluster.services.transactions.store
    assert store.check_readiness("mine") == 0
    transaction = store.get("mine")
    assert transaction is not None
    return transaction.state


def _init(cluster: Harness) -> int:
    return init_producer_id(cluster).error_code


def test_groups_of_all_partitions_that_move_at_once_are_read_in_the_next_turn(cluster: Harness) -> None:
    store = cluster.services.groups.store
    store.log.ensure()
    names = {f"g{number}" for number in range(30)}
    for name in names:
        assert not store.save_group(store.get_or_create(name))
    gone = leader(cluster, group_place(cluster, "g0"), OFFSETS)
    moving = {name for name in names if leader(cluster, group_place(cluster, name), OFFSETS) == gone}
    stop(cluster, gone)
    assert {group.group_id for group in store.groups()} == names - moving
    assert store.is_loading
    cluster.run_soon()
    assert {group.group_id for group in store.groups()} == names
    assert not store.is_loading


def test_any_node_gives_ids_to_idempotent_producers(cluster: Harness) -> None:
    assert len({init_producer_id(at(cluster, node_id), None).producer_id for node_id in NODES}) == 3


def test_an_open_transaction_goes_on_where_its_coordinator_has_moved_to(cluster: Harness) -> None:
    producer = Producer(Spread(cluster))
    producer.write(b"a")
    move_transactions(cluster)
    assert state_of(cluster) is TransactionState.ONGOING
    assert producer.commit() == 0
    entry = cluster.topic().partitions[0].log.producers.active[producer.id]
    assert (entry.current_txn_first_offset, entry.coordinator_epoch) == (-1, 1)


def test_a_transaction_is_ended_once_its_partition_has_a_leader_again(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(transaction_state_log_min_isr="1")
    create(cluster, factor=1)
    producer = Producer(Spread(cluster))
    home = cluster.asks
    assert home is not None
    gone = others(home)[0]
    index = NODES.index(gone)
    producer.write(b"a", partition=index)
    stop(cluster, gone)
    cluster.run_soon()
    assert producer.commit() == 0
    assert state_of(cluster) is TransactionState.PREPARE_COMMIT
    cluster.core.cluster.start_node(gone)
    cluster.clock.advance(500)
    cluster.run_soon()
    assert state_of(cluster) is TransactionState.COMPLETE_COMMIT


def test_nothing_is_begun_while_too_few_replicas_of_the_transactions_are_in_sync(cluster: Harness) -> None:
    home = coordinator(cluster, "mine", TRANSACTION).node_id
    stop(cluster, *others(home))
    assert _init(at(cluster, home)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
