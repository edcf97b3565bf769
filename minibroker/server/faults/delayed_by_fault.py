"""Requests that a fault holds: the answer is late, comes damaged, or never comes. And the end of all service."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.routing.outcomes import Answer, DelayedResponse
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.dispatch import UnencodableAnswerError, encode_answers
from minibroker_protocol.records.header import MAGIC_AT, MAGIC_V2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.clock import Clock, Timer
    from minibroker.cluster.routing.outcomes import Channel
    from minibroker.server.faults.fault import Fault
    from minibroker.server.faults.registry import MatchedFault

_BODY_AT: Final = 8
_BLACK_HOLE_BYTES: Final = 1 << 16
_CORRELATION_ID_AT: Final = 4
_CRC_AT: Final = 17
_CRC_OF_MESSAGES_AT: Final = 12

_WITHOUT_ANSWER: Final = frozenset({"disconnect", "black_hole", "drop"})


class DelayedByFault(DelayedResponse):
    """Waits for a handler's response, if there is one to come, then for the delay, and then does what the fault says.

    It is delayed like any other: requests behind it wait, and what it has appended is written before it strikes.

    Args:
        answer: without its response.
        inner: a request that its handler has delayed.
        has_answer: False for requests that are never answered (acks=0).
    """

    def __init__(
        self,
        channel: Channel,
        clock: Clock,
        matched: MatchedFault,
        answer: Answer,
        inner: DelayedResponse | None,
        *,
        has_answer: bool,
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._matched = matched
        self._answer = answer
        self._inner = inner
        self._has_answer = has_answer
        self._timer: Timer | None = None
        self._gone = False
        if inner is not None:
            inner.deliver = self.go_on

    def cancel(self) -> None:
        """The client has gone."""
        self._gone = True
        if self._timer is not None:
            self._timer.cancel()
        if self._inner is not None:
            self._inner.cancel()

    def hasten(self) -> None:
        """See `DelayedResponse`. The delay of the fault itself stays."""
        if self._inner is not None:
            self._inner.hasten()

    def waits_for(self) -> str:
        """See `DelayedResponse`."""
        return "the delay of a fault" if self._inner is None else self._inner.waits_for()

    def go_on(self, response: Any) -> None:
        """The handler has its response; None when the request was not applied, or has none."""
        self._inner = None
        if self._gone:
            return
        if response is not None:
            if self._matched.throttle_ms and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = self._matched.throttle_ms
            self._answer.entry.answer(response)
            if self._matched.delay_ms:
                _read_ranges(response)  # whose files may be gone by then
        self._after(self._matched.delay_ms, partial(self._act_or_fail, response))

    def _after(self, delay_ms: float, then: Any) -> None:
        if delay_ms:
            self._timer = self._clock.call_later(delay_ms, then)
        else:
            then()

    def _act_or_fail(self, response: Any) -> None:
        """Do what the fault says. A response that has no form in the protocol costs the connection, as it always does.

        The bytes are made before anything is sent, so that no part of the answer leaves.
        """
        try:
            self._act(response)
        except UnencodableAnswerError as error:
            self._answer.entry.fail(error)
            self._channel.fail(error)

    def _act(self, response: Any) -> None:
        fault, channel = self._matched.fault, self._channel
        action = None if fault is None else fault.action
        if response is None or action in _WITHOUT_ANSWER:
            self._answer.entry.end()
        if action == "disconnect":
            channel.end()
        elif action == "black_hole":
            channel.swallow()
        elif response is None:
            # Not applied and dropped; or acks=0, where no client waits for an answer or gives up.
            if not self._has_answer:
                channel.release()
        elif action == "drop":
            pass
        elif action == "truncate":
            assert fault is not None
            self._send(self._frame(response)[: fault.truncate])
            channel.end()
        elif action == "corrupt":
            assert fault is not None
            self._send_corrupt(fault, response)
            channel.release()
        else:
            self._send(self._frame(response))
            self._after(self._matched.throttle_ms, channel.release)

    def _frame(self, response: Any) -> bytearray:
        """The whole answer, with what is read from files in it."""
        _read_ranges(response)
        data, _ = encode_answers([self._answer._replace(response=response, entry=None)])
        return data

    def _send(self, data: bytearray) -> None:
        self._answer.entry.sent(data)
        self._channel.send(data, [])

    def _send_corrupt(self, fault: Fault, response: Any) -> None:
        if fault.corrupt == "records" and not _corrupt_records(fault, response):
            fault.take_back(self._answer.entry)
        data = self._frame(response)
        if fault.corrupt == "length":
            data[:_CORRELATION_ID_AT] = b"\xff\xff\xff\xff"
        elif fault.corrupt == "correlation_id":
            _invert(data, _CORRELATION_ID_AT, _BODY_AT)
        elif fault.corrupt == "body":
            _invert(data, _BODY_AT, len(data))
        self._send(data)


def _invert(data: bytearray, start: int, end: int) -> None:
    data[start:end] = bytes(byte ^ 0xFF for byte in data[start:end])


def _partitions_with_records(response: Any) -> Iterator[tuple[str, Any]]:
    """(topic, partition) of an answer to a fetch; nothing of others."""
    for topic in getattr(response, "responses", ()):
        for partition in getattr(topic, "partitions", ()):
            if hasattr(partition, "records"):
                yield topic.topic, partition


def _read_ranges(response: Any) -> None:
    """Have the bytes themselves where an answer to a fetch has ranges of files."""
    for _, partition in _partitions_with_records(response):
        records = partition.records
        if records is not None and not isinstance(records, bytes | bytearray | memoryview):
            partition.records = records.read()


def _corrupt_records(fault: Fault, response: Any) -> bool:
    """Make the checksum of each partition's first batch a wrong one; False when there is no batch."""
    _read_ranges(response)
    found = False
    for topic, partition in _partitions_with_records(response):
        records = bytearray(partition.records or b"")
        if len(records) <= _CRC_AT or not fault.is_about(Target(topic, partition.partition_index)):
            continue
        records[_CRC_AT if records[MAGIC_AT] >= MAGIC_V2 else _CRC_OF_MESSAGES_AT] ^= 0xFF
        partition.records = bytes(records)
        found = True
    return found


class BlackHole(asyncio.BufferedProtocol):
    """Reads and forgets what comes for `connection`, on its transport; only the end is passed on to it."""

    def __init__(self, connection: asyncio.BaseProtocol) -> None:
        self._connection = connection
        self._buffer = memoryview(bytearray(_BLACK_HOLE_BYTES))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - required by asyncio
        """Return memory for unread bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Forget the bytes that have come."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on that the client has given up, or that the broker stops."""
        self._connection.connection_lost(exc)
