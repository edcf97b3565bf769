"""Dead-letter queues: unprocessable records are written to a topic configured for the group (KIP-1191)."""

from collections.abc import Callable

import pytest

from minibroker.cluster.topic_admin import create_topics, plan_topic
from minibroker.config.keys import ConfigResourceType
from minibroker.coordinators.share_partitions.dead_letter_queues import DeadLetterMetrics
from minibroker.coordinators.share_partitions.in_flight import RecordState
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker_protocol.records.batch import RecordBatch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord, Record
from tests.broker.coordinators.share_partitions.members import REJECT, RELEASE, ShareMember, begin
from tests.broker.harness import Harness, batch
from tests.broker.logs.world import pass_time, topic_of

Make = Callable[[dict[str, str]], Harness]
T0 = ("t", 0)
QUEUE = "dlq.q"
AUTO_CREATES = {"errors.deadletterqueue.auto.create.topics.enable": "true"}


def configure(harness: Harness, **configs: str) -> None:
    texts = {name.replace("_", "."): value for name, value in configs.items()}
    harness.core.configs.put_all({(ConfigResourceType.GROUP, "g"): texts})


def make_queue(harness: Harness, name: str = QUEUE, partitions: int = 1, **configs: str) -> None:
    texts = {"errors.deadletterqueue.group.enable": "true"} | {key.replace("_", "."): configs[key] for key in configs}
    create_topics(harness.core, [plan_topic(harness.core, name, partitions, configs=texts)])
    configure(harness, errors_deadletterqueue_topic_name=name)


def queued(harness: Harness, name: str = QUEUE, index: int = 0) -> list[list[Record]]:
    """Return the batches in a queue."""
    topic = harness.core.topics.get(name)
    if topic is None:
        return []
    log = topic.partitions[index].log
    return [list(batch) for batch in iter_batches(log.read(0, 1 << 20).read())]


def header(record: Record, name: str) -> bytes | None:
    return dict(record.headers)[f"__dlq.errors.{name}"]


def states(harness: Harness, index: int = 0) -> list[RecordState]:
    key = SharePartitionKey("g", topic_of(harness).id, index)
    return [records.state for records in harness.services.share_partitions.all[key].ranges]


def reading(harness: Harness, *batches: bytes | bytearray) -> ShareMember:
    """Return a member that has acquired the records of some batches."""
    begin(harness)
    for produced in batches:
        harness.produce(produced)
    member = ShareMember(harness)
    member.one(T0)
    return member


def reject(harness: Harness) -> None:
    """Reject a record."""
    assert reading(harness, batch(b"a")).acknowledged([(0, 0, REJECT)]) == 0


def test_a_rejected_record_is_written_to_the_queue_with_its_origin(configured: Make) -> None:
    harness = configured(AUTO_CREATES)
    configure(harness, errors_deadletterqueue_topic_name=QUEUE)
    reject(harness)
    ((record,),) = queued(harness)
    assert (record.key, record.value, record.timestamp) == (None, None, harness.core.clock.now_ms())
    assert record.headers == (
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )
    queue = topic_of(harness, QUEUE)
    assert queue.config.boolean("errors.deadletterqueue.group.enable")
    assert states(harness) == []


def test_a_record_that_reaches_the_delivery_limit_is_written_to_the_queue(harness: Harness) -> None:
    make_queue(harness)
    configure(harness, errors_deadletterqueue_topic_name=QUEUE, share_delivery_count_limit="2")
    begin(harness)
    harness.produce(batch(b"a"))
    member = ShareMember(harness)
    for partitions in ([T0], []):
        member.one(*partitions)
        assert member.acknowledged([(0, 0, RELEASE)]) == 0
    ((record,),) = queued(harness)
    assert header(record, "delivery.count") == b"2"
    assert header(record, "message") == b"Offset delivery count exceeded the threshold."


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
def test_keys_and_values_are_copied_on_demand_without_headers(harness: Harness, codec: CompressionCodec) -> None:
    make_queue(harness)
    configure(harness, errors_deadletterqueue_topic_name=QUEUE, errors_deadletterqueue_copy_record_enable="true")
    records = [NewRecord(b"k", b"v", 5, (("h", b"1"),)), NewRecord(None, None, 6)]
    member = reading(harness, build_batch(records, codec=codec))
    assert member.acknowledged([(0, 1, REJECT)]) == 0
    ((first, second),) = queued(harness)
    assert [(record.key, record.value) for record in (first, second)] == [(b"k", b"v"), (None, None)]
    assert "h" not in dict(first.headers)
    assert (header(first, "offset"), header(second, "offset")) == (b"0", b"1")


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
def test_batches_fit_the_limit_of_the_queue(harness: Harness, codec: CompressionCodec) -> None:
    make_queue(harness, max_message_bytes="1000")
    configure(harness, errors_deadletterqueue_topic_name=QUEUE, errors_deadletterqueue_copy_record_enable="true")
    values = [b"a" * 400, b"b" * 400, b"c" * 400]
    sent = [*values, b"too large" * 200]
    member = reading(harness, *(build_batch([NewRecord(None, value, 5)], codec=codec) for value in sent))
    assert member.acknowledged([(0, 3, REJECT)]) == 0
    batches = queued(harness)
    assert [entry.value for written_batch in batches for entry in written_batch] == [*values, None]
    assert [header(entry, "offset") for written_batch in batches for entry in written_batch] == [b"0", b"1", b"2", b"3"]
    log = topic_of(harness, QUEUE).partitions[0].log
    sizes = [
        entry.header.size_in_bytes
        for entry in iter_batches(log.read(0, 1 << 20).read())
        if isinstance(entry, RecordBatch)
    ]
    assert max(sizes) <= 1000


def test_records_are_written_to_the_queue_partition_with_the_same_index(harness: Harness) -> None:
    harness.create("u", 3)
    make_queue(harness, partitions=2)
    begin(harness, "u")
    harness.produce(batch(b"a"), topic="u", partition=1)
    harness.produce(batch(b"a"), topic="u", partition=2)
    member = ShareMember(harness)
    for index in (1, 2):
        member.fetch(("u", index))
        assert member.acknowledged([(0, 0, REJECT)], topic="u", index=index) == 0
    assert [header(queued(harness, index=index)[0][0], "partition") for index in (0, 1)] == [b"2", b"1"]


@pytest.mark.parametrize(
    ("name", "enable", "words"),
    [
        ("dlq.none", None, "there is no topic dlq.none"),
        ("dlq.closed", "false", "errors.deadletterqueue.group.enable is not true for topic dlq.closed"),
        ("other", "true", "other does not begin with dlq."),
    ],
)
def test_records_of_an_invalid_queue_are_archived_without_being_written(
    harness: Harness, caplog: pytest.LogCaptureFixture, name: str, enable: str | None, words: str
) -> None:
    if enable is not None:
        make_queue(harness, name, errors_deadletterqueue_group_enable=enable)
    configure(harness, errors_deadletterqueue_topic_name=name)
    reject(harness)
    assert words in caplog.text
    assert queued(harness, name) == []
    assert states(harness) == []


def test_a_cluster_with_share_version_1_has_no_queues(configured: Make) -> None:
    harness = configured(AUTO_CREATES)
    configure(harness, errors_deadletterqueue_topic_name=QUEUE)
    harness.core.features.finalize({"share.version": 1})
    reject(harness)
    assert harness.core.topics.get(QUEUE) is None


def test_a_queue_without_a_leader_is_retried_for_some_time(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    make_queue(harness)
    partition = topic_of(harness, QUEUE).partitions[0]
    leader, partition.leader = partition.leader, None
    reject(harness)
    assert states(harness) == [RecordState.ARCHIVING]
    pass_time(harness, 1000)
    assert states(harness) == [RecordState.ARCHIVING]
    partition.leader = leader
    pass_time(harness, 2000)
    assert states(harness) == []
    assert len(queued(harness)) == 1
    partition.leader = None
    harness.produce(batch(b"b"))
    member = ShareMember(harness, "n")
    member.one(T0)
    assert member.acknowledged([(1, 1, REJECT)]) == 0
    pass_time(harness, 14_000)
    assert states(harness) == [RecordState.ARCHIVING]
    pass_time(harness, 1000)
    assert "dlq.q-0 has no leader" in caplog.text
    assert states(harness) == []


def test_writes_to_queues_are_counted_by_group(harness: Harness) -> None:
    make_queue(harness)
    member = reading(harness, batch(b"a", b"b", b"c"))
    assert member.acknowledged([(0, 1, REJECT)]) == 0
    topic_of(harness, QUEUE).partitions[0].is_under_min_isr = True
    assert member.acknowledged([(2, 2, REJECT)]) == 0
    assert harness.services.share_partitions.dead_letters == {"g": DeadLetterMetrics(records=2, batches=2, failures=1)}


def test_the_next_leader_writes_the_remaining_records_to_the_queue(harness: Harness) -> None:
    make_queue(harness)
    partition = topic_of(harness, QUEUE).partitions[0]
    leader, partition.leader = partition.leader, None
    reject(harness)
    harness.services.share_partitions.forget(SharePartitionKey("g", topic_of(harness).id, 0))
    partition.leader = leader
    pass_time(harness, 1000)
    assert queued(harness) == []
    ShareMember(harness, "n").fetch(T0)
    assert [header(record, "message") for record in queued(harness)[0]] == [b"Offset rejected by client."]
    assert states(harness) == []
