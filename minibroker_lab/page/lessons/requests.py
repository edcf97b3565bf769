"""Goals about requests and batches, for lessons 1, 2 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.operations.wording import format_count
from minibroker_lab.page.lessons.evidence import join_numbers, last_of, no_records_text, request_link
from minibroker_lab.page.lessons.lesson import Finding, Goal, reached, report_open

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker_lab.page.lessons.evidence import Evidence
    from minibroker_lab.reading import Reading

_MIN_RECORDS: Final = 10
_MIN_WAIT_MS: Final = 500
_IMMEDIATE_MS: Final = 20


def _check_negotiated(evidence: Evidence) -> Finding:
    for reading in evidence.readings("ApiVersions"):
        if reading.client_id != "by-hand" and reading.response is not None:
            count = len(reading.response.api_keys)
            link = f"{request_link(reading.exchange)} is that of {reading.client_id!r}"
            return reached(f"{link}: it asked with version {reading.exchange.version} and learned of {count} APIs.")
    by_hand = last_of(evidence.all_readings("ApiVersions"))
    return report_open("No ApiVersions has come." if by_hand is None else "Only `by-hand` has asked for versions.")


def _check_by_hand(evidence: Evidence) -> Finding:
    for reading in evidence.readings("ApiVersions"):
        if reading.client_id == "by-hand" and reading.exchange.version == 0 and not reading.errors:
            return reached(f"{request_link(reading.exchange)} is yours: {reading.exchange.bytes_in} bytes.")
    newest = last_of(evidence.all_readings("ApiVersions", "unreadable"))
    if newest is None:
        return report_open("No ApiVersions has come.")
    link = request_link(newest.exchange)
    if newest.api == "unreadable":
        return report_open(f"{link} is too short for a header.")
    return report_open(f"{link} has version {newest.exchange.version} and the client id {newest.client_id!r}.")


def _check_unsupported(evidence: Evidence) -> Finding:
    versions: set[int] = set()
    for reading in evidence.all_readings("ApiVersions"):
        if "UNSUPPORTED_VERSION" in reading.errors:
            link, version = request_link(reading.exchange), reading.exchange.version
            return reached(f"{link} asked with version {version}. The response is in version 0.")
        versions.add(reading.exchange.version)
    if not versions:
        return report_open("No ApiVersions has come.")
    return report_open(f"ApiVersions has come with version {join_numbers(versions)}, which the broker has.")


A_REQUEST_IS_BYTES: Final = (
    Goal(
        "negotiated",
        "Connect any Kafka client, so that it requests the API versions of the broker.",
        "List the topics with a client. It sends ApiVersions before anything else.",
        _check_negotiated,
    ),
    Goal(
        "by-hand",
        "Send an ApiVersions request in version 0 by hand, with the client id `by-hand`.",
        "The frame: length (4 bytes), API key 18 and version 0 (2 each), correlation id (4), length of the id (2), id.",
        _check_by_hand,
    ),
    Goal(
        "unsupported",
        "Use a version that the broker does not have, and read the error.",
        "Put 99 into your frame as the version: `00 63` in bytes 7 and 8. The response is in version 0.",
        _check_unsupported,
    ),
)


def _check_lingered(evidence: Evidence) -> Finding:
    largest = 0
    for log in evidence.logs("orders"):
        for batch in log.batches:
            if (batch.records or 0) >= _MIN_RECORDS:
                link = log.link(batch.base_offset)
                return reached(f"{link} has a batch of {batch.records} records in {batch.size} bytes.")
            largest = max(largest, batch.records or 0)
    if not largest:
        return report_open(no_records_text("orders"))
    return report_open(f"The largest batch in `orders` has {format_count(largest, 'record')}.")


def _check_compressed(evidence: Evidence) -> Finding:
    batches = [(log, batch) for log in evidence.logs("orders") for batch in log.batches]
    compressed = [(log, batch) for log, batch in batches if batch.codec != "none"]
    for log, batch in compressed:
        if (batch.records or 0) >= _MIN_RECORDS:
            link = log.link(batch.base_offset)
            return reached(f"{link}: {batch.records} records in {batch.size} bytes with {batch.codec}.")
    if not batches:
        return report_open(no_records_text("orders"))
    share = f"Compressed batches in `orders`: {len(compressed)} of {len(batches)}"
    if not compressed:
        return report_open(f"{share}.")
    newest = compressed[-1][1]
    return report_open(f"{share}; the last one has {format_count(newest.records or 0, 'record')} with {newest.codec}.")


def _check_unacknowledged(evidence: Evidence) -> Finding:
    newest = None
    for reading in evidence.readings("Produce"):
        if reading.request.acks == 0:
            link = request_link(reading.exchange)
            return reached(f"{link} has no response: the client cannot know whether it was written.")
        newest = reading
    if newest is None:
        return report_open("No Produce has come.")
    return report_open(f"{request_link(newest.exchange)}, the last Produce, has acks={newest.request.acks}.")


PRODUCING: Final = (
    Goal(
        "lingered",
        "Write a batch of at least ten records to the topic `orders`.",
        "Set `linger.ms` to 1000 and send ten records without waiting in between.",
        _check_lingered,
    ),
    Goal(
        "compressed",
        "Write a compressed batch of at least ten records.",
        "Set `compression.type` to `zstd`, and give the records similar values.",
        _check_compressed,
    ),
    Goal("unacknowledged", "Write a record without waiting for the broker.", "Set `acks` to 0.", _check_unacknowledged),
)


def _check_waited(evidence: Evidence) -> Finding:
    longest = None
    for reading in evidence.readings("Fetch"):
        exchange = reading.exchange
        if exchange.ended_ms is None:
            continue
        waited = exchange.ended_ms - exchange.began_ms
        if waited >= _MIN_WAIT_MS:
            link, max_wait_ms = request_link(exchange), reading.request.max_wait_ms
            return reached(f"{link} waited for {waited:.0f} ms; it may wait for {max_wait_ms}.")
        longest = max(longest or 0, waited)
    if longest is None:
        return report_open("No Fetch has been answered.")
    return report_open(f"The longest Fetch took {longest:.0f} ms.")


def _check_in_session(evidence: Evidence) -> Finding:
    newest = None
    for reading in evidence.readings("Fetch"):
        if reading.request.session_epoch > 0 and not reading.request.topics:
            link = request_link(reading.exchange)
            return reached(f"{link} names no partition: session {reading.request.session_id} has them.")
        newest = reading
    if newest is None:
        return report_open("No Fetch has come.")
    link, client = request_link(newest.exchange), newest.client_id
    if newest.request.session_epoch < 0:
        return report_open(f"{link}, the last Fetch, is that of {client!r} and wants no session.")
    count = sum(len(topic.partitions) for topic in newest.request.topics)
    return report_open(f"{link}, the last Fetch, is that of {client!r} and names {format_count(count, 'partition')}.")


def _check_woken(evidence: Evidence) -> Finding:
    newest = "No Fetch has been answered."
    for reading, has_news in _fetches_at_end(evidence):
        exchange = reading.exchange
        waited, max_wait_ms = (exchange.ended_ms or 0) - exchange.began_ms, reading.request.max_wait_ms
        link = request_link(exchange)
        if has_news and max_wait_ms >= _MIN_WAIT_MS and waited > _IMMEDIATE_MS:
            return reached(f"{link} was answered after {waited:.0f} of {max_wait_ms} ms, when its record came.")
        outcome = "with a new record" if has_news else "without a new record"
        newest = f"{link}, the last Fetch, was answered after {waited:.0f} of {max_wait_ms} ms {outcome}."
    return report_open(newest)


def _fetches_at_end(evidence: Evidence) -> Iterator[tuple[Reading, bool]]:
    """Yield each answered Fetch, and whether it returned a record written after its consumer had reached the end.

    In a fetch session, a request names only the partitions that have changed, so older fetch offsets still apply.
    """
    fetch_offsets: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for reading in evidence.readings("Fetch"):
        client, has_news = reading.exchange.client, False
        for part in evidence.partitions(reading.request.topics):
            fetch_offsets[client, part.partition] = part.fetch_offset
        if reading.response is None or reading.exchange.ended_ms is None:
            continue
        for part in evidence.partitions(reading.response.responses):
            key = client, part.partition_index
            has_records = bool(part.records)
            has_news |= has_records and key in ends and ends[key] == fetch_offsets.get(key)
            ends[key] = part.high_watermark
        yield reading, has_news


FETCHING: Final = (
    Goal(
        "waited",
        "Let a consumer wait at the end of `orders` for at least half a second.",
        "Subscribe, poll, and write nothing. `fetch.wait.max.ms` is 500 in most clients.",
        _check_waited,
    ),
    Goal(
        "session",
        "Get a Fetch from the consumer that names no partitions.",
        "Keep polling, not with librdkafka. From the second Fetch on, a fetch session names only what has changed.",
        _check_in_session,
    ),
    Goal(
        "woken",
        "Write a new record, so that a waiting Fetch is answered.",
        "Set `fetch.wait.max.ms` to 5000, keep polling, and write a record from another terminal.",
        _check_woken,
    ),
)
