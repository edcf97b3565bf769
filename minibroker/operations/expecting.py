"""Waits for records and for clients' requests, and checks records against expectations."""

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from minibroker.cluster import errors
from minibroker.cluster.topics import Topic
from minibroker.config.names import misspelling
from minibroker.operations import schemas
from minibroker.operations.matching import Decode, RecordMatcher, describe, explain
from minibroker.operations.records import ConsumerRecord, end_offsets, missing_topic_message, record_slices
from minibroker.operations.waiting import check_not_negative, eventually, run_in_slices
from minibroker.operations.wording import format_count
from minibroker.server.inspection.journal import Entry, Journal
from minibroker.server.services import Services
from minibroker_storage.log import Log

__tracebackhide__ = errors.is_the_callers

Matching: TypeAlias = RecordMatcher | Callable[[ConsumerRecord], bool]

_SHOWN = 10


class _MatchingRecords:
    """The matching committed records of a topic, which need not exist yet. Each record is read once."""

    def __init__(self, services: Services, topic: str, matching: Matching | None) -> None:
        self._services = services
        self._topic = topic
        self._matching = matching
        self._read: dict[int, int] = {}
        self._current_topic: Topic | None = None
        self.decode = schemas.Decoder(services)
        self.seen: list[ConsumerRecord] = []
        self.found: list[ConsumerRecord] = []

    def logs(self) -> list[Log]:
        """Return the logs of the topic, or none before it exists."""
        topic = self._services.core.topics.get(self._topic)
        return [] if topic is None else [partition.log for partition in topic.partitions]

    async def check(self) -> None:
        """Read new records. If the topic is deleted in the meantime, the next call starts over."""
        topic = self._services.core.topics.get(self._topic)
        if topic is None:
            return
        if topic is not self._current_topic:  # The topic was created, recreated or restored.
            self._current_topic = topic
            self._read, self.seen, self.found, self.decode = {}, [], [], schemas.Decoder(self._services)
        with contextlib.suppress(errors.NotFoundError):
            for index, end in end_offsets(self._services, self._topic).items():
                if end > (start := self._read.get(index, 0)):
                    self._read[index] = end
                    async for new in record_slices(self._services, topic.partitions[index], start, end, committed=True):
                        is_compared = isinstance(self._matching, RecordMatcher)
                        await self.decode.add(new if is_compared else new[: max(_SHOWN - len(self.seen), 0)])
                        self.seen += new
                        self.found += filter(self._is_match, new)

    def _is_match(self, record: ConsumerRecord) -> bool:
        if isinstance(self._matching, RecordMatcher):
            return self._matching.matches(record, self.decode)
        return self._matching is None or self._matching(record)


async def wait_for_records(
    services: Services,
    topic: str,
    count: int = 1,
    *,
    matching: Matching | None = None,
    timeout: float,  # noqa: ASYNC109 - part of the API
) -> list[ConsumerRecord]:
    """Wait until a topic has `count` committed records that match, and return all matching records.

    Raises:
        WaitTimeoutError: the message shows the records in the topic, and the faults that have hit requests.
    """
    check_not_negative("count", count, hint=f"; expect({topic!r}, {count!r}) waits for a record like this")
    matching_records = _MatchingRecords(services, topic, matching)

    async def check() -> list[ConsumerRecord] | None:
        await matching_records.check()
        return matching_records.found if len(matching_records.found) >= count else None

    def describe_failure() -> str:
        expected = f"expected {format_count(count, 'record')} in {topic!r} within {timeout:g} s"
        if services.core.topics.get(topic) is None:
            return f"{expected}; {missing_topic_message(services, topic)}"
        if isinstance(matching, RecordMatcher):
            comparison = explain(matching, matching_records.seen, matching_records.decode)
            return f"{expected}, {len(matching_records.found)} match\n{comparison}"
        found = f"{len(matching_records.found)} match, of" if matching is not None else "found"
        summary = f"{expected}; {found} {len(matching_records.seen)}"
        return "\n".join([summary, *_describe_records(matching_records.seen, matching_records.decode)])

    def describe_with_faults() -> str:
        return "\n".join([describe_failure(), *_describe_faults(services)])

    return await eventually(check, describe_with_faults, timeout, matching_records.logs)


async def expect_no_records(services: Services, topic: str, matcher: RecordMatcher, within: float) -> None:
    """Check that no committed record of a topic matches, now or within the next `within` seconds.

    The topic need not exist; a MinibrokerWarning is issued if its name seems misspelled.

    Raises:
        UnexpectedRecordError: a record matches; the message shows all matching records.
    """
    check_not_negative("within", within, " s")
    matching_records = _MatchingRecords(services, topic, matcher)

    async def check() -> list[ConsumerRecord] | None:
        await matching_records.check()
        return matching_records.found or None

    try:
        records = await eventually(check, str, within, matching_records.logs)
    except errors.WaitTimeoutError:
        _warn_of_misspelling(services, topic)
        return
    expectation = "record" if matcher == RecordMatcher() else str(matcher)
    lines = [
        f"expected no {expectation} in {topic!r}, found {format_count(len(records), 'record')}",
        *_describe_records(records, matching_records.decode),
    ]
    raise errors.UnexpectedRecordError("\n".join(lines))


def _warn_of_misspelling(services: Services, name: str) -> None:
    """Issue a MinibrokerWarning if the topic does not exist and its name resembles that of an existing topic."""
    topics = services.core.topics
    if topics.get(name) is None and misspelling(name, [topic.name for topic in topics]):
        errors.warn_caller(f"expect_none: {missing_topic_message(services, name)}")


def _describe_records(records: list[ConsumerRecord], decode: Decode) -> list[str]:
    """Return a line for each of the first records."""
    lines = [f"  {describe(record, decode)}" for record in records[:_SHOWN]]
    if len(records) > _SHOWN:
        lines.append(f"  and {len(records) - _SHOWN} more")
    return lines


def _describe_faults(services: Services) -> list[str]:
    """Return a line for each installed fault that has hit a request."""
    return [f"{fault} has hit {format_count(fault.fired, 'request')}" for fault in services.faults or () if fault.fired]


async def wait_for_requests(
    services: Services,
    journal: Journal,
    count: int,
    filters: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 - part of the API
) -> list[Entry]:
    """Wait until the journal has `count` entries that match the filters, and return all matching entries.

    Raises:
        WaitTimeoutError: the message lists all requests.
    """
    check_not_negative("count", count, hint=f"; wait_for_requests(api={count!r}) waits for requests of an API")

    async def check() -> list[Entry] | None:
        requests = await run_in_slices(services, journal.find(**filters))
        return requests if len(requests) >= count else None

    def describe_failure() -> str:
        asked = ", ".join(f"{name}={value!r}" for name, value in filters.items() if value is not None) or "any"
        came = ", ".join(f"{name} {number}x" for name, number in Counter(entry.api for entry in journal).most_common())
        fitting = len(journal.entries(**filters))
        expected = f"expected {format_count(count, 'request')} ({asked}) within {timeout:g} s"
        return f"{expected}, found {fitting}; all requests so far: {came or 'none'}"

    return await eventually(check, describe_failure, timeout)
