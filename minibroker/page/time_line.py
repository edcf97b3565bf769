"""The time line: requests and events in their order, and the broker as it was at one of the requests.

Its axis are the numbers of the requests. An event lies behind the last request that came before it.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import deque
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.cluster.topics import CONSUMER_OFFSETS
from minibroker.errors import NotFoundError, OperationError
from minibroker.operations.views.past import past_groups
from minibroker.page.follow.links import told_marks
from minibroker.trace.exchange import Kind
from minibroker_protocol.api_keys import ApiKey
from minibroker_storage.errors import StorageError

if TYPE_CHECKING:
    from minibroker.control.remote import Remote
    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.page.recorder import Recorder
    from minibroker.trace.exchange import Exchange

_BUCKETS: Final = 200
_MOST_EVENTS: Final = 500
_MOST_REBALANCES: Final = 2_000
_MOST_LOOKED_AT: Final = 5_000
"""Requests that are looked through backwards for what they tell of logs."""
_MOST_PARTITIONS: Final = 200
_AT_ONCE: Final = 500
_MOST_BESIDE: Final = 100
"""Requests that may have come while another one was served."""
_SLICE_S: Final = 0.002
_FAMILIES: Final = {
    int(ApiKey.PRODUCE): "produce",
    int(ApiKey.FETCH): "fetch",
    int(ApiKey.SHARE_FETCH): "fetch",
    int(ApiKey.OFFSET_COMMIT): "groups",
    int(ApiKey.TXN_OFFSET_COMMIT): "groups",
    int(ApiKey.JOIN_GROUP): "groups",
    int(ApiKey.SYNC_GROUP): "groups",
    int(ApiKey.LEAVE_GROUP): "groups",
    int(ApiKey.HEARTBEAT): "groups",
    int(ApiKey.CONSUMER_GROUP_HEARTBEAT): "groups",
    int(ApiKey.SHARE_GROUP_HEARTBEAT): "groups",
}
FAMILIES: Final[tuple[str, ...]] = ("produce", "fetch", "groups", "other")
_HEARTBEATS: Final = frozenset({int(ApiKey.CONSUMER_GROUP_HEARTBEAT), int(ApiKey.SHARE_GROUP_HEARTBEAT)})
_REBALANCING: Final = frozenset({int(ApiKey.JOIN_GROUP), *_HEARTBEATS})


class _Mark(NamedTuple):
    """An event at a request."""

    request: int
    time_ms: int
    kind: str
    text: str


class TimeLine:
    """The time line of one recorder. It reads each exchange once, when somebody looks."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._next = 1
        self._waiting: set[int] = set()
        self._generations: deque[tuple[str, int]] = deque(maxlen=_MOST_REBALANCES)
        self._rebalances: deque[_Mark] = deque(maxlen=_MOST_REBALANCES)
        self._lock = asyncio.Lock()

    async def view(self) -> dict[str, Any]:
        """The counts of requests by buckets, and the newest 500 events."""
        recorder = self._recorder
        recorder.catch_up()
        first, last = recorder.first, recorder.last
        size = max(1, -(-(last - first + 1) // _BUCKETS))
        count = -(-(last - first + 1) // size)
        buckets: list[dict[str, int]] = [{family: 0 for family in FAMILIES} for _ in range(count)]  # noqa: C420 - pyright takes the keys of fromkeys for literals
        times: list[int] = []
        began = time.perf_counter()
        for begin in range(first, last + 1, _AT_ONCE):
            for exchange in recorder.between(begin, min(begin + _AT_ONCE - 1, last)):
                family = _FAMILIES.get(exchange.api_key, "other")
                buckets[(exchange.number - first) // size][family] += 1
                times.append(exchange.time_ms)
            if time.perf_counter() - began > _SLICE_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
        await self._find_rebalances(last)
        start = last - len(times) + 1  # the ring may have forgotten some meanwhile
        marks = [mark for mark in self._rebalances if mark.request >= first]
        marks += [
            _Mark(start - 1 + bisect_right(times, each.time_ms), each.time_ms, each.kind, each.text)
            for each in recorder.events.all()
        ]
        marks.sort(key=lambda mark: (mark.time_ms, mark.request))
        return {
            "first": first,
            "last": last,
            "left_out": recorder.left_out,
            "bucket": size,
            "buckets": buckets,
            "events": [mark._asdict() for mark in marks[-_MOST_EVENTS:]],
            "event_count": len(marks),
        }

    async def _find_rebalances(self, last: int) -> None:
        async with self._lock:
            for number in sorted(self._waiting):
                self._waiting.discard(number)
                self._look(number, number)
            began = time.perf_counter()
            while self._next <= last:
                self._next = max(self._next, self._recorder.first)
                stop = min(self._next + _AT_ONCE - 1, last)
                self._look(self._next, stop)
                self._next = stop + 1
                if time.perf_counter() - began > _SLICE_S:
                    await asyncio.sleep(0)
                    began = time.perf_counter()

    def _look(self, first: int, last: int) -> None:
        for exchange in self._recorder.between(first, last):
            if exchange.api_key not in _REBALANCING or exchange.kind is not Kind.REQUEST:
                continue
            if not exchange.bytes_out and exchange.failure is None:
                self._waiting.add(exchange.number)
                continue
            self._note_rebalance(exchange)

    def _note_rebalance(self, exchange: Exchange) -> None:
        reading = self._recorder.rows.reading(exchange)
        request, response = reading.request, reading.response
        if request is None or response is None or response.error_code:
            return
        group: str = request.group_id
        if exchange.api_key in _HEARTBEATS:
            if response.assignment is None:
                return
            generation = int(response.member_epoch)
            text = f"Group {group}: {reading.client_id} has a new assignment in epoch {generation}."
        else:
            generation = int(response.generation_id)
            if (group, generation) in self._generations:
                return
            self._generations.append((group, generation))
            text = f"Group {group} has come to generation {generation}."
        ended = exchange.time_ms + round((exchange.ended_ms or exchange.began_ms) - exchange.began_ms)
        self._rebalances.append(_Mark(exchange.number, ended, "rebalance", text))

    async def moment(self, remote: Remote, number: int) -> dict[str, Any]:
        """Groups, offsets and logs as they were when request `number` was answered. NotFoundError.

        `was_cleaned`: compaction has removed records of groups since then, so some may be missing.
        """
        exchange = self._recorder.find(number)
        if exchange is None:
            raise NotFoundError(f"request {number}: it is not kept")
        ended = exchange.began_ms if exchange.ended_ms is None else exchange.ended_ms
        at_ms = self._end_of(exchange, ended)

        async def groups(broker: AsyncOperations) -> dict[str, Any]:
            return asdict(await past_groups(broker.services, at_ms))

        marked, looked_at = await self._marks_at(number, ended)

        async def now(broker: AsyncOperations) -> list[dict[str, Any]]:
            core = broker.services.core
            shown: list[dict[str, Any]] = []
            for (topic, partition), marks in sorted(marked.items())[:_MOST_PARTITIONS]:
                found = core.topics.get(topic)
                log = found.partitions[partition].log if found and partition < len(found.partitions) else None
                end = None if log is None else log.log_end_offset
                shown.append({"topic": topic, "partition": partition, **marks, "end_now": end})
            return shown

        try:
            past, logs = await remote(groups), await remote(now)
        except (StorageError, OSError) as error:
            raise OperationError(f"__consumer_offsets: {error}") from None
        was_cleaned = any(
            each.kind == "cleaning" and each.topic == CONSUMER_OFFSETS and each.time_ms > at_ms
            for each in self._recorder.events.all()
        )
        facts = {"number": number, "time": at_ms, "looked_at": looked_at, "was_cleaned": was_cleaned}
        return {**facts, **past, "logs": logs}

    def _end_of(self, exchange: Exchange, ended_ms: float) -> int:
        """The last ms in which the request may have changed something, but before the one that came after it."""
        certain = exchange.time_ms + int(ended_ms - exchange.began_ms)
        following = self._recorder.between(exchange.number + 1, exchange.number + _MOST_BESIDE)
        after = next((each.time_ms for each in following if each.began_ms >= ended_ms), certain + 2)
        return min(certain + 1, max(certain, after - 1))

    async def _marks_at(self, number: int, ended_ms: float) -> tuple[dict[tuple[str, int], dict[str, int]], int]:
        """The newest marks of each log that responses up to this moment tell, and how many were looked at."""
        marked: dict[tuple[str, int], dict[str, int]] = {}
        recorder = self._recorder
        lowest = max(recorder.first, number - _MOST_LOOKED_AT + 1)
        began = time.perf_counter()
        for current in range(number, lowest - 1, -1):
            exchange = recorder.find(current)
            if exchange is None:
                break
            if exchange.ended_ms is not None and exchange.ended_ms <= ended_ms:
                for place, marks in told_marks(exchange, recorder.rows.topics):
                    known = marked.setdefault(place, {})
                    marked[place] = {**marks, "request": current, **known}  # what was told later counts
            if time.perf_counter() - began > _SLICE_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
        return marked, number - lowest + 1
