"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn and WriteTxnMarkers.

Error codes of TxnOffsetCommit were compared with Kafka 3.9.1. `tests.broker.coordinators.transactions.test_epochs`
tests version 5 of EndTxn.
"""

import os
from typing import Any, Final

import pytest

from minibroker.coordinators.transactions.transaction import TransactionState
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.coordinators.groups.consumers import Consumers
from tests.broker.coordinators.groups.offset_requests import fetch, offsets_of
from tests.broker.coordinators.transactions.producer import Producer, markers_in, read_committed
from tests.broker.harness import Configured, Harness
from tests.broker.logs.world import log_of

_TWO_PHASE: Final = "transaction.two.phase.commit.enable"


def given(
    harness: Harness,
    *,
    version: int = 5,
    transactional_id: str | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    response: InitProducerIdResponse = harness.ask(request, version)
    return response


@pytest.mark.parametrize("version", range(6))
def test_every_version_hands_out_an_id_in_epoch_0(harness: Harness, version: int) -> None:
    response = given(harness, version=version)
    assert (response.error_code, response.producer_epoch, response.throttle_time_ms) == (0, 0, 0)
    assert response.producer_id >= 0


def test_no_id_is_handed_out_twice_also_over_restarts(harness: Harness) -> None:
    ids: list[int] = []
    for _ in range(3):
        ids += [given(harness).producer_id for _ in range(1500)]
        harness.restart()
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)


def test_a_crash_hands_out_no_id_twice(harness: Harness) -> None:
    before = given(harness).producer_id
    harness.crash()
    assert given(harness).producer_id > before


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_an_id_without_an_epoch_and_the_reverse_are_refused(harness: Harness, half: dict[str, int]) -> None:
    response = given(harness, **half)  # type: ignore[arg-type]  # both are integers
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_that_names_its_epoch_gets_the_next_one_and_may_ask_twice(harness: Harness, version: int) -> None:
    first = given(harness, transactional_id="mine")
    fields = {"version": version, "transactional_id": "mine", "producer_id": first.producer_id, "producer_epoch": 0}
    answers = [given(harness, **fields) for _ in range(2)]  # type: ignore[arg-type]  # as they are declared
    assert [(answer.error_code, answer.producer_id, answer.producer_epoch) for answer in answers] == [
        (0, first.producer_id, 1)
    ] * 2


@pytest.mark.parametrize("transactional_id", [None, "mine"])
def test_when_ids_cannot_be_saved_none_is_handed_out(harness: Harness, transactional_id: str | None) -> None:
    os.mkdir(f"{harness.data_dir}/minibroker-topics.json.tmp")
    response = given(harness, transactional_id=transactional_id)
    assert (response.error_code, response.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    os.rmdir(f"{harness.data_dir}/minibroker-topics.json.tmp")
    assert given(harness, transactional_id=transactional_id).error_code == 0


@pytest.mark.parametrize(
    ("config", "fields", "code"),
    [
        ({}, {}, ErrorCode.NONE),
        ({}, {"enable2_pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({_TWO_PHASE: "true"}, {"enable2_pc": True, "transaction_timeout_ms": 0}, ErrorCode.NONE),
        ({_TWO_PHASE: "true"}, {"keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
        ({}, {"enable2_pc": True, "transactional_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_transaction_of_version_6_may_be_part_of_another_one(
    config: dict[str, str], fields: dict[str, Any], code: ErrorCode, configured: Configured
) -> None:
    harness = configured({**config, "unstable.api.versions.enable": "true"})
    fields = {"transactional_id": "t", "transaction_timeout_ms": 1000, **fields}
    response = harness.ask(InitProducerIdRequest(**fields), 6)
    assert (response.error_code, response.producer_epoch) == (code, -1 if code else 0)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (-1, -1)


def test_a_transaction_that_is_part_of_another_one_never_ends_by_itself(configured: Configured) -> None:
    harness = configured({_TWO_PHASE: "true", "unstable.api.versions.enable": "true"})
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000, enable2_pc=True)
    producer = harness.ask(request, 6)
    ids = producer.producer_id, producer.producer_epoch
    assert harness.services.transactions.add_partitions("t", *ids, [("a", 0)]) == 0
    harness.clock.advance(10**7)
    harness.run_soon()
    transaction = harness.services.transactions.store.get("t")
    assert transaction is not None
    assert transaction.state is TransactionState.ONGOING


T0 = ("t", 0)


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_clients_opens_a_transaction(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    assert producer.add(T0, version=version) == [0]
    assert producer.add(T0, version=version) == [0]
    assert producer.send(b"x").error_code == 0


@pytest.mark.parametrize("version", range(4))
def test_a_client_may_not_name_an_internal_topic(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    assert producer.add(("__transaction_state", 0), version=version) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def batched(producer: Producer, *, verify_only: bool, partition: int = 0) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[partition])],
    )


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_adds_for_several_transactions_and_asks_for_others(harness: Harness, version: int) -> None:
    adding, asking, lost = Producer(harness, "adding"), Producer(harness, "asking"), Producer(harness, "lost")
    lost.id += 1
    request = AddPartitionsToTxnRequest(
        transactions=[
            batched(adding, verify_only=False),
            batched(asking, verify_only=True),
            batched(lost, verify_only=True),
            batched(adding, verify_only=True, partition=9),
        ]
    )
    response = harness.ask(request, version)
    outcomes = [
        (result.transactional_id, result.topic_results[0].results_by_partition[0].partition_error_code)
        for result in response.results_by_transaction
    ]
    assert response.error_code == 0
    assert outcomes == [
        ("adding", 0),
        ("asking", ErrorCode.TRANSACTION_ABORTABLE),
        ("lost", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("adding", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    again = harness.ask(AddPartitionsToTxnRequest(transactions=[batched(adding, verify_only=True)]), version)
    assert again.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code == 0


@pytest.mark.parametrize("version", range(5))
def test_every_version_adds_the_groups_partition(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    assert producer.add_offsets("g", version=version) == 0
    transaction = harness.services.transactions.store.get("mine")
    assert transaction is not None
    assert transaction.partitions == {("__consumer_offsets", harness.services.groups.store.partition_of("g"))}
    assert producer.commit_offset("g", 1) == 0
    assert producer.commit() == 0


@pytest.fixture
def producer(harness: Harness) -> Producer:
    """A producer whose transaction is about to commit offsets of group "g"."""
    writer = Producer(harness)
    assert writer.add_offsets("g") == 0
    return writer


def send(producer: Producer, version: int = 4, /, **fields: object) -> int:
    """Commit offset 7 of t-0 in the transaction, and return the error code."""
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


@pytest.mark.parametrize("version", range(5))
def test_a_group_that_was_not_added_to_the_transaction_is_refused(harness: Harness, version: int) -> None:
    producer = Producer(harness)
    refused = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert send(producer, version) == refused
    assert offsets_of(harness) == {}


def test_a_producer_that_is_none_commits_at_once_where_nothing_is_verified(configured: Configured) -> None:
    harness = configured({"transaction.partition.verification.enable": "false"})
    assert send(Producer(harness, init=False)) == 0
    assert offsets_of(harness) == {T0: 7}
    harness.restart()
    assert fetch(harness, T0, stable=True)[T0] == (7, -1, "", 0)


def test_a_member_of_the_consumer_protocol_commits_in_its_epoch(harness: Harness, producer: Producer) -> None:
    Consumers(harness).beat("a")
    assert send(producer, member_id="a", generation_id_or_member_epoch=3) == ErrorCode.ILLEGAL_GENERATION
    assert send(producer, member_id="b", generation_id_or_member_epoch=2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert send(producer) == 0  # A producer can leave out the consumer.
    assert send(producer, member_id="a", generation_id_or_member_epoch=2) == 0
    assert producer.commit() == 0
    assert offsets_of(harness) == {T0: 7}


def test_groups_of_either_protocol_are_known_to_requests_with_topic_ids(harness: Harness) -> None:
    producer = Producer(harness)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(topic_id=harness.topic().id, partitions=[partition])]
    member = {"member_id": "a", "generation_id_or_member_epoch": 2, "topics": topics}
    assert send(producer, 6, **member) == ErrorCode.GROUP_ID_NOT_FOUND
    Consumers(harness).beat("a")
    stale = {**member, "generation_id_or_member_epoch": 1}
    assert send(producer, 6, **stale) == ErrorCode.STALE_MEMBER_EPOCH
    assert send(producer, 6, **member) == 0
    assert producer.commit(version=5) == 0
    assert offsets_of(harness) == {T0: 7}


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("commit", [True, False])
def test_every_version_ends_a_transaction(harness: Harness, version: int, commit: bool) -> None:  # noqa: FBT001 - a parameter
    producer = Producer(harness)
    producer.write(b"x")
    assert producer.end(commit=commit, version=version) == 0
    assert read_committed(harness) == ([b"x"] if commit else [])
    assert producer.end(commit=commit, version=version) == 0
    assert producer.end(commit=not commit, version=version) == ErrorCode.INVALID_TXN_STATE


def test_only_the_producer_itself_ends_its_transaction(harness: Harness) -> None:
    producer = Producer(harness)
    producer.write(b"x")
    for transactional_id, producer_id, code in (
        ("", producer.id, ErrorCode.INVALID_REQUEST),
        ("unknown", producer.id, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("mine", producer.id + 1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ):
        other = Producer(harness, transactional_id, init=False)
        other.id, other.epoch = producer_id, 0
        assert other.commit() == code
    assert producer.commit() == 0


def written(
    harness: Harness,
    producer_id: int,
    *places: tuple[str, int],
    version: int = 1,
    epoch: int = 0,
    commit: bool = False,
    coordinator_epoch: int = 0,
) -> list[int]:
    """Return the error code of each partition."""
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


@pytest.mark.parametrize("version", range(3))
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


def test_a_topic_of_an_older_format_has_no_markers(harness: Harness) -> None:
    harness.create("old", 1, message_format_version="0.9.0")
    assert written(harness, 5, ("old", 0)) == [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (5, -1), (-1, -1), (-(2**63), -(2**15))])
def test_a_marker_of_no_producer_is_refused(harness: Harness, producer_id: int, epoch: int) -> None:
    assert written(harness, producer_id, ("t", 0), epoch=epoch) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert log_of(harness).log_end_offset == 0
