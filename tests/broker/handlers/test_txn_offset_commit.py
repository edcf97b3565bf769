"""TxnOffsetCommit: offsets that go with a transaction; codes compared with Kafka 3.9.1."""

from collections.abc import Callable

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.coordinators.groups.consumers import Consumers
from tests.broker.coordinators.groups.offset_requests import commit, fetch, offsets_of
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness

Make = Callable[[dict[str, str]], Harness]
VERSIONS = range(5)
T0 = ("t", 0)


@pytest.fixture
def producer(harness: Harness) -> Producer:
    """A producer whose transaction is going to commit offsets of group "g"."""
    made = Producer(harness)
    assert made.add_offsets("g") == 0
    return made


def send(producer: Producer, version: int = 4, /, **fields: object) -> int:
    """Commit offset 7 of t-0 within the transaction."""
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=None)
    request = TxnOffsetCommitRequest(
        **{
            "transactional_id": producer.transactional_id,
            "group_id": "g",
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "topics": [TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
            **fields,
        }  # type: ignore[arg-type]  # the fields are those of the request
    )
    return int(producer.broker.ask(request, version).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_count_once_the_transaction_is_committed(harness: Harness, producer: Producer, version: int) -> None:
    commit(harness, {T0: 1})
    assert send(producer, version) == 0
    assert offsets_of(harness) == {T0: 1}
    assert producer.commit() == 0
    assert offsets_of(harness) == {T0: 7}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_was_not_added_to_the_transaction_is_refused(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    refused = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert send(producer, version) == refused
    assert offsets_of(harness) == {}


def test_a_producer_that_is_none_commits_at_once_where_nothing_is_verified(configured: Make) -> None:
    harness = configured({"transaction.partition.verification.enable": "false"})
    assert send(Producer(harness, init=False)) == 0
    assert offsets_of(harness) == {T0: 7}
    harness.restart()
    assert fetch(harness, T0, stable=True)[T0] == (7, -1, "", 0)


def test_partitions_that_do_not_exist_are_unknown(producer: Producer) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata=None)
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[partition])]
    assert send(producer, topics=topics) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_member_of_the_consumer_protocol_commits_in_its_epoch(harness: Harness, producer: Producer) -> None:
    Consumers(harness).beat("a")
    assert send(producer, member_id="a", generation_id_or_member_epoch=3) == ErrorCode.ILLEGAL_GENERATION
    assert send(producer, member_id="b", generation_id_or_member_epoch=2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert send(producer) == 0  # a producer that says nothing of the consumer
    assert send(producer, member_id="a", generation_id_or_member_epoch=2) == 0
    assert producer.commit() == 0
    assert offsets_of(harness) == {T0: 7}


def test_groups_of_either_protocol_are_known_to_requests_with_topic_ids(harness: Harness) -> None:
    producer = Producer(harness)
    known = harness.core.topics.get("t")
    assert known is not None
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(topic_id=known.id, partitions=[partition])]
    member = {"member_id": "a", "generation_id_or_member_epoch": 2, "topics": topics}
    assert send(producer, 6, **member) == ErrorCode.GROUP_ID_NOT_FOUND
    Consumers(harness).beat("a")
    stale = {**member, "generation_id_or_member_epoch": 1}
    assert send(producer, 6, **stale) == ErrorCode.STALE_MEMBER_EPOCH
    assert send(producer, 6, **member) == 0
    assert producer.commit(version=5) == 0
    assert offsets_of(harness) == {T0: 7}
