"""Fetches at the end of one partition, from the template and from the handler: two brokers send the same bytes."""

from collections.abc import Callable, Generator
from typing import Final

import pytest

from minibroker.cluster.fetch_sessions import FetchSession
from minibroker.faults.fault import Fault
from minibroker.faults.observer import faults_of, keep_journal
from minibroker.requests.fetch.repeated import Fetched
from minibroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minibroker_protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
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

UNKNOWN: Final = FetchTopic(
    topic="u", topic_id=b"u" * 16, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
)


def sessions_of(harness: Harness) -> list[FetchSession]:
    return list(harness.core.cluster.nodes[1].fetch_sessions)


def known_by_sessions(harness: Harness) -> object:
    return [
        (each.id, each.epoch, [(key, entry.high_watermark, entry.log_start_offset) for key, entry in known.items()])
        for each in sessions_of(harness)
        for known in [each.partitions]
    ]


def listeners_of(harness: Harness) -> int:
    topic = harness.core.topics.get("t")
    return 0 if topic is None else len(topic.partitions[0].log._listeners)


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


def session_is_closed(harness: Harness) -> object:
    for session in sessions_of(harness):
        request = fetch_request(("t", 0, 0), session_id=session.id, session_epoch=-1, max_wait_ms=0)
        assert harness.ask(request, 11).responses
    return records_come(harness)


def session_gets_another_partition(harness: Harness) -> object:
    for session in sessions_of(harness):
        session.add(UNKNOWN, UNKNOWN.partitions, harness.core.topics)
    return records_come(harness)


def session_loses_its_partition(harness: Harness) -> object:
    for session in sessions_of(harness):
        for named, index in tuple(session.partitions):
            lost = ForgottenTopic(topic=str(named), partitions=[index])
            if isinstance(named, bytes):
                lost.topic_id = named
            session.drop([lost], None if session.names is None else harness.core.topics)
    return records_come(harness)


def another_goes_on_with_the_session(harness: Harness) -> object:
    answered: list[object] = []
    for topics in ([UNKNOWN], []):
        for session in sessions_of(harness):
            request = fetch_request(session_id=session.id, session_epoch=session.epoch, max_wait_ms=0)
            request.topics = topics
            response = harness.ask(request, 11 if session.names is None else 16)
            answered += [response.error_code, len(response.responses)]
    return answered, records_come(harness)


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
    session_is_closed,
    session_gets_another_partition,
    session_loses_its_partition,
    another_goes_on_with_the_session,
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


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize(
    ("version", "committed", "least", "wait"),
    [(10, 0, 1, 500), (11, 1, 1, 500), (16, 0, 1, 500), (16, 1, 200, 500), (12, 0, 1, 0)],
)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_fetch_at_the_end_is_answered_as_the_handler_answers_it(
    sides: list[Side],
    change: Change,
    version: int,
    committed: int,
    least: int,
    wait: int,
    in_session: bool,  # noqa: FBT001 - of `parametrize`
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
    session_id, session_epoch = 0, 0 if in_session else -1

    def asked(offset: int) -> bytes:
        request = fetch_request(
            ("t", 0, offset),
            max_wait_ms=wait,
            min_bytes=least,
            isolation_level=committed,
            current_leader_epoch=epoch if committed else -1,
            session_id=session_id,
            session_epoch=session_epoch,
        )
        if version >= 13:
            request.topics[0].topic_id = known.id
        return frame_of(request, version, correlation_id)

    if in_session:
        opened = [side.send_waiting(asked(0), nothing) for side in sides]
        assert opened[0] == opened[1]
        (session_id,) = (session.id for session in sessions_of(sides[0].harness))
    for step in (records_come, records_come, records_come, change, records_come, nothing):
        for behind, meanwhile in ((0, step), (0, nothing), (1, nothing), (3, nothing), (-1, nothing)):
            correlation_id += 1
            session_epoch += in_session
            frame = asked(log.log_end_offset - behind)
            received = [side.send_waiting(frame, meanwhile) for side in sides]
            assert received[0] == received[1]
            assert known_by_sessions(sides[0].harness) == known_by_sessions(sides[1].harness)
    assert made or least > 1
    assert listeners_of(sides[0].harness) == listeners_of(sides[1].harness)
