"""Goals about requests and batches, for lessons 1, 2 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.operations.wording import counted
from minibroker_lab.page.lessons.lesson import Finding, Goal, not_yet, reached
from minibroker_lab.page.lessons.look import last, listed, nothing_in, request_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker_lab.page.lessons.look import Look
    from minibroker_lab.trace.reading import Reading

_MANY: Final = 10
_LONG_MS: Final = 500
_AT_ONCE_MS: Final = 20


def _negotiated(look: Look) -> Finding:
    for each in look.readings("ApiVersions"):
        if each.client_id != "by-hand" and each.response is not None:
            count = len(each.response.api_keys)
            asked = f"{request_link(each.exchange)} is that of {each.client_id!r}"
            return reached(f"{asked}: it asked with version {each.exchange.version} and learned of {count} APIs.")
    by_hand = last(look.all_readings("ApiVersions"))
    return not_yet("No ApiVersions has come." if by_hand is None else "Only `by-hand` has asked for versions.")


def _by_hand(look: Look) -> Finding:
    for each in look.readings("ApiVersions"):
        if each.client_id == "by-hand" and each.exchange.version == 0 and not each.errors:
            return reached(f"{request_link(each.exchange)} is yours: {each.exchange.bytes_in} bytes.")
    newest = max(look.all_readings("ApiVersions", "unreadable"), key=lambda each: each.exchange.number, default=None)
    if newest is None:
        return not_yet("No ApiVersions has come.")
    link = request_link(newest.exchange)
    if newest.api == "unreadable":
        return not_yet(f"{link} is too short for a header.")
    return not_yet(f"{link} has version {newest.exchange.version} and the client id {newest.client_id!r}.")


def _unsupported(look: Look) -> Finding:
    versions: set[int] = set()
    for each in look.all_readings("ApiVersions"):
        if "UNSUPPORTED_VERSION" in each.errors:
            link, version = request_link(each.exchange), each.exchange.version
            return reached(f"{link} asked with version {version}. The response is in version 0.")
        versions.add(each.exchange.version)
    if not versions:
        return not_yet("No ApiVersions has come.")
    return not_yet(f"ApiVersions has come with version {listed(versions)}, which the broker has.")


A_REQUEST_IS_BYTES: Final = (
    Goal(
        "negotiated",
        "Connect any Kafka client, so that it asks for the versions of the broker.",
        "Ask a client for the list of topics. It sends ApiVersions before anything else.",
        _negotiated,
    ),
    Goal(
        "by-hand",
        "Send an ApiVersions request in version 0 by hand, with the client id `by-hand`.",
        "The frame: length (4 bytes), API key 18 and version 0 (2 each), correlation id (4), length of the id (2), id.",
        _by_hand,
    ),
    Goal(
        "unsupported",
        "Ask with a version that the broker does not have, and read the error.",
        "Put 99 into your frame as the version: `00 63` in bytes 7 and 8. The response is in version 0.",
        _unsupported,
    ),
)


def _lingered(look: Look) -> Finding:
    largest = 0
    for each in look.logs("orders"):
        for batch in each.batches:
            if (batch.records or 0) >= _MANY:
                place = each.link(batch.base_offset)
                return reached(f"{place} has a batch of {batch.records} records in {batch.size} bytes.")
            largest = max(largest, batch.records or 0)
    if not largest:
        return not_yet(nothing_in("orders"))
    return not_yet(f"The largest batch in `orders` has {counted(largest, 'record')}.")


def _compressed(look: Look) -> Finding:
    batches = [(each, batch) for each in look.logs("orders") for batch in each.batches]
    compressed = [(each, batch) for each, batch in batches if batch.codec != "none"]
    for each, batch in compressed:
        if (batch.records or 0) >= _MANY:
            place = each.link(batch.base_offset)
            return reached(f"{place}: {batch.records} records in {batch.size} bytes with {batch.codec}.")
    if not batches:
        return not_yet(nothing_in("orders"))
    share = f"Compressed batches in `orders`: {len(compressed)} of {len(batches)}"
    if not compressed:
        return not_yet(f"{share}.")
    newest = compressed[-1][1]
    return not_yet(f"{share}; the last one has {counted(newest.records or 0, 'record')} with {newest.codec}.")


def _unacknowledged(look: Look) -> Finding:
    newest = None
    for each in look.readings("Produce"):
        if each.request.acks == 0:
            link = request_link(each.exchange)
            return reached(f"{link} has no response: the client cannot know whether it was written.")
        newest = each
    if newest is None:
        return not_yet("No Produce has come.")
    return not_yet(f"{request_link(newest.exchange)}, the last Produce, has acks={newest.request.acks}.")


PRODUCING: Final = (
    Goal(
        "lingered",
        "Write a batch of at least ten records to the topic `orders`.",
        "Set `linger.ms` to 1000 and send ten records without waiting in between.",
        _lingered,
    ),
    Goal(
        "compressed",
        "Write such a batch compressed.",
        "Set `compression.type` to `zstd`, and give the records similar values.",
        _compressed,
    ),
    Goal(
        "unacknowledged",
        "Write a record without waiting for the broker.",
        "Set `acks` to 0.",
        _unacknowledged,
    ),
)


def _waited(look: Look) -> Finding:
    longest = None
    for each in look.readings("Fetch"):
        exchange = each.exchange
        if exchange.ended_ms is None:
            continue
        waited = exchange.ended_ms - exchange.began_ms
        if waited >= _LONG_MS:
            link, most = request_link(exchange), each.request.max_wait_ms
            return reached(f"{link} waited for {waited:.0f} ms; it may wait for {most}.")
        longest = max(longest or 0, waited)
    if longest is None:
        return not_yet("No Fetch has been answered.")
    return not_yet(f"The longest Fetch took {longest:.0f} ms.")


def _in_session(look: Look) -> Finding:
    newest = None
    for each in look.readings("Fetch"):
        if each.request.session_epoch > 0 and not each.request.topics:
            link = request_link(each.exchange)
            return reached(f"{link} names no partition: session {each.request.session_id} has them.")
        newest = each
    if newest is None:
        return not_yet("No Fetch has come.")
    link, client = request_link(newest.exchange), newest.client_id
    if newest.request.session_epoch < 0:
        return not_yet(f"{link}, the last Fetch, is that of {client!r} and wants no session.")
    count = sum(len(topic.partitions) for topic in newest.request.topics)
    return not_yet(f"{link}, the last Fetch, is that of {client!r} and names {counted(count, 'partition')}.")


def _woken(look: Look) -> Finding:
    newest = "No Fetch has been answered."
    for each, has_news in _at_the_end(look):
        exchange = each.exchange
        waited, most = (exchange.ended_ms or 0) - exchange.began_ms, each.request.max_wait_ms
        link = request_link(exchange)
        if has_news and most >= _LONG_MS and waited > _AT_ONCE_MS:
            return reached(f"{link} was answered after {waited:.0f} of {most} ms, when its record came.")
        brought = "with a new record" if has_news else "without a new record"
        newest = f"{link}, the last Fetch, was answered after {waited:.0f} of {most} ms {brought}."
    return not_yet(newest)


def _at_the_end(look: Look) -> Iterator[tuple[Reading, bool]]:
    """Yield the answered Fetches, and whether each returned a record written after its consumer had reached the end.

    In a fetch session, a request names only the partitions that have changed.
    """
    asked: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for each in look.readings("Fetch"):
        client, has_news = each.exchange.client, False
        for part in look.partitions(each.request.topics):
            asked[client, part.partition] = part.fetch_offset
        if each.response is None or each.exchange.ended_ms is None:
            continue
        for part in look.partitions(each.response.responses):
            place = client, part.partition_index
            has_records = bool(part.records)
            has_news |= has_records and place in ends and ends[place] == asked.get(place)
            ends[place] = part.high_watermark
        yield each, has_news


FETCHING: Final = (
    Goal(
        "waited",
        "Let a consumer wait at the end of `orders` for at least half a second.",
        "Subscribe, poll, and write nothing. `fetch.wait.max.ms` is 500 in most clients.",
        _waited,
    ),
    Goal(
        "session",
        "Have the consumer ask again without naming its partitions.",
        "Keep polling, not with librdkafka. From the second Fetch on, a fetch session names only what has changed.",
        _in_session,
    ),
    Goal(
        "woken",
        "Wake a waiting Fetch with a new record.",
        "Set `fetch.wait.max.ms` to 5000, keep polling, and write a record from another terminal.",
        _woken,
    ),
)
