"""Repeated produce requests: the short way of a request for one partition, of which only the records differ.

What stands before the records is compared with what this connection has sent before, partition by partition, and
decoded no more. The batch goes through the same function as on the long way (`partition_append`), with every check.
The response is a template with three numbers: base offset, log append time, log start offset.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING, Any, Final, Literal

from minibroker.requests.dispatch import encode_answers
from minibroker.requests.produce.partition_append import append_batch
from minibroker.requests.produce.record_sets import FIRST_WITH_IDS, FIRST_WITH_ONE_BATCH, is_transactional, is_v2
from minibroker.requests.repeats import BODY, UNKNOWN, Template
from minibroker.routing.outcomes import Answer, AnyOutcome, outcome_of
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minibroker_protocol.primitives import read_uvarint, write_uvarint
from minibroker_protocol.records.header import NO_OFFSET, NO_TIMESTAMP, RECORD_BATCH_OVERHEAD
from minibroker_protocol.schema import first_version

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition
    from minibroker.cluster.topics import Topic, Topics
    from minibroker.requests.call import Call
    from minibroker.requests.endpoints import Endpoint

ACKS: Final = frozenset({-1, 0, 1})
"""The values of `acks` that are no error."""
_INT32: Final = Struct(">i")
_LENGTH_SIZE: Final = _INT32.size
_FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_ALL_NUMBERS: Final = first_version(PartitionProduceResponse, "log_start_offset")
_NO_TAGGED_FIELDS: Final = b"\0\0\0"
"""The empty sections of tagged fields that end a flexible request: of the partition, the topic and the request."""
_MARKS: Final = (0x5EC0_9D1F_A36B_C824, 0x31B7_E5D2_0F48_96AC, 0x6A2D_84F3_C15E_7B90)
_MOST_PARTITIONS: Final = 64
_MOST_BYTES: Final = 1024
"""A request with more bytes before its records is not remembered."""


Conclude = Callable[[ProduceRequest, ProduceResponse, list[tuple["Topic", PartitionProduceResponse]], "Call"], Any]


class Known:
    """A request for one partition, without its records.

    Attributes:
        data: the topic.
        partition: where its records went when it came before; None before it has come again.
        is_plain: see `routing.outcomes.Noted`.
        template: of the response when all goes well; made when the request comes again. None where the version has no
            place for one of the numbers.
    """

    __slots__ = ("_is_made", "call", "data", "index", "is_plain", "partition", "request", "template")

    def __init__(self, request: ProduceRequest, data: TopicProduceData, index: int, call: Call) -> None:
        self.request = request
        self.data = data
        self.index = index
        self.call = call
        self.partition: Partition | None = None
        self.template: Template | None = None
        self.is_plain: bool | None = None
        self._is_made = False

    def find(self, topics: Topics) -> Partition | None:
        """Look for the partition: there is none yet, or its topic is gone."""
        by_id = self.call.api_version >= FIRST_WITH_IDS
        topic = topics.with_id(self.data.topic_id) if by_id else topics.get(self.data.name)
        self.partition = None if topic is None else topic.partition(self.index)
        return self.partition

    def make_template(self) -> None:
        """Make the template, unless it was tried before."""
        version = self.call.api_version
        if self._is_made or version < _FIRST_WITH_ALL_NUMBERS:
            return
        self._is_made = True
        outcome = PartitionProduceResponse(index=self.index, error_code=0, base_offset=_MARKS[0])
        _, outcome.log_append_time_ms, outcome.log_start_offset = _MARKS
        is_flexible = version >= _FIRST_FLEXIBLE
        self.template = Template.of(self.response(outcome), version, flexible_header=is_flexible, marks=_MARKS)

    def response(self, outcome: PartitionProduceResponse) -> ProduceResponse:
        """The response as the long way makes it."""
        name, topic_id = self.data.name, self.data.topic_id
        topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[outcome])
        return ProduceResponse(responses=[topic])


class Appended(PartitionProduceResponse):
    """The outcome for the partition, and the answer that has it: see `routing.outcomes.Filled`.

    `records_size` is that of the records, once it is noted.
    """

    __slots__ = ("correlation_id", "entry", "head", "known", "made", "number", "records_size", "size", "way")

    head: bytes
    size: int
    records_size: int
    number: int
    made: Any

    def __init__(self, way: RepeatedProduce, known: Known, correlation_id: int) -> None:
        self.way = way
        self.known = known
        self.correlation_id = correlation_id
        self.entry: Any = None
        self.index = known.index
        self.error_code = 0
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self.log_start_offset = NO_OFFSET
        self.record_errors = _NO_ERRORS
        self.error_message = None
        self.current_leader = _NO_LEADER

    def filled(self) -> bytes | None:
        """The frame of the response; None when the disk has refused the batch, or there is no template."""
        template = self.known.template
        if template is None or self.error_code:
            return None
        return template.pack(
            template.size,
            self.correlation_id,
            template.head,
            self.base_offset,
            self.log_append_time_ms,
            self.log_start_offset,
            template.tail,
        )

    def unfilled(self) -> Answer:
        """The same as an answer that is encoded as any other."""
        known = self.known
        known.make_template()
        version = known.call.api_version
        is_flexible = version >= _FIRST_FLEXIBLE
        return Answer(known.response(self), version, self.correlation_id, is_flexible, self.entry)

    def sent(self) -> tuple[bytes, int]:
        """See `routing.outcomes.Noted`."""
        frame = self.filled() or bytes(encode_answers([self.unfilled()])[0])
        return frame, len(frame)

    def note(self, turn: Any, frame: memoryview) -> None:
        """See `Filled`. Of the records only the head of their batch is kept."""
        self.entry = turn
        self.made = None
        records = self.way.records_in(frame)
        self.head = bytes(records[:RECORD_BATCH_OVERHEAD])
        self.records_size = len(records)
        self.size = len(frame)


_NO_ERRORS: Final[list[BatchIndexAndErrorMessage]] = []
_NO_LEADER: Final = PartitionProduceResponse(index=0, error_code=0, base_offset=NO_OFFSET).current_leader


class RepeatedProduce:
    """The produce requests of one connection in one version: see `repeats.ShortWay`.

    `conclude` is the end of the handler: from the request, the response and the topics that may want a flush, with
    their outcomes, to what a handler returns.
    """

    __slots__ = (
        "_before",
        "_conclude",
        "_end",
        "_is_flexible",
        "_known",
        "_services",
        "_session",
        "_takes_all",
        "call",
        "endpoint",
    )

    def __init__(self, conclude: Conclude, endpoint: Endpoint, call: Call) -> None:
        version = call.api_version
        self._conclude = conclude
        self.endpoint = endpoint
        self.call = call
        self._services = call.services
        self._session = call.session
        self._known: dict[bytes, Known] = {}
        self._is_flexible = version >= _FIRST_FLEXIBLE
        self._takes_all = version >= FIRST_WITH_ONE_BATCH
        self._begin(BODY)

    def take(self, frame: memoryview, correlation_id: int) -> AnyOutcome | Literal[False]:  # noqa: PLR0911 - calls would cost more than what they do
        """See `repeats.ShortWay`."""
        end = self._end
        try:
            if self._is_flexible:
                (before,) = self._before(frame)
                length, position = read_uvarint(frame, end)
                stop = position + length - 1
                if bytes(frame[stop:]) != _NO_TAGGED_FIELDS:
                    return UNKNOWN
            else:
                before, length = self._before(frame)
                position, stop = end + _LENGTH_SIZE, len(frame)
                if length != stop - position:
                    return UNKNOWN
        except (DecodeError, StructError):
            return UNKNOWN
        known = self._known.get(before)
        if known is None:
            return UNKNOWN
        call = self.call
        partition = known.partition
        if partition is None or partition.topic.is_gone:
            partition = known.find(call.core.topics)
        if (
            stop <= position
            or partition is None
            or partition.leader is not self._session.node
            or partition.is_under_min_isr
        ):
            return UNKNOWN
        topic = partition.topic
        records = frame[position:stop]
        if not (topic.keeps_batches and (self._takes_all or is_v2(records))):
            return UNKNOWN
        if self._services.authorizer is not None and not _may_write(topic, records, call):
            return UNKNOWN
        request = known.request
        answer = Appended(self, known, correlation_id)
        append_batch(partition, records, call, answer, request)
        if not (answer.error_code or topic.flushes_on_append) and request.acks:
            return answer
        flushed: list[tuple[Topic, PartitionProduceResponse]] = [(topic, answer)] if topic.flushes_on_append else []
        response = self._conclude(request, known.response(answer), flushed, call)
        return outcome_of(response, call.api_version, answer.correlation_id, flexible_header=self._is_flexible)

    def learn(self, frame: memoryview, request: ProduceRequest, _response: Any) -> None:
        """See `repeats.ShortWay`."""
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return
        topic = request.topic_data[0]
        data = topic.partition_data[0]
        if not isinstance(data.records, memoryview) or not data.records or request.acks not in ACKS:
            return
        end = self._end_of_prefix(frame, len(data.records))
        if not BODY <= end <= _MOST_BYTES:
            return
        if end != self._end or len(self._known) >= _MOST_PARTITIONS:
            self._begin(end)
        data.records = None  # they are in memory that is used again
        self._known[bytes(frame[BODY:end])] = Known(request, topic, data.index, self.call)

    def _begin(self, end: int) -> None:
        """Know no request yet; `end` is that of the bytes before the length of the records in all to come."""
        self._known.clear()
        self._end = end
        #: Takes those bytes out of a frame, and the length, if that is no varint.
        self._before = Struct(f">{BODY}x{end - BODY}s{'' if self._is_flexible else 'i'}").unpack_from

    def remembered(self, frame: memoryview) -> tuple[Any, memoryview | None]:
        """See `repeats.ShortWay`."""
        return self._known[bytes(frame[BODY : self._end])].request, self.records_in(frame)

    def records_in(self, frame: memoryview) -> memoryview:
        """The records of a frame that was taken."""
        if self._is_flexible:
            return frame[read_uvarint(frame, self._end)[1] : -len(_NO_TAGGED_FIELDS)]
        return frame[self._end + _LENGTH_SIZE :]

    def _end_of_prefix(self, frame: memoryview, length: int) -> int:
        """Position of the records' length, if they stand where `take` looks for them; else -1."""
        written, tail = bytearray(), b""
        if self._is_flexible:
            write_uvarint(written, length + 1)
            tail = _NO_TAGGED_FIELDS
        else:
            written += _INT32.pack(length)
        stop = len(frame) - len(tail)
        end = stop - length - len(written)
        as_written = (
            end >= 0 and bytes(frame[stop:]) == tail and bytes(frame[end : end + len(written)]) == bytes(written)
        )
        return end if as_written else -1


def _may_write(topic: Topic, records: memoryview, call: Call) -> bool:
    """Whether the client may write; False for a transaction, which needs a right of its own."""
    return not is_transactional(records) and call.allows(Operation.WRITE, ResourceType.TOPIC, topic.name)
