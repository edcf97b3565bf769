"""The Fetch handler."""

from collections.abc import Iterable
from typing import Any, Final

from minibroker.cluster.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchContext, FetchKey, FetchSessionError
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.slices import ForEach, Served
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import PlainShape, Refusal, Target, handles, topics_at
from minibroker.server.requests.fetch import (
    FIRST_WITH_IDS,
    FIRST_WITH_V2,
    FIRST_WITH_ZSTD,
    ISOLATION_LEVELS,
    DelayedFetch,
    Reader,
    build_refused_partition,
)
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from minibroker_protocol.schema import first_version

_FIRST_WITH_PLAIN_SHAPE: Final = max(first_version(FetchRequest, "session_id"), FIRST_WITH_ZSTD)
_MAX_PARTITIONS_AT_ONCE: Final = 500
"""A fetch of more partitions opens their logs in slices."""


def _session_partitions(request: FetchRequest, call: Call) -> tuple[Target, ...]:
    """Return the partitions of the request's session. They are cached, since sessions rarely change."""
    session = call.node.fetch_sessions.get(request.session_id)
    if session is None or request.session_epoch <= 0:
        return ()
    names, cached = call.core.topics.names, session.targets
    if cached is None or cached[0] is not names:
        cached = session.targets = names, _targets_of(session.partitions, call)
    forgotten = request.forgotten_topics_data
    if not forgotten:
        return cached[1]
    by_id = session.names is not None
    forgotten_keys = {
        (topic.topic_id if by_id else topic.topic, index) for topic in forgotten for index in topic.partitions
    }
    return _targets_of([key for key in session.partitions if key not in forgotten_keys], call)


def _targets_of(keys: Iterable[FetchKey], call: Call) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(Target(_topic_name(name_or_id, call), index) for name_or_id, index in keys))


def _topic_name(name_or_id: str | bytes, call: Call) -> str | None:
    if isinstance(name_or_id, str):
        return name_or_id
    topic = call.core.topics.with_id(name_or_id)
    return None if topic is None else topic.name


def _handle_plain(values: tuple[Any, ...], call: Call) -> tuple[Any, ...] | None:  # noqa: PLR0911 - calls would cost more than what they do
    """Serve a one-partition fetch without session, rack and transactions if enough records are ready.

    Return None for any other request, before anything has changed. The regular handler then serves the request.
    """
    if call.api_version < _FIRST_WITH_PLAIN_SHAPE:
        return None
    (
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        name,
        topic_id,
        index,
        leader_epoch,
        offset,
        last_fetched_epoch,
        _,
        partition_max_bytes,
        rack_id,
    ) = values
    services, core = call.services, call.core
    if isolation_level or session_epoch != FINAL_EPOCH or session_id or replica_id >= 0 or last_fetched_epoch >= 0:
        return None
    topic = core.topics.with_id(topic_id) if call.api_version >= FIRST_WITH_IDS else core.topics.get(name)
    partition = None if topic is None else topic.partition(index)
    if (
        partition is None
        or partition.leader is not call.session.node
        or 0 <= leader_epoch != partition.leader_epoch
        or (rack_id and services.prefers_racks)
    ):
        return None
    core.writes.commit()
    log = partition.opened_log
    limit = min(partition_max_bytes, max_bytes, services.fetch_max_bytes)
    if log is None or limit < 0 or not log.log_start_offset <= offset <= log.high_watermark:
        return None
    try:
        records = log.read(offset, limit, min_one_batch=True)
    except MAPPED:
        return None
    if max_wait_ms > 0 and records.size < min(min_bytes, max_bytes):
        return None
    if records.size and services.works_around_clients:
        call.session.waited_fetches = 0
    end, stable, start = log.high_watermark, log.last_stable_offset, log.log_start_offset
    return 0, 0, NO_SESSION, name, topic_id, index, 0, end, stable, start, -1, records if records.size else b""


def _return_unchanged(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values


def _refuse_fetch(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse:
    """Refuse a request. Since version 13 only the top-level error is set, because clients ignore all others."""
    topics = [] if version >= FIRST_WITH_IDS else request.topics
    return FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[build_refused_partition(partition.partition, code) for partition in topic.partitions],
            )
            for topic in topics
        ],
    )


@handles(
    ApiKey.FETCH,
    needs=asked_by_handler("READ on each topic; CLUSTER_ACTION on the cluster, for replicas"),
    names=topics_at("topics.topic", "partitions.partition", implied=_session_partitions),
    refusal=Refusal({"high_watermark": -1, "records": b""}, whole=_refuse_fetch),
    plain=PlainShape(_handle_plain, _return_unchanged),
)
def fetch(request: FetchRequest, call: Call) -> Served[FetchResponse | DelayedResponse]:
    """Fetch: return ranges of logs, which are sent from file to socket.

    Versions 0-18 are served. Sessions are in `cluster.fetch_sessions`, and delayed fetches in `requests.fetch`.
    Each version adds to the previous ones:

    - 0 to 3: Records are converted to message format v0 or v1. With `message.downconversion.enable=false` a fetch
      that needs a conversion gets UNSUPPORTED_VERSION. Before version 3 the limits are strict and cut even the
      first batch.
    - 4: Readers of committed data get the records below the last stable offset, and the aborted transactions among
      them (KIP-98). Since this version, batches that producers compressed with zstd are returned.
    - 7: Fetch sessions (KIP-227), see `minibroker.cluster.fetch_sessions`.
    - 9: The leader epoch is checked (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH).
    - 10: Topics with the `compression.type` zstd require this version (KIP-110). Earlier versions get
      UNSUPPORTED_COMPRESSION_TYPE. Kafka 4 returns such topics in all versions that it serves, 4 and later.
    - 11: Followers serve consumers (KIP-392). A broker without a replica returns NOT_LEADER_OR_FOLLOWER. With
      `replica.selector.class` the leader refers a consumer to a replica in the consumer's rack. That response is
      immediate and has no records.
    - 12: If the last fetched epoch ended before the fetch offset, the response has the end of that epoch and no
      records (KIP-595).
    - 13: Topics are identified by id (KIP-516). An unknown id gets UNKNOWN_TOPIC_ID. If the session has the id but
      the topic's name now belongs to another topic, the error is INCONSISTENT_TOPIC_ID. A session that began with
      names cannot continue with ids, or vice versa (FETCH_SESSION_TOPIC_ID_ERROR).
    - 16: NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH come with the leader and its address (KIP-951).

    A fetch starts at the batch that contains the fetch offset. It reads at most `partition_max_bytes` per partition
    and `max_bytes` (and `fetch.max.bytes`) in total, but at least one whole batch (KIP-74). A later partition whose
    first batch does not fit gets no records, because clients fail on a record set without a whole batch
    (`ReplicaManager.readFromLog`). A range ends at the start of a batch if the index contains that position.
    Otherwise it can end within a batch, which clients skip.

    If fewer than `min_bytes` are available, a fetch waits for appends for at most `max_wait_ms`, without using CPU
    time. Bytes after the range count too, since waiting would not add more (Kafka's `DelayedFetch`).

    The response lists partitions in the order of the request or session, and `max_bytes` is used up in that order.
    Partitions that do not exist or that the client may not read come last.

    The replica state of the request is ignored.
    """
    if request.isolation_level not in ISOLATION_LEVELS:
        return _refuse_fetch(request, call.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)
    core = call.core
    ids = core.topics if call.api_version >= FIRST_WITH_IDS else None
    try:
        context = call.node.fetch_sessions.context(request, core.clock.now_ms(), ids)
    except FetchSessionError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])
    reader = Reader(request, call, context)
    if sum(len(topic.partitions) for topic in request.topics) > _MAX_PARTITIONS_AT_ONCE:
        return ForEach(tuple(context.keys), reader.open_log, lambda _: _read(request, call, reader, context))
    return _read(request, call, reader, context)


def _read(
    request: FetchRequest, call: Call, reader: Reader, context: FetchContext
) -> Served[FetchResponse | DelayedResponse]:
    results = reader.read()
    if request.max_wait_ms > 0 and reader.readable and not reader.has_enough():
        return DelayedFetch(request, call, reader, context)
    if call.api_version < FIRST_WITH_V2:
        return reader.convert_and_answer(results)
    return reader.answer(results)
