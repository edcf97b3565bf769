"""Faults and the journal use names, even if requests identify topics by id."""

from typing import Any

import pytest

from minibroker.server.faults.fault import Fault
from minibroker.server.inspection.journal import Entry
from minibroker.server.inspection.recording import recording_of
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.faults.tapped import Tapped
from tests.broker.harness import batch

CODE = ErrorCode.NOT_ENOUGH_REPLICAS
NOBODYS = b"nobody has that."


def produce(ids: list[bytes]) -> ProduceRequest:
    """Return a request that produces to partition 0 of each topic."""
    data = [PartitionProduceData(index=0, records=batch(b"x")) for _ in ids]
    topics = [
        TopicProduceData(topic_id=topic_id, partition_data=[partition])
        for topic_id, partition in zip(ids, data, strict=True)
    ]
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)


def fetch(ids: list[bytes]) -> FetchRequest:
    """Return a request that fetches from partition 0 of each topic."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic_id=topic_id, partitions=[partition]) for topic_id in ids]
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)


def offset_commit(ids: list[bytes]) -> OffsetCommitRequest:
    """Return a request that commits an offset for partition 0 of each topic."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition]) for topic_id in ids]
    return OffsetCommitRequest(group_id="g", topics=topics)


def offset_fetch(ids: list[bytes]) -> OffsetFetchRequest:
    """Return a request for the committed offset of partition 0 of each topic."""
    topics = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]) for topic_id in ids]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])


def txn_offset_commit(ids: list[bytes]) -> TxnOffsetCommitRequest:
    """Return a request that commits an offset for partition 0 of each topic in a transaction."""
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition]) for topic_id in ids]
    return TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=1, producer_epoch=0, topics=topics)


def codes_of(response: Any) -> dict[bytes, int]:
    """Return the error code of partition 0 by topic id."""
    topics = getattr(response, "responses", None) or getattr(response, "topics", None) or response.groups[0].topics
    return {
        topic.topic_id: partition.error_code
        for topic in topics
        for partition in (getattr(topic, "partitions", None) or topic.partition_responses)
    }


every_api = pytest.mark.parametrize(
    ("api", "version", "make"),
    [
        ("Produce", 13, produce),
        ("Fetch", 13, fetch),
        ("Fetch", 18, fetch),
        ("OffsetCommit", 10, offset_commit),
        ("OffsetFetch", 10, offset_fetch),
        ("TxnOffsetCommit", 6, txn_offset_commit),
    ],
)


@every_api
def test_a_fault_about_a_topic_hits_it_by_its_id_and_leaves_the_others(
    tapped: Tapped, api: str, version: int, make: Any
) -> None:
    tapped.create("u")
    ids = {name: tapped.topic(name).id for name in ("t", "u")}
    fault = Fault(api=api, topic="t", partition=0, error=CODE)
    with tapped.faults.installed(fault):
        codes = codes_of(tapped.ask(make([ids["t"], ids["u"], NOBODYS]), version))
    assert codes.keys() == {*ids.values(), NOBODYS}
    assert codes[ids["t"]] == CODE
    assert codes[ids["u"]] == (ErrorCode.INVALID_PRODUCER_ID_MAPPING if api == "TxnOffsetCommit" else 0)
    assert codes[NOBODYS] == ErrorCode.UNKNOWN_TOPIC_ID


@every_api
def test_the_journal_tells_the_names_of_topics_that_go_by_ids(
    tapped: Tapped, api: str, version: int, make: Any
) -> None:
    journal = recording_of(tapped.services).keep_journal()
    tapped.ask(make([tapped.topic().id, NOBODYS]), version)
    (entry,) = journal.entries(api=api)
    assert isinstance(entry, Entry)
    assert entry.topics == {"t"}
