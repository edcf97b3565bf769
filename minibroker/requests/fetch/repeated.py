"""Repeated fetches: the short way, and for those of one partition a template of the response.

Such a fetch at the end of a log is what a consumer sends after each answer, in a session of this partition alone or
without one. It goes without a reader and without the objects of a response: where the partition can be read as at
other times, the numbers and the records are all that differs. Where there is any doubt (an error, a limit, an aborted
transaction, rights, quotas, an observer), the handler and `reader` decide. `tests/broker/requests/test_both_ways.py`
and `test_repeated_fetch.py` hold the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchContext
from minibroker.requests.fetch.delayed import DelayedFetch
from minibroker.requests.fetch.reader import (
    FIRST_WITH_IDS,
    FIRST_WITH_ZSTD,
    ISOLATION_LEVELS,
    READ_COMMITTED,
    Reader,
    prefers_racks,
)
from minibroker.requests.numbered_request import NumberedRequest, NumbersOf
from minibroker.requests.repeats import Template
from minibroker.routing.outcomes import Answer, AnyOutcome, Waiting
from minibroker.support.error_mapping import MAPPED
from minibroker_protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from minibroker_protocol.primitives import write_uvarint
from minibroker_storage.errors import StorageError
from minibroker_storage.log_slice import COPIED

if TYPE_CHECKING:
    from minibroker.requests.call import Call
    from minibroker.requests.endpoints import Endpoint
    from minibroker.requests.same_request import KnownRequest
    from minibroker_protocol.messages.fetch import FetchRequest
    from minibroker_storage.log import Log
    from minibroker_storage.log_slice import LogSlice

_MARKS: Final = (0x43D1_7A0E_92B6_5FC8, 0x1E86_C35B_F094_2D7A, 0x70B9_46E2_8D1F_A35C)
_NO_TAGGED_FIELDS: Final = b"\0\0\0"
"""The empty sections of tagged fields that end a flexible response: of the partition, the topic and the response."""
_END: Final = 4
"""Bytes from the length of empty records to the end: an int32, or a varint and the sections of tagged fields."""


class RepeatedFetch(NumberedRequest):
    """The repeated fetches of one connection in one version: see `repeats.ShortWay`."""

    __slots__ = ("_tail",)

    def __init__(self, numbers_of: NumbersOf, endpoint: Endpoint, call: Call) -> None:
        super().__init__(numbers_of, endpoint, call, keeps_response=False)
        self._tail: Tail | None = None

    def learn(self, frame: memoryview, request: FetchRequest, response: Any) -> None:
        """See `repeats.ShortWay`."""
        super().learn(frame, request, response)
        if self._one is not None and self._one.request is request:
            # Older versions may not get every codec or format: the records would have to be looked at.
            fits = self.call.api_version >= FIRST_WITH_ZSTD and _is_of_one(request)
            self._tail = Tail(self.call, request, flexible=self.flexible_header) if fits else None

    def _outcome(self, known: KnownRequest, correlation_id: int) -> AnyOutcome:
        outcome = None if self._tail is None else self._tail.outcome(correlation_id)
        return super()._outcome(known, correlation_id) if outcome is None else outcome


def _is_of_one(request: FetchRequest) -> bool:
    """Whether a request names one partition, and goes on with a session or wants none."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1 or request.forgotten_topics_data:
        return False
    partition = request.topics[0].partitions[0]
    if partition.last_fetched_epoch >= 0 or partition.partition_max_bytes < 0 or request.max_bytes < 0:
        return False
    if (
        request.isolation_level not in ISOLATION_LEVELS
        or max(request.replica_id, request.replica_state.replica_id) >= 0
    ):
        return False
    return (request.session_epoch == FINAL_EPOCH) is (request.session_id == NO_SESSION)


class Tail:
    """The fetches of one partition of one connection, in a session or without one. `request` is the last one."""

    __slots__ = (
        "_asked",
        "_by_id",
        "_committed",
        "_in_session",
        "_key",
        "_template",
        "_topic",
        "call",
        "flexible",
        "request",
    )

    def __init__(self, call: Call, request: FetchRequest, *, flexible: bool) -> None:
        self.call = call
        self.request = request
        self.flexible = flexible
        self._topic = request.topics[0]
        self._asked = self._topic.partitions[0]
        self._by_id = call.api_version >= FIRST_WITH_IDS
        self._committed = request.isolation_level == READ_COMMITTED
        self._in_session = request.session_id != NO_SESSION
        self._key = (self._topic.topic_id if self._by_id else self._topic.topic), self._asked.partition
        self._template: Template | None = None

    def outcome(self, correlation_id: int) -> AnyOutcome | None:
        """The outcome of the request; None where the handler has to serve it."""
        call, request = self.call, self.request
        call.core.writes.commit()  # as before any request but Produce
        if self._in_session:
            self._asked = self._topic.partitions[0]  # a session keeps that of the request before
            if not call.node.fetch_sessions.has_alone(self._key, request):
                return None
        log = self._log()
        found = None if log is None else self._read(log)
        if log is None or found is None:
            return None
        # Enough, or no wait is wanted: without a session an empty answer comes from the template, too.
        if found.size >= self._least() or request.max_wait_ms <= 0:
            if self._in_session and not found.size:  # there may be no news of the partition
                return None
            return self._fetched(correlation_id, log, found, self.context() if self._in_session else None)
        # Some records, but fewer than `min_bytes`: `Reader` knows how to wait for the rest.
        if found.size:
            return None
        delayed = DelayedTail(self, log, correlation_id)
        return Waiting(delayed, Answer(None, call.api_version, correlation_id, self.flexible))

    def again(self, correlation_id: int, context: FetchContext) -> Fetched | None:
        """The answer to a request that has waited; None where it goes on waiting, or `Reader` has to decide."""
        session = context.session
        if session is not None and (session.quiet is not None or self._key not in session.partitions):
            return None
        log = self._log()
        found = None if log is None else self._read(log)
        if log is None or found is None or found.size < max(self._least(), 1):
            return None
        return self._fetched(correlation_id, log, found, context)

    def _fetched(self, correlation_id: int, log: Log, found: LogSlice, context: FetchContext | None) -> Fetched:
        if found.size and self.call.services.works_around_clients:
            self.call.session.waited_fetches = 0
        if context is not None:
            context.note_records(self._key, log.high_watermark, log.log_start_offset)
        return Fetched(self, correlation_id, log, found)

    def context(self) -> FetchContext:
        """The context of the request."""
        if self._in_session:
            core = self.call.core
            ids = core.topics if self._by_id else None
            return self.call.node.fetch_sessions.context(self.request, core.clock.now_ms(), ids)
        return FetchContext({self._key: self._asked})

    def _log(self) -> Log | None:
        """The log, if the client may read it from this node, and rights, quotas and observers need not be asked."""
        call = self.call
        services = call.services
        # Asked for each request, not when the template was made: both may be set while the broker runs.
        if services.authorizer is not None or services.quotas is not None:
            return None
        if prefers_racks(self.request, call):  # to which the template cannot send it
            return None
        if services.observer is not None or services.tape is not None:  # which keep ranges of files, not their bytes
            return None
        topics, asked = call.core.topics, self._asked
        topic = topics.with_id(self._topic.topic_id) if self._by_id else topics.get(self._topic.topic)
        partition = None if topic is None else topic.partition(asked.partition)
        # The topic may be gone or its leader elsewhere since the last fetch: the handler has the error.
        if partition is None or partition.leader is not call.session.node:
            return None
        if 0 <= asked.current_leader_epoch != partition.leader_epoch:
            return None
        return partition.opened_log

    def _read(self, log: Log) -> LogSlice | None:
        """The records, as `Reader` finds them; None where it would find an error, or aborted transactions."""
        asked = self._asked
        offset = asked.fetch_offset
        limit = min(asked.partition_max_bytes, self.request.max_bytes, self.call.services.fetch_max_bytes)
        try:
            if self._committed:
                end = log.high_watermark
                # An open or aborted transaction in the range: the response needs a list that the template has not.
                if log.last_stable_offset != end or (offset < end and log.aborted_transactions(offset, end)):
                    return None
            return log.read(offset, limit)
        except MAPPED:
            return None

    def _least(self) -> int:
        request = self.request
        return min(request.min_bytes, request.max_bytes, self.call.services.fetch_max_bytes)

    def template(self) -> Template | None:
        """The response up to the length of its records, with three numbers."""
        if self._template is None:
            version = self.call.api_version
            whole = Template.of(self.response(*_MARKS, b""), version, flexible_header=self.flexible, marks=_MARKS)
            if whole is not None:
                self._template = Template(whole.head, len(_MARKS), whole.tail[:-_END])
        return self._template

    def response(self, high_watermark: int, stable: int, log_start: int, records: LogSlice | bytes) -> FetchResponse:
        """The response as `Reader` makes it."""
        data = PartitionData(
            partition_index=self._asked.partition,
            error_code=0,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=log_start,
            aborted_transactions=[] if self._committed else None,
            records=records,
        )
        topic = FetchableTopicResponse(topic=self._topic.topic, topic_id=self._topic.topic_id, partitions=[data])
        return FetchResponse(session_id=self.request.session_id, responses=[topic])


class Fetched:
    """An answer from the template: see `routing.outcomes.Filled`."""

    __slots__ = ("_correlation_id", "_found", "_high_watermark", "_log_start", "_stable", "_tail", "entry")

    def __init__(self, tail: Tail, correlation_id: int, log: Log, found: LogSlice) -> None:
        self.entry: Any = None
        self._tail = tail
        self._correlation_id = correlation_id
        self._found = found
        self._high_watermark = log.high_watermark
        self._stable = log.last_stable_offset
        self._log_start = log.log_start_offset

    def filled(self) -> bytearray | None:
        """See `Filled`. None for many bytes, which are not copied, and where the file cannot be read."""
        found, tail = self._found, self._tail
        size = found.size
        template = tail.template()
        if size > COPIED or template is None:
            return None
        try:
            records = found.read()
        except (OSError, StorageError):
            return None
        # The file was truncated since. The usual answer meets this, too, and ends the connection.
        if len(records) < size:
            return None
        length = bytearray()
        if tail.flexible:
            write_uvarint(length, size + 1)
            end = _NO_TAGGED_FIELDS
        else:
            length += size.to_bytes(4, "big")
            end = b""
        whole = template.size + len(length) + size + len(end)
        numbers = self._high_watermark, self._stable, self._log_start
        out = bytearray(template.pack(whole, self._correlation_id, template.head, *numbers, template.tail))
        out += length
        out += records
        out += end
        return out

    def unfilled(self) -> Answer:
        """See `Filled`."""
        tail = self._tail
        records = self._found if self._found.size else b""
        response = tail.response(self._high_watermark, self._stable, self._log_start, records)
        return Answer(response, tail.call.api_version, self._correlation_id, tail.flexible, self.entry)


class DelayedTail(DelayedFetch):
    """A fetch that waits at the end of its partition, and is answered from the template if all is as it was."""

    __slots__ = ("_correlation_id", "_tail")

    def __init__(self, tail: Tail, log: Log, correlation_id: int) -> None:
        context = tail.context()
        reader = Reader(tail.request, tail.call, context)
        super().__init__(tail.request, tail.call, reader, context, (1, (log,)))
        self._tail = tail
        self._correlation_id = correlation_id

    def _schedule(self) -> None:
        self._call.core.writes.wakeups.add(self._look)

    def _look(self) -> None:
        timer, deliver = self._timer, self.deliver_filled
        if timer is not None and deliver is not None and not self._is_reading:
            self._call.core.writes.commit()
            answer = self._tail.again(self._correlation_id, self._context)
            if answer is not None:
                self._timer = None
                try:
                    deliver(answer)  # before the rest, which takes time that the client need not wait for
                finally:
                    self._take_down(timer)
                return
        super()._look()
