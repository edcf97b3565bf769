"""A short report on a broker's content and newest requests, for the report of a failed test."""

from typing import Final

from minibroker.clock import SystemClock
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.operations.matching import show
from minibroker.operations.schemas import decode_entry
from minibroker.operations.wording import format_count, format_duration
from minibroker.server.inspection.journal import Entry, Journal
from minibroker.server.inspection.recording import journal_of
from minibroker.server.inspection.request_lines import fold_repeats, line_of
from minibroker.server.services import Services

_SHOWN_RECORDS: Final = 5
"""Records shown of a request, if the broker has schemas."""
_SHOWN_NAMES: Final = 50
"""Maximum number of topics, and of groups."""


async def overview(services: Services, requests: int) -> str:
    """Return a line for each topic, for each group, and for each of the newest requests of a running broker.

    If the broker has schemas, the decoded keys and values of a request's first records follow it.
    """
    services.core.writes.commit()
    topics: list[str] = []
    for topic in sorted(services.core.topics, key=lambda topic: topic.name):
        if not topic.is_internal:
            logs = [partition.log for partition in topic.partitions]
            ranges = [f"{log.log_start_offset}..{log.high_watermark}" if log.high_watermark else "" for log in logs]
            filled = ", ".join(f"{index}: {offsets}" for index, offsets in enumerate(ranges) if offsets)
            size = format_count(len(logs), "partition")
            meant = services.misspelt_topics.get(topic.name)
            hint = f"; created for a client, did you mean {meant!r}?" if meant else ""
            topics.append(f"  {topic.name} ({size}), {f'offsets {filled}' if filled else 'no records'}{hint}")
    groups = [
        f"  {group.group_id}: {group.state.value}, {format_count(len(group.members), 'member')}"
        f"{_describe_commits(services, group)}"
        for group in sorted(services.groups.store.groups(), key=lambda group: group.group_id)
    ]
    lines = [*_list("topics", topics), *_list("groups", groups)]
    if isinstance(services.core.clock, SystemClock) and services.core.clock.ahead_ms:
        lines.append(f"clock: {format_duration(services.core.clock.ahead_ms / 1000)} ahead of the machine's")
    lines += [f"hint: {hint}" for hint in services.core.advice.security_hints()]
    journal = journal_of(services)
    if journal is not None:
        entries = list(journal)
        folded = fold_repeats(entries, requests)
        shown = sum(times for _, times in folded)
        left_out = f", the last {shown} of {len(entries)}" if len(entries) > shown else ""
        lines.append(f"requests{left_out}:" if entries else "requests: none")
        for entry, times in folded:
            repeated = f", {times} times" if times > 1 else ""
            lines.append(f"  {line_of(entry)}{repeated}{_describe_age(journal, entry)}")
            records = await decode_entry(services, entry, _SHOWN_RECORDS)
            lines += [f"    key={show(key)}, value={show(value)}" for key, value in records]
    return "\n".join(lines)


def _list(title: str, lines: list[str]) -> list[str]:
    """Return a title with the first of its lines below it."""
    more = [f"  and {len(lines) - _SHOWN_NAMES} more"] if len(lines) > _SHOWN_NAMES else []
    return [f"{title}:", *lines[:_SHOWN_NAMES], *more] if lines else [f"{title}: none"]


def _describe_commits(services: Services, group: AnyGroup) -> str:
    """Return how far a group has committed each topic. A share group commits nothing."""
    if isinstance(group, ShareGroup):
        return ""
    parts: list[str] = []
    for name, offsets in group.offsets.committed.items():
        if (topic := services.core.topics.get(name)) is not None:
            end = sum(partition.log.high_watermark for partition in topic.partitions)
            parts.append(f"{sum(commit.offset for commit in offsets.values())} of {end} in {name}")
    return f", committed {', '.join(parts)}" if parts else ", nothing committed"


def _describe_age(journal: Journal, entry: Entry) -> str:
    """Return a note about a client that connected before the last reset, such as one that a failed test left open."""
    return "; connected before the reset" if entry.opened_after < journal.cleared_after else ""
