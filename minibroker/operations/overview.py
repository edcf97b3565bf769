"""A short report on a broker's content and newest requests, for the report of a failed test."""

from typing import Final

from minibroker.clock import SystemClock
from minibroker.operations.matching import show
from minibroker.operations.schemas import decode_entry
from minibroker.operations.wording import format_count, format_duration
from minibroker.server.inspection.journal import Entry, Journal
from minibroker.server.inspection.recording import journal_of
from minibroker.server.inspection.request_lines import line_of
from minibroker.server.services import Services

_SHOWN_RECORDS: Final = 5
"""Records shown of a request, if the broker has schemas."""


async def overview(services: Services, requests: int) -> str:
    """Return a line for each topic, for each group, and for each of the newest requests of a running broker.

    If the broker has schemas, the decoded keys and values of a request's first records follow it.
    """
    services.core.writes.commit()
    lines = ["topics:"]
    for topic in sorted(services.core.topics, key=lambda topic: topic.name):
        if not topic.is_internal:
            logs = [partition.log for partition in topic.partitions]
            ranges = [f"{log.log_start_offset}..{log.high_watermark}" if log.high_watermark else "" for log in logs]
            filled = ", ".join(f"{index}: {offsets}" for index, offsets in enumerate(ranges) if offsets)
            size = format_count(len(logs), "partition")
            meant = services.misspelt_topics.get(topic.name)
            hint = f"; created for a client, did you mean {meant!r}?" if meant else ""
            lines.append(f"  {topic.name} ({size}), {f'offsets {filled}' if filled else 'no records'}{hint}")
    if len(lines) == 1:
        lines = ["topics: none"]
    groups = sorted(services.groups.store.groups(), key=lambda group: group.group_id)
    lines += ["groups:" if groups else "groups: none"]
    lines += [
        f"  {group.group_id}: {group.state.value}, {format_count(len(group.members), 'member')}" for group in groups
    ]
    if isinstance(services.core.clock, SystemClock) and services.core.clock.ahead_ms:
        lines.append(f"clock: {format_duration(services.core.clock.ahead_ms / 1000)} ahead of the machine's")
    lines += [f"hint: {hint}" for hint in services.core.advice.security_hints()]
    journal = journal_of(services)
    if journal is not None:
        entries = list(journal)
        left_out = f", the last {requests} of {len(entries)}" if len(entries) > requests else ""
        lines.append(f"requests{left_out}:" if entries else "requests: none")
        for entry in entries[-requests:]:
            lines.append(f"  {line_of(entry)}{_describe_age(journal, entry)}")
            records = await decode_entry(services, entry, _SHOWN_RECORDS)
            lines += [f"    key={show(key)}, value={show(value)}" for key, value in records]
    return "\n".join(lines)


def _describe_age(journal: Journal, entry: Entry) -> str:
    """Return a note about a client that connected before the last reset, such as one that a failed test left open."""
    return "; connected before the reset" if entry.opened_after < journal.cleared_after else ""
