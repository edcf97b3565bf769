"""Stage 6: Fetch, long polling, limits and sessions."""

import time
from typing import Any, Final

from minibroker_grade.check import SkippedError, Stage
from minibroker_grade.records import (
    FETCHED,
    RECORDS,
    TIME,
    batches_in,
    check_values,
    fetch,
    fetch_request,
    new_records,
    records_in,
    send,
    topic_with,
    values_of,
    write,
)
from minibroker_grade.subject import Subject
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from minibroker_protocol.records.builder import build_batch

STAGE: Final = Stage("fetch", "6 Fetch", "Consumers read batches, wait for new ones, and use fetch sessions.")
_SOURCE: Final = "ReplicaManager.fetchMessages"
_SESSIONS: Final = "KIP-227, FetchSessionManager"
_ERROR: Final = f"{FETCHED}.error_code"
_LONG_MS: Final = 30000
_SHORT_MS: Final = 400
_FIRST_SESSION_VERSION: Final = 7
_MAX_BYTES: Final = 2500
"""The limit in bytes. Two batches of 1000 bytes fit, three do not."""


def _fetch_in_session(b: Subject, topics: list[FetchTopic], session_id: int, epoch: int, **more: Any) -> Any:
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics, **more
    )
    version = b.newest(FetchRequest)
    if version < _FIRST_SESSION_VERSION:
        raise SkippedError(f"the broker serves Fetch up to {version}, and sessions begin with 7")
    return b.ask(request, version)


def _make_topics(topic: str, *partitions: int) -> list[FetchTopic]:
    requested = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in partitions]
    return [FetchTopic(topic=topic, partitions=requested)]


def _list_partitions(answer: Any) -> list[int]:
    return sorted(partition.partition_index for topic in answer.responses for partition in topic.partitions)


def _check_is_early(b: Subject, answer: Any, start: float, expected: str) -> None:
    """Check that an answer came long before `_LONG_MS` had passed since `start`."""
    waited = time.monotonic() - start
    b.holds(waited < _LONG_MS / 1000 * 0.9, expected, answer, actual=f"it after {waited:.1f} s")


@STAGE.check(_SOURCE, look="Return the log's batches from the offset on, unchanged.")
def what_was_produced_is_fetched(b: Subject) -> None:
    """Fetch returns the batches of the log with the offsets assigned by Produce."""
    topic = topic_with(b, "a", "b")
    write(b, topic, "c")
    answer = fetch(b, topic)
    b.same(answer, _ERROR, 0)
    records = records_in(answer)
    b.equal([record.offset for record in records], [0, 1, 2], "the offsets", answer, RECORDS)
    b.equal(values_of(records), ["a", "b", "c"], "the values", answer, RECORDS)


@STAGE.check(
    "DefaultRecordBatch.ensureValid", look="Change only the base offset and leader epoch: the checksum omits them."
)
def checksums_of_batches_fit(b: Subject) -> None:
    """Consumers verify the CRC-32C of each batch."""
    answer = fetch(b, topic_with(b, "a", "b"))
    for batch in batches_in(answer):
        b.attempt(batch.check_crc, "a checksum that fits", answer, RECORDS)


@STAGE.check("KIP-320, LogValidator.validateMessagesAndAssignOffsets", look="Write the leader epoch into each batch.")
def batches_have_the_leaders_epoch(b: Subject) -> None:
    """The producer sends leader epoch -1, and the broker writes its current leader epoch into the batch."""
    answer = fetch(b, topic_with(b, "a"))
    epochs = [batch.header.partition_leader_epoch for batch in batches_in(answer)]
    b.equal(epochs, [0], "the epochs", answer, f"{FETCHED}.records[0].partition_leader_epoch")


@STAGE.check(
    "Partition.fetchRecords, UnifiedLog.highWatermark",
    look="Return the high watermark, which is the log end offset for a single replica.",
)
def the_high_watermark_is_told(b: Subject) -> None:
    """The high watermark is the offset after the last record replicated to all in-sync replicas."""
    answer = fetch(b, topic_with(b, "a", "b", "c"), 1)
    b.same(answer, f"{FETCHED}.high_watermark", 3)
    b.same(answer, f"{FETCHED}.last_stable_offset", 3)
    b.same(answer, f"{FETCHED}.log_start_offset", 0)


@STAGE.check("LogSegment.translateOffset", look="Start with the batch that contains the offset.")
def a_fetch_within_a_batch_returns_the_whole_batch(b: Subject) -> None:
    """Batches are never split. The consumer skips the records before its offset."""
    topic = topic_with(b, "a", "b", "c")
    write(b, topic, "d")
    answer = fetch(b, topic, 2)
    b.equal([record.offset for record in records_in(answer)], [0, 1, 2, 3], "the offsets", answer, RECORDS)


@STAGE.check("UnifiedLog.read", look="Return no records and no error at the end of the log.")
def at_the_end_there_is_nothing(b: Subject) -> None:
    """The log end offset is valid, and a fetch there returns no records and no error."""
    answer = fetch(b, topic_with(b, "a"), 1)
    b.same(answer, _ERROR, 0)
    b.equal(records_in(answer), [], "the records", answer, RECORDS)


@STAGE.check("LocalLog.read", look="Compare the offset with the log's start and end, and reject it outside that range.")
def an_offset_behind_the_end_has_error_1(b: Subject) -> None:
    """OFFSET_OUT_OF_RANGE makes the consumer reset its position."""
    b.same(fetch(b, topic_with(b, "a"), 2), _ERROR, 1)


@STAGE.check("KafkaApis.handleFetchRequest", look="Return UNKNOWN_TOPIC_OR_PARTITION for the partition.")
def an_unknown_partition_has_error_3(b: Subject) -> None:
    """The error of a partition that does not exist applies to that partition alone."""
    b.same(fetch(b, b.topic(), partition=5), _ERROR, 3)


@STAGE.check("DelayedFetch, DelayedOperationPurgatory", look="Complete waiting fetches when records are appended.")
def a_waiting_fetch_is_woken_up_by_new_records(b: Subject) -> None:
    """A fetch at the log end waits up to max_wait_ms. New records end the wait immediately."""
    topic = b.topic()
    waiting = b.connect()
    start = time.monotonic()
    waiting.send(fetch_request(topic, wait=_LONG_MS), b.newest(FetchRequest))
    b.holds(waiting.is_silent(_SHORT_MS / 1000), "no answer before there are records", actual="an answer at once")
    write(b, topic, "a")
    answer = waiting.receive()
    check_values(b, answer, ["a"])
    _check_is_early(b, answer, start, f"an answer long before {_LONG_MS} ms")


@STAGE.check("DelayedFetch.onComplete", look="Respond with the available records after max_wait_ms.")
def a_wait_ends_after_max_wait_ms(b: Subject) -> None:
    """Without new records, the response is sent after max_wait_ms, neither earlier nor much later."""
    topic = b.topic()
    start = time.monotonic()
    answer = fetch(b, topic, wait=_SHORT_MS)
    waited = (time.monotonic() - start) * 1000
    b.same(answer, _ERROR, 0)
    b.holds(waited > _SHORT_MS * 0.8, f"an answer after {_SHORT_MS} ms", answer, actual=f"it after {waited:.0f} ms")


@STAGE.check("DelayedFetch.tryComplete", look="Count the bytes of all partitions, and wait for min_bytes.")
def min_bytes_is_waited_for(b: Subject) -> None:
    """A fetch waits until min_bytes are available."""
    topic = topic_with(b, "a")
    waiting = b.connect()
    waiting.send(fetch_request(topic, wait=_LONG_MS, min_bytes=1000), b.newest(FetchRequest))
    b.holds(waiting.is_silent(_SHORT_MS / 1000), "no answer before there are 1000 bytes", actual="an answer at once")
    write(b, topic, "x" * 2000)
    b.equal(len(records_in(waiting.receive())), 2, "the number of records", b.exchanges[-2].response)


@STAGE.check(_SOURCE, look="Respond immediately if min_bytes is 0.")
def min_bytes_0_does_not_wait(b: Subject) -> None:
    """With min_bytes 0, the response is immediate, regardless of max_wait_ms."""
    topic = b.topic()
    start = time.monotonic()
    answer = fetch(b, topic, wait=_LONG_MS, min_bytes=0)
    _check_is_early(b, answer, start, "an answer at once")


@STAGE.check(_SOURCE, look="Respond immediately if a partition has an error.")
def an_error_does_not_wait(b: Subject) -> None:
    """A partition with an error ends the wait of its request."""
    topic = b.topic()
    start = time.monotonic()
    answer = fetch(b, topic, 7, wait=_LONG_MS)
    b.same(answer, _ERROR, 1)
    _check_is_early(b, answer, start, "an answer at once")


@STAGE.check("KIP-74, LogSegment.read", look="Return the whole first batch, even if max_bytes is smaller.")
def the_first_batch_comes_even_if_it_is_too_large(b: Subject) -> None:
    """Size limits would block a consumer forever at a large batch, so the first batch is always returned whole."""
    answer = fetch(b, topic_with(b, "x" * 5000), max_bytes=10, partition_max=10)
    b.equal([len(record.value or b"") for record in records_in(answer)], [5000], "the sizes", answer, RECORDS)


@STAGE.check("KIP-74, LogSegment.read", look="Stop before a batch that would exceed partition_max_bytes.")
def partition_max_bytes_limits_the_answer(b: Subject) -> None:
    """The partition limit applies to all batches after the first."""
    topic = b.topic()
    for _ in range(4):
        write(b, topic, "x" * 1000)
    answer = fetch(b, topic, partition_max=_MAX_BYTES)
    size = len(answer.responses[0].partitions[0].records or b"")
    b.holds(0 < size <= _MAX_BYTES, f"at most {_MAX_BYTES} bytes of records", answer, RECORDS, actual=f"{size} bytes")


@STAGE.check("KIP-74, ReplicaManager.readFromLog", look="Count the bytes of all partitions against max_bytes.")
def max_bytes_limits_all_partitions_together(b: Subject) -> None:
    """The second partition gets only the bytes left over by the first."""
    topic = b.topic(2)
    for partition in range(2):
        batch = build_batch(new_records("x" * 2000))
        send(b, topic, batch, partition=partition)
    topics = _make_topics(topic, 0, 1)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=2500, topics=topics)
    answer = b.ask(request)
    sizes = [len(partition_data.records or b"") for topic in answer.responses for partition_data in topic.partitions]
    expected, actual = "records of one partition, and none of the other", f"{sizes[0]} and {sizes[1]} bytes"
    b.holds(sum(map(bool, sizes)) == 1, expected, answer, RECORDS, actual=actual)


@STAGE.check(
    "KIP-320, Partition.checkCurrentLeaderEpoch",
    look="Compare current_leader_epoch with yours: 74 for an older epoch, 75 for a newer one.",
)
def a_future_leader_epoch_has_error_75(b: Subject) -> None:
    """A client whose metadata is newer than the broker's gets UNKNOWN_LEADER_EPOCH, and waits."""
    partition = FetchPartition(partition=0, current_leader_epoch=99, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=b.topic(), partitions=[partition])])
    version = b.newest(FetchRequest)
    if version < 9:  # noqa: PLR2004 - the first version with the epoch
        raise SkippedError(f"the broker serves Fetch up to {version}")
    b.same(b.ask(request, version), _ERROR, 75)


@STAGE.check("FetchRequest, KafkaApis.handleFetchRequest", look="Implement each version of Fetch: each adds fields.")
def all_versions_are_served(b: Subject) -> None:
    """Versions 4 to 12 return the same batches."""
    topic = topic_with(b, "a")
    first, last = b.versions.get(ApiKey.FETCH, (0, -1))
    for version in range(max(first, 4), min(last, 12) + 1):
        answer = fetch(b, topic, version=version)
        b.equal(values_of(records_in(answer)), ["a"], f"the values in version {version}", answer, RECORDS)


@STAGE.check("KIP-516", look="Find the topic by its id from version 13 on.")
def topics_are_fetched_by_id(b: Subject) -> None:
    """From version 13 on, Fetch identifies topics by id."""
    topic = topic_with(b, "a")
    b.require(ApiKey.FETCH, 13)
    metadata = b.metadata(topic, version=12)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch_topic = FetchTopic(topic_id=metadata.topics[0].topic_id, partitions=[partition])
    answer = b.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[fetch_topic]), 13)
    check_values(b, answer, ["a"])


@STAGE.check("KIP-516", look="Return UNKNOWN_TOPIC_ID for the partitions of an unknown id.")
def an_unknown_id_has_error_100(b: Subject) -> None:
    """A topic id that no longer exists gets UNKNOWN_TOPIC_ID for each of its partitions."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch_topic = FetchTopic(topic_id=b"\x21" * 16, partitions=[partition])
    b.same(b.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[fetch_topic]), 13), _ERROR, 100)


@STAGE.check("KIP-227, FetchManager.newContext", look="Create a session for epoch 0, and return its id.")
def epoch_0_makes_a_session(b: Subject) -> None:
    """A full fetch with epoch 0 requests a session. The response has the session id and all partitions."""
    answer = _fetch_in_session(b, _make_topics(b.topic(2), 0, 1), 0, 0)
    b.same(answer, "error_code", 0)
    b.holds(answer.session_id > 0, "an id above 0", answer, "session_id")
    b.equal(_list_partitions(answer), [0, 1], "the partitions", answer, "responses")


@STAGE.check("KIP-227, IncrementalFetchContext", look="Leave out partitions without changes since the last response.")
def a_session_leaves_out_what_is_as_before(b: Subject) -> None:
    """An incremental fetch lists no partitions, and its response contains only the partitions with new data."""
    topic = b.topic(2)
    session = _fetch_in_session(b, _make_topics(topic, 0, 1), 0, 0).session_id
    answer = _fetch_in_session(b, [], session, 1)
    b.same(answer, "session_id", session)
    b.equal(_list_partitions(answer), [], "the partitions", answer, "responses")
    write(b, topic, "a")
    answer = _fetch_in_session(b, [], session, 2)
    b.equal(_list_partitions(answer), [0], "the partitions", answer, "responses")


@STAGE.check("KIP-227, FetchSession.update", look="Add the partitions of a request to its session.")
def a_session_takes_more_partitions(b: Subject) -> None:
    """An incremental fetch lists only partitions that are new or whose fetch offset has changed."""
    topic = b.topic(2)
    session = _fetch_in_session(b, _make_topics(topic, 0), 0, 0).session_id
    send(b, topic, build_batch(new_records("a")), partition=1)
    answer = _fetch_in_session(b, _make_topics(topic, 1), session, 1)
    b.equal(_list_partitions(answer), [1], "the partitions", answer, "responses")


@STAGE.check("KIP-227, FetchSession.update", look="Remove the partitions in forgotten_topics_data from the session.")
def a_session_forgets_partitions(b: Subject) -> None:
    """Partitions that a request forgets are no longer returned, even if they have new data."""
    topic = b.topic(2)
    session = _fetch_in_session(b, _make_topics(topic, 0, 1), 0, 0).session_id
    write(b, topic, "a")
    answer = _fetch_in_session(b, [], session, 1, forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[0])])
    b.equal(_list_partitions(answer), [], "the partitions", answer, "responses")


@STAGE.check(
    "KIP-227, FetchManager.newContext",
    look="Count the requests of a session, and reject any epoch except the next one.",
)
def a_wrong_session_epoch_has_error_71(b: Subject) -> None:
    """The epoch reveals a lost or repeated request. The client gets INVALID_FETCH_SESSION_EPOCH and starts again."""
    session = _fetch_in_session(b, _make_topics(b.topic(), 0), 0, 0).session_id
    b.same(_fetch_in_session(b, [], session, 5), "error_code", 71)


@STAGE.check("KIP-227, FetchManager.newContext", look="Reject ids that the broker did not assign.")
def an_unknown_session_has_error_70(b: Subject) -> None:
    """A broker can drop a session. FETCH_SESSION_ID_NOT_FOUND makes the client start a new one."""
    b.same(_fetch_in_session(b, [], 12345, 1), "error_code", 70)


@STAGE.check(
    "KIP-227, FetchManager.newContext", look="End the session of a request with epoch -1, and return all partitions."
)
def epoch_minus_1_ends_a_session(b: Subject) -> None:
    """A client ends its session by sending the session id with epoch -1. Afterwards, the id is unknown."""
    topic = b.topic()
    session = _fetch_in_session(b, _make_topics(topic, 0), 0, 0).session_id
    b.same(_fetch_in_session(b, _make_topics(topic, 0), session, -1), "session_id", 0)
    b.same(_fetch_in_session(b, [], session, 1), "error_code", 70)


@STAGE.check(
    "LogValidator.validateMessagesAndAssignOffsets, message.timestamp.type",
    look="Store the records' timestamps unchanged.",
)
def timestamps_come_back(b: Subject) -> None:
    """With CreateTime, a record keeps the producer's timestamp."""
    answer = fetch(b, topic_with(b, "a", "b"))
    b.equal([record.timestamp for record in records_in(answer)], [TIME, TIME + 1], "the times", answer, RECORDS)
