"""The names of points: the same however clients divide and interleave their requests."""

from typing import Any

import pytest

from minibroker.server.faults.fault import RequestContext
from minibroker.server.requests.declarations import Target
from minibroker_chaos.points import MAX_COUNTED, Points, stable_name
from minibroker_protocol.messages import fetch, offsets, produce, transactions
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord

_ORDERS = Target("orders", 0)


def _names(points: Points, api: str, request: Any, *targets: Target, client: str = "app") -> list[str]:
    context = RequestContext(api, 0, client, 1, targets)
    return [f"{each.point.name} #{each.point.attempt}" for each in points.of(context, request)]


def _produce(*values: str, transactional_id: str | None = None) -> produce.ProduceRequest:
    batch = build_batch([NewRecord(None, value.encode(), 0) for value in values])
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            produce.TopicProduceData(
                name="orders", partition_data=[produce.PartitionProduceData(index=0, records=batch)]
            )
        ],
    )


def _fetch(offset: int) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
    return fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[fetch.FetchTopic(topic="orders", partitions=[partition])]
    )


def _commit(offset: int) -> offsets.OffsetCommitRequest:
    partition = offsets.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    topics = [offsets.OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    return offsets.OffsetCommitRequest(group_id="g", topics=topics)


def test_batches_of_any_size_meet_the_same_points() -> None:
    at_once = _names(Points(), "Produce", _produce("a", "b", "c"), _ORDERS)
    points = Points()
    one_by_one = [name for value in "abc" for name in _names(points, "Produce", _produce(value), _ORDERS)]
    assert at_once == one_by_one
    assert len(set(at_once)) == 3
    assert at_once[0].startswith("Produce of 'a' (")
    assert at_once[0].endswith(") to orders-0 by app #0")


def test_a_retry_is_the_next_attempt_at_the_same_point() -> None:
    points = Points()
    (first,) = _names(points, "Produce", _produce("a"), _ORDERS)
    (again,) = _names(points, "Produce", _produce("a"), _ORDERS)
    assert (first.removesuffix("#0"), again) == (again.removesuffix("#1"), f"{first[:-1]}1")


def test_times_and_random_ids_do_not_change_a_name() -> None:
    assert stable_name("app-3f2504e0-4f89-41d3-9a0c-0305e82c3301") == "app-*"
    assert stable_name("orders-1a2b3c4d") == "orders-*"
    assert stable_name('{"at": 1796013813.539114, "order": 17}') == '{"at": *, "order": 17}'
    assert stable_name("order-1234567") == "order-1234567"


@pytest.mark.parametrize(
    ("first", "later", "named"),
    [
        ("kafka-python-producer-1", "kafka-python-producer-6", "kafka-python-producer"),
        ("aiokafka-producer-2", "aiokafka-producer-9", "aiokafka-producer"),
        ("producer-1", "producer-15", "producer"),
        ("consumer-totals-1", "consumer-totals-15", "consumer-totals"),
        ("adminclient-1", "adminclient-2", "adminclient"),
    ],
)
def test_the_running_number_of_a_client_does_not_change_a_name(first: str, later: str, named: str) -> None:
    before, after = (_names(Points(), "Fetch", _fetch(3), _ORDERS, client=client) for client in (first, later))
    assert before == after == [f"Fetch of orders-0 by {named} at offset 3 #0"]


def test_the_number_that_a_user_gives_a_client_is_part_of_its_name() -> None:
    (name,) = _names(Points(), "Fetch", _fetch(3), _ORDERS, client="billing-2")
    assert name == "Fetch of orders-0 by billing-2 at offset 3 #0"


def test_broken_records_have_no_points() -> None:
    request = _produce("a")
    request.topic_data[0].partition_data[0].records = b"\0" * 70
    assert _names(Points(), "Produce", request, _ORDERS) == []
    request.topic_data[0].partition_data[0].records = None
    assert _names(Points(), "Produce", request, _ORDERS) == []


def test_a_fetch_meets_the_offsets_that_it_has_passed() -> None:
    points = Points()
    label = "Fetch of orders-0 by app at offset"
    assert _names(points, "Fetch", _fetch(0), _ORDERS) == [f"{label} 0 #0"]
    assert _names(points, "Fetch", _fetch(0), _ORDERS) == []
    assert _names(points, "Fetch", _fetch(2), _ORDERS) == [f"{label} 1 #0", f"{label} 2 #0"]
    assert _names(points, "Fetch", _fetch(1), _ORDERS) == []
    assert points.moved_back == "went back to an earlier offset"
    assert _names(points, "Fetch", _fetch(3), _ORDERS) == [f"{label} 2 #1", f"{label} 3 #0"]


def test_commits_pass_offsets_and_a_repeated_commit_is_an_attempt() -> None:
    points, label = Points(), "OffsetCommit of orders-0 by g at offset"
    target = _ORDERS._replace(group="g")
    assert _names(points, "OffsetCommit", _commit(5), target) == [f"{label} 5 #0"]
    assert _names(points, "OffsetCommit", _commit(5), target) == [f"{label} 5 #1"]
    assert _names(points, "OffsetCommit", _commit(7), target) == [f"{label} 6 #0", f"{label} 7 #0"]
    assert _names(points, "OffsetCommit", _commit(6), target) == []
    assert points.moved_back == "committed a lower offset"


def test_transactions_are_counted_and_a_repeated_end_belongs_to_the_same_one() -> None:
    points, target = Points(), Target(transactional_id="t")

    def end() -> list[str]:
        request = transactions.EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=0, committed=True)
        return _names(points, "EndTxn", request, target)

    assert end() == ["EndTxn by app of t, transaction 1 #0"]
    assert end() == ["EndTxn by app of t, transaction 1 #1"]
    _names(points, "Produce", _produce("a", transactional_id="t"), _ORDERS._replace(transactional_id="t"))
    assert points.transactions["t"] == 1
    assert end() == ["EndTxn by app of t, transaction 2 #0"]


def test_other_requests_are_counted_up_to_a_limit() -> None:
    points = Points()
    names = [_names(points, "Metadata", object(), _ORDERS) for _ in range(MAX_COUNTED + 2)]
    assert names[1] == ["Metadata by app of orders #1"]
    assert names[MAX_COUNTED:] == [[], []]
