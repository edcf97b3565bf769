"""Fetch: ranges of the log, sent from file to socket. Sessions: `cluster.fetch_sessions`, waits: `requests.fetch`.

Versions 0-18. Each version adds to the ones before:

- 0 to 3: records come in message format v0 or v1, converted where needed (UNSUPPORTED_VERSION with
  `message.downconversion.enable=false`). Before version 3 the limits are hard and cut the first batch, too.
- 4: readers of committed data get the records below the last stable offset, and the aborted transactions among them
  (KIP-98). Batches that producers have compressed with zstd are sent from here on.
- 7: fetch sessions (KIP-227), see `minibroker.cluster.fetch_sessions`.
- 9: the leader epoch is checked (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH).
- 10: a topic whose `compression.type` is zstd needs it (KIP-110, UNSUPPORTED_COMPRESSION_TYPE below). Kafka 4 sends
  such a topic in all versions that it serves, 4 and later.
- 11: a replica that does not lead serves consumers, too (KIP-392). A broker without a replica answers
  NOT_LEADER_OR_FOLLOWER. With `replica.selector.class` the leader sends a consumer with a rack to a replica in that
  rack, at once and without records.
- 12: of a last fetched epoch that ended before the fetch offset the end is answered, and no records (KIP-595).
- 13: topics go by their ids (KIP-516). UNKNOWN_TOPIC_ID: no topic has the id. INCONSISTENT_TOPIC_ID: the session knew
  the id, and its name belongs to another topic now. FETCH_SESSION_TOPIC_ID_ERROR: the session began with names, and the
  request has ids, or the other way round.
- 16: NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH come with the leader and its address (KIP-951).

A fetch reads from the start of the batch that holds the fetch offset. It reads at most `partition_max_bytes` of each
partition and `max_bytes` (and `fetch.max.bytes`) in all, but always at least one whole batch (KIP-74). A later
partition whose first batch does not fit gets no records: clients fail over a set without a whole batch
(`ReplicaManager.readFromLog`). Where the index knows the start of a batch, a range ends there. Elsewhere it may end
within a batch, which clients pass over.

With fewer than `min_bytes` a fetch waits for appends, at most `max_wait_ms`, and costs nothing meanwhile. Bytes behind
the range count, too, since waiting would not bring more (Kafka's `DelayedFetch`).

Partitions are answered in the order of the request, or of the session, and get their share of `max_bytes` in it. Those
that do not exist or may not be read come last.

Ignored: the state of replicas.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from minibroker.cluster.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchKey,
    FetchSessionError,
)
from minibroker.requests.call import Call
from minibroker.requests.declarations import Refusal, Target, topics_at
from minibroker.requests.fetch.delayed import DelayedFetch
from minibroker.requests.fetch.reader import (
    FIRST_WITH_IDS,
    FIRST_WITH_V2,
    ISOLATION_LEVELS,
    READ_AT_ONCE,
    Reader,
    refused_partition,
    terms_of,
)
from minibroker.requests.fetch.repeated import RepeatedFetch
from minibroker.requests.numbered_request import Number
from minibroker.requests.requirements import asked_by_handler
from minibroker.routing.delayed import DelayedResponse
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)

_FEW: Final = 256
"""A fetch of more partitions is served in slices."""


def _held_by_session(request: FetchRequest, call: Call) -> tuple[Target, ...]:
    """An incremental fetch is about all partitions of its session, in which seldom anything changes."""
    session = call.node.fetch_sessions.get(request.session_id)
    if session is None or request.session_epoch <= 0:
        return ()
    names, kept = call.core.topics.names, session.targets
    if kept is None or kept[0] is not names:
        kept = session.targets = names, _targets(session.partitions, call)
    forgotten = request.forgotten_topics_data
    if not forgotten:
        return kept[1]
    by_id = session.names is not None
    gone = {(each.topic_id if by_id else each.topic, index) for each in forgotten for index in each.partitions}
    return _targets([key for key in session.partitions if key not in gone], call)


def _targets(keys: Iterable[FetchKey], call: Call) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(Target(_name_of(named, call), index) for named, index in keys))


def _name_of(named: str | bytes, call: Call) -> str | None:
    if isinstance(named, str):
        return named
    topic = call.core.topics.with_id(named)
    return None if topic is None else topic.name


NAMES: Final = topics_at("topics.topic", "partitions.partition", implied=_held_by_session)
NEEDS: Final = asked_by_handler("READ on each topic; CLUSTER_ACTION on the cluster, for replicas")
REFUSAL: Final = Refusal({"high_watermark": -1, "records": b""})


def _numbers(request: FetchRequest) -> list[Number]:
    """The offsets, and the epoch of a session, which keeps the partitions of its requests."""
    if request.session_epoch == INITIAL_EPOCH:
        return []
    in_session = request.session_epoch != FINAL_EPOCH
    numbers = [Number(request, "session_epoch", "i")] if in_session else []
    for topic in request.topics:
        partitions = topic.partitions
        if in_session:
            numbers += [Number(partitions, "fetch_offset", "q", at) for at in range(len(partitions))]
        else:
            numbers += [Number(each, "fetch_offset", "q") for each in partitions]
    return numbers


REPEAT: Final = partial(RepeatedFetch, _numbers)


def handle(
    request: FetchRequest, call: Call
) -> FetchResponse | DelayedResponse | Steps[FetchResponse | DelayedResponse]:
    """Answer at once if there are enough bytes, else park until there are."""
    if request.isolation_level not in ISOLATION_LEVELS:
        return refuse(request, call.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)
    if call.api_version < FIRST_WITH_V2 or _has_many_partitions(request, call):
        return _serve_in_slices(request, call)
    core = call.core
    ids = core.topics if call.api_version >= FIRST_WITH_IDS else None
    try:
        context = call.node.fetch_sessions.context(request, core.clock.now_ms(), ids)
    except FetchSessionError as error:
        return _no_session(error)
    reader = Reader(request, call, context)
    results = reader.read()
    if request.max_wait_ms <= 0 or not reader.readable or reader.has_enough():
        return reader.answer(results)
    return DelayedFetch(request, call, reader, context)


def refuse(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse:
    """From version 13 on clients look at the error of the whole alone."""
    topics = [] if version >= FIRST_WITH_IDS else request.topics
    return FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic, partitions=[refused_partition(each.partition, code) for each in topic.partitions]
            )
            for topic in topics
        ],
    )


def _serve_in_slices(request: FetchRequest, call: Call) -> Steps[FetchResponse | DelayedResponse]:
    core = call.core
    ids = core.topics if call.api_version >= FIRST_WITH_IDS else None
    try:
        context = yield from call.node.fetch_sessions.context_in_steps(request, core.clock.now_ms(), ids)
    except FetchSessionError as error:
        return _no_session(error)
    reader = Reader(request, call, context)
    results = yield from reader.read_in_steps()
    if request.max_wait_ms <= 0 or not reader.readable or reader.has_enough():
        return (yield from reader.answer_in_steps(results))
    delayed = DelayedFetch(request, call, reader, context)
    if len(reader.asked) > READ_AT_ONCE:
        delayed.look_soon()  # others may have appended between the steps, to what was read before
    return delayed


def _no_session(error: FetchSessionError) -> FetchResponse:
    return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=[])


def _has_many_partitions(request: FetchRequest, call: Call) -> bool:
    """Whether the request names many partitions, or its session has them to be read."""
    topics = request.topics
    if len(topics) == 1:  # as in most requests
        many = len(topics[0].partitions) > _FEW
    else:
        many = len(topics) > _FEW or sum(len(topic.partitions) for topic in topics) > _FEW
    if many:
        return True
    session = call.node.fetch_sessions.get(request.session_id) if request.session_id else None
    if session is None or len(session.partitions) <= _FEW:
        return False
    return session.quiet is None or session.quiet.count(terms_of(request, call)) > _FEW
