"""Fetches at the end of one partition, from the template and from the handler: two brokers send the same bytes."""

from collections.abc import Callable, Generator

import pytest

from minibroker.faults.fault import Fault
from minibroker.faults.observer import faults_of, keep_journal
from minibroker.requests.fetch.repeated import Fetched
from minibroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minibroker_protocol.records import NewRecord, build_batch
from tests.broker.harness import Harness, batch, fetch_request, frame_of, produce_request
from tests.broker.logs.world import log_of
from tests.broker.quotas.asking import set_quota
from tests.broker.requests.two_brokers import NOW, Side


def records_come(harness: Harness) -> object:
    return harness.produce(batch(b"a" * 70)).error_code


def many_records_come(harness: Harness) -> object:
    return [harness.produce(batch(b"b" * 50_000)).error_code for _ in range(3)]


def transaction_begins(harness: Harness) -> object:
    begun = build_batch([NewRecord(None, b"x", NOW)], producer_id=7, base_sequence=0, is_transactional=True)
    request = produce_request(begun)
    request.transactional_id = "x"
    (answered,) = harness.ask(request, 9).responses
    return answered.partition_responses[0].error_code


def transaction_is_aborted(harness: Harness) -> object:
    transaction_begins(harness)
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    return harness.ask(WriteTxnMarkersRequest(markers=[marker]), 1)


def leader_moves_away(harness: Harness) -> None:
    harness.core.cluster.move_leader("t", 0, 2)


def leader_moves_twice(harness: Harness) -> None:
    for node in (2, 1):
        harness.core.cluster.move_leader("t", 0, node)


def topic_goes(harness: Harness) -> object:
    return harness.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)


def quota_comes(harness: Harness) -> object:
    set_quota(harness, {"client-id": "test"}, consumer_byte_rate=1.0)
    return records_come(harness)


def fault_comes(harness: Harness) -> object:
    return faults_of(harness.services).add(Fault(api="Fetch", error="KAFKA_STORAGE_ERROR")).api, records_come(harness)


def journal_comes(harness: Harness) -> object:
    keep_journal(harness.services)
    return records_come(harness)


def segment_begins(harness: Harness) -> object:
    return log_of(harness).roll(NOW).base_offset, records_come(harness)


def limit_comes(harness: Harness) -> object:
    harness.services.fetch_max_bytes = 100
    return [records_come(harness) for _ in range(3)]


def nothing(harness: Harness) -> object:
    return harness.core.clock.now_ms()


Change = Callable[[Harness], object]
CHANGES: list[Change] = [
    records_come,
    many_records_come,
    transaction_begins,
    transaction_is_aborted,
    leader_moves_away,
    leader_moves_twice,
    topic_goes,
    quota_comes,
    fault_comes,
    journal_comes,
    segment_begins,
    limit_comes,
    nothing,
]


@pytest.fixture
def sides(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[Side], None, None]:
    config = {"transaction.partition.verification.enable": "false"}
    root = tmp_path_factory.mktemp("sides")
    made = [Side(f"{root}/{name}", config, repeats=name == "s") for name in ("s", "l")]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=2)
    for side in made:
        side.do(lambda harness: harness.ask(CreateTopicsRequest(topics=[topic]), 7))
    yield made
    for side in made:
        side.harness.close()


@pytest.mark.parametrize(("version", "committed", "least"), [(10, 0, 1), (11, 1, 1), (16, 0, 1), (16, 1, 200)])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_fetch_at_the_end_is_answered_as_the_handler_answers_it(
    sides: list[Side],
    change: Change,
    version: int,
    committed: int,
    least: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = sides[0].harness.core.topics.get("t")
    assert known is not None
    log, epoch = known.partitions[0].log, known.partitions[0].leader_epoch
    made: list[object] = []
    fill = Fetched.filled

    def counted(answer: Fetched) -> bytearray | None:
        made.append(frame := fill(answer))
        return frame

    monkeypatch.setattr(Fetched, "filled", counted)
    correlation_id = 0
    for step in (records_come, records_come, records_come, change, records_come, nothing):
        for behind, meanwhile in ((0, step), (1, nothing), (3, nothing), (-1, nothing)):
            correlation_id += 1
            request = fetch_request(
                ("t", 0, log.log_end_offset - behind),
                min_bytes=least,
                isolation_level=committed,
                current_leader_epoch=epoch if committed else -1,
            )
            if version >= 13:
                request.topics[0].topic_id = known.id
            frame = frame_of(request, version, correlation_id)
            received = [side.send_waiting(frame, meanwhile) for side in sides]
            assert received[0] == received[1]
    assert made or least > 1
