"""A request and its response in one line, for people who watch a broker.

Produce v11 orders-0 (3 records, 182 bytes) from rdkafka 127.0.0.1:51234: ok in 0.4 ms
JoinGroup v9 group billing from consumer-1 127.0.0.1:51236: MEMBER_ID_REQUIRED in 0.2 ms
"""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final

from minibroker.server.inspection.journal import Entry
from minibroker.server.inspection.message_json import RecordsSummary, summary
from minibroker.server.requests.declarations import Target
from minibroker_protocol.primitives import RECORDS, WireType
from minibroker_protocol.schema import fields_of

_MOST_NAMES: Final = 5
_IDLE_APIS: Final = frozenset(
    {"Fetch", "ShareFetch", "Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"}
)


def line_of(entry: Entry) -> str:
    """Return the line for an entry, without a line end."""
    line = _line_without_time(entry)
    return line if entry.duration_ms is None else f"{line} in {entry.duration_ms:.1f} ms"


def _line_without_time(entry: Entry) -> str:
    words = [f"{entry.api or 'unreadable request'} v{entry.version}" if entry.version >= 0 else "unreadable request"]
    words += subjects_of(entry.targets)
    if records := records_of(entry.request):
        words.append(f"({records})")
    client = entry.connection.rpartition("-")[2]
    words.append(f"from {entry.client_id} {client}" if entry.client_id else f"from {client}")
    return f"{' '.join(words)}: {_format_outcome(entry)}"


def fold_repeats(entries: Sequence[Entry], limit: int) -> list[tuple[Entry, int]]:
    """Return at most `limit` of the newest requests, oldest first, each with the number of requests it stands for.

    It stands for earlier ones whose lines differ in the duration alone, if only heartbeats and fetches without records
    came in between. Requests with records are not folded.
    """
    folded: list[tuple[Entry, int]] = []
    repeats: dict[str, int] = {}
    for entry in reversed(entries):
        line = _line_without_time(entry)
        if line in repeats and not records_of(entry.request):
            newest, times = folded[repeats[line]]
            folded[repeats[line]] = newest, times + 1
            continue
        if len(folded) == limit:
            break
        if entry.api not in _IDLE_APIS or not line.endswith(": ok"):
            repeats.clear()
        repeats[line] = len(folded)
        folded.append((entry, 1))
    return folded[::-1]


def _format_outcome(entry: Entry) -> str:
    parts: list[str] = []
    if entry.chaos is not None:
        parts.append(f"chaos {entry.chaos.row}")
    if entry.fault is not None:
        parts.append(f"fault {entry.fault.to_json()}")
    if entry.failure is not None:
        parts.append(f"connection closed: {entry.failure}")
    elif not entry.is_answered:
        parts.append("no answer yet" if entry.origin.request is entry else "no answer")
    else:
        errors = " ".join(sorted(code.name for code in entry.error_codes))
        reasons = list(dict.fromkeys(_reasons_of(entry.response)))[:_MOST_NAMES] if errors else []
        parts.append(f"{errors} ({'; '.join(reasons)})" if reasons else errors or "ok")
        if records := records_of(entry.response):
            parts.append(records)
    return ", ".join(parts)


def _reasons_of(message: Any) -> Iterator[str]:
    """Yield the texts with which a response explains its error codes."""
    for field in () if message is None else fields_of(message.__class__):
        value = getattr(message, field.name)
        if isinstance(value, str):
            if value and field.name.endswith("error_message"):
                yield value
        elif not isinstance(field.kind, WireType):
            for element in (value or ()) if field.is_array else (value,):
                yield from _reasons_of(element)


def subjects_of(targets: Sequence[Target]) -> Sequence[str]:
    """Return the subjects of a request with these targets, limited to the first few."""
    if len(targets) > _MOST_NAMES:
        return tuple(_subjects_of(targets))
    return _cached_subjects(tuple(targets))


@lru_cache(maxsize=1000)
def _cached_subjects(targets: tuple[Target, ...]) -> tuple[str, ...]:
    """Like subjects_of(), but cached, for the few targets that recur."""
    return tuple(_subjects_of(targets))


def _subjects_of(targets: Sequence[Target]) -> Iterator[str]:
    partitions_by_topic: dict[str, set[int]] = {}
    for target in targets:
        if target.topic is not None:
            partitions = partitions_by_topic.setdefault(target.topic, set())
            if target.partition is not None:
                partitions.add(target.partition)
    names = [
        _shorten_names(f"{topic}-", [*map(str, sorted(partitions))]) if partitions else topic
        for topic, partitions in partitions_by_topic.items()
    ]
    if names:
        yield _shorten_names("", names)
    for kind, names_of_kind in (
        ("group", {target.group for target in targets if target.group}),
        ("transactional id", {target.transactional_id for target in targets if target.transactional_id}),
    ):
        if names_of_kind:
            yield _shorten_names(f"{kind} ", sorted(names_of_kind))


def _shorten_names(prefix: str, names: Sequence[str]) -> str:
    remainder = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{prefix}{','.join(names[:_MOST_NAMES])}{remainder}"


def records_of(message: Any) -> str:
    """Return a text with the number and size of the records in a message, or "" if there are none."""
    summaries = [records_summary for records_summary in _summaries(message) if records_summary.size]
    if not summaries:
        return ""
    size = sum(records_summary.size for records_summary in summaries)
    counts = [records_summary.records for records_summary in summaries if records_summary.records is not None]
    number = sum(counts)
    counted = f"{number} record{'' if number == 1 else 's'}, " if len(counts) == len(summaries) else ""
    return f"{counted}{size} bytes"


def _summaries(message: Any) -> Iterator[RecordsSummary]:
    if message is None:
        return
    for name, is_array, is_structure in _record_fields(message.__class__):
        value = getattr(message, name)
        for element in (value or ()) if is_array else (value,):
            if is_structure:
                yield from _summaries(element)
            elif (records_summary := summary(element)) is not None:
                yield records_summary


@cache
def _record_fields(cls: type[Any]) -> tuple[tuple[str, bool, bool], ...]:
    """Return the fields that are or contain records, each with its name, an is-array and an is-structure flag."""
    return tuple(
        (field.name, field.is_array, field.kind is not RECORDS) for field in fields_of(cls) if _has_records(field.kind)
    )


def _has_records(kind: Any) -> bool:
    return kind is RECORDS or (not isinstance(kind, WireType) and bool(_record_fields(kind)))
