"""Requests held by a fault: the response is delayed, damaged or lost. A fault can also stop serving the connection."""

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

    from minibroker.clock import Timer
    from minibroker.cluster.routing.outcomes import Channel
    from minibroker.server.faults.fault import Fault
    from minibroker.server.faults.installed import MatchedFault

_BODY_AT: Final = 8
_BLACK_HOLE_BYTES: Final = 1 << 16
_CORRELATION_ID_AT: Final = 4
_CRC_AT: Final = 17
_CRC_OF_MESSAGES_AT: Final = 12

_CLOSING: Final = frozenset({"disconnect", "late"})
_WITHOUT_ANSWER: Final = _CLOSING | {"black_hole", "drop"}


class DelayedByFault(DelayedResponse):
    """A response that waits for the handler's response, if there is one, and for the delay of a fault.

    It then applies the fault. Like any delayed response it blocks later requests on its connection. Records that the
    request appended are written first.

    Args:
        channel: The connection.
        matched: The effect of the faults.
        answer: The answer, which does not contain the response yet.
        inner: The delayed response of the handler, or None.
    """

    def __init__(self, channel: Channel, matched: MatchedFault, answer: Answer, inner: DelayedResponse | None) -> None:
        self._channel = channel
        self._matched = matched
        self._answer = answer
        self._inner = inner
        self._timer: Timer | None = None
        self._gone = False
        if inner is not None:
            inner.deliver = self.proceed

    def cancel(self) -> None:
        """Cancel the request because its client disconnected."""
        self._gone = True
        if self._timer is not None:
            self._timer.cancel()
        if self._inner is not None:
            self._inner.cancel()

    def hasten(self) -> None:
        """Hasten the handler's delayed response, see `DelayedResponse`. The delay of the fault remains."""
        if self._inner is not None:
            self._inner.hasten()

    def waits_for(self) -> str:
        """Return a description of what the request waits for, see `DelayedResponse`."""
        return "the delay of a fault" if self._inner is None else self._inner.waits_for()

    def proceed(self, response: Any) -> None:
        """Continue with the handler's response, or with None if the request was not applied or has no response."""
        self._inner = None
        if self._gone:
            return
        if response is not None:
            if self._matched.throttle_ms and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = self._matched.throttle_ms
            self._answer.entry.answer(response)
            if self._matched.delay_ms:
                _read_ranges(response)  # Read the records now, because their files may be deleted during the delay.
        self._call_after(self._matched.delay_ms, partial(self._act_or_fail, response))

    def _call_after(self, delay_ms: float, then: Any) -> None:
        if delay_ms:
            self._timer = self._answer.call.core.clock.call_later(delay_ms, then)
        else:
            then()

    def _act_or_fail(self, response: Any) -> None:
        """Apply the fault. As usual, the connection is closed if the response cannot be encoded.

        The response is encoded before anything is sent, so that the client never gets a part of it.
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
        if action in _CLOSING:
            channel.end()
        elif action == "black_hole":
            channel.swallow()
        elif response is None:
            # There is no response, because the request was dropped before it was applied, or because it has acks=0.
            if not self._answer.entry.expects_response:
                channel.release()
        elif action == "drop":
            pass
        elif action == "truncate":
            assert fault is not None
            self._send(self._encode_frame(response)[: fault.truncate])
            channel.end()
        elif action == "corrupt":
            assert fault is not None
            self._send_corrupt(fault, response)
            channel.release()
        else:
            data = self._encode_frame(response)
            self._answer.entry.sent(data)
            self._send_pieces(self._matched.pieces(data) if self._matched.is_paced else iter([(data, 0)]))

    def _send_pieces(self, pieces: Iterator[tuple[bytes | bytearray, float]]) -> None:
        piece, pause_ms = next(pieces, (None, 0))
        if piece is None:
            self._call_after(self._matched.throttle_ms, self._channel.release)
        else:
            self._channel.send(bytearray(piece), [])
            self._call_after(pause_ms, partial(self._send_pieces, pieces))

    def _encode_frame(self, response: Any) -> bytearray:
        """Return the whole response frame, including records read from files."""
        _read_ranges(response)
        data, _ = encode_answers([self._answer._replace(response=response, entry=None)])
        return data

    def _send(self, data: bytearray) -> None:
        self._answer.entry.sent(data)
        self._channel.send(data, [])

    def _send_corrupt(self, fault: Fault, response: Any) -> None:
        if fault.corrupt == "records" and not _corrupt_records(fault, response):
            fault.remove_hit(self._answer.entry)
        data = self._encode_frame(response)
        corrupt_frame(data, fault)
        self._send(data)


class HeldRequest(DelayedResponse):
    """The response to a request that has not been applied yet. If its client disconnects, it is still applied."""

    _inner: DelayedResponse | None = None

    def cancel(self) -> None:
        """Drop the response, since the client has disconnected. The request is still applied."""
        self.deliver = ignore_response
        if self._inner is not None:
            self._inner.cancel()

    def waits_for(self) -> str:
        """Return a description of what the request waits for, see `DelayedResponse`."""
        return "the delay of a fault" if self._inner is None else self._inner.waits_for()

    def respond(self, response: Any) -> None:
        """Deliver the handler's response, perhaps once it is complete."""
        if isinstance(response, DelayedResponse):
            self._inner = response
            response.deliver = self.deliver
        else:
            self.deliver(response)


def ignore_response(response: Any) -> None:
    """Take a response, perhaps a delayed one, that nobody waits for."""
    if isinstance(response, DelayedResponse):
        response.deliver = ignore_response


def corrupt_frame(data: bytearray, fault: Fault) -> None:
    """Corrupt a response frame as a fault says, except for its records."""
    if fault.corrupt == "length":
        data[:_CORRELATION_ID_AT] = b"\xff\xff\xff\xff"
    elif fault.corrupt == "correlation_id":
        _invert(data, _CORRELATION_ID_AT, _BODY_AT)
    elif fault.corrupt == "body":
        _invert(data, _BODY_AT, len(data))


def _invert(data: bytearray, start: int, end: int) -> None:
    data[start:end] = bytes(byte ^ 0xFF for byte in data[start:end])


def _partitions_with_records(response: Any) -> list[tuple[str, Any]]:
    """Return (topic name, partition) for each partition of a fetch response, or nothing for other responses."""
    return [
        (topic.topic, partition)
        for topic in getattr(response, "responses", ())
        for partition in getattr(topic, "partitions", ())
        if hasattr(partition, "records")
    ]


def _read_ranges(response: Any) -> None:
    """Replace the file ranges in a fetch response with their bytes."""
    for _, partition in _partitions_with_records(response):
        records = partition.records
        if records is not None and not isinstance(records, bytes | bytearray | memoryview):
            partition.records = records.read()


def remove_records(response: Any) -> Any:
    """Return a fetch response without its records."""
    for _, partition in _partitions_with_records(response):
        if partition.records:
            partition.records = b""
    return response


def _corrupt_records(fault: Fault, response: Any) -> bool:
    """Corrupt the checksum of each partition's first batch. Return False if there is no batch."""
    _read_ranges(response)
    has_batch = False
    for topic, partition in _partitions_with_records(response):
        records = bytearray(partition.records or b"")
        if len(records) <= _CRC_AT or not fault.applies_to(Target(topic, partition.partition_index)):
            continue
        records[_CRC_AT if records[MAGIC_AT] >= MAGIC_V2 else _CRC_OF_MESSAGES_AT] ^= 0xFF
        partition.records = bytes(records)
        has_batch = True
    return has_batch


class BlackHole(asyncio.BufferedProtocol):
    """A protocol that discards all received bytes. Only the end of the connection is passed on to `connection`."""

    def __init__(self, connection: asyncio.BaseProtocol) -> None:
        self._connection = connection
        self._buffer = memoryview(bytearray(_BLACK_HOLE_BYTES))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - required by asyncio
        """Return memory for received bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Discard the received bytes."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on the end of the connection, whether the client closed it or the broker stops."""
        self._connection.connection_lost(exc)
