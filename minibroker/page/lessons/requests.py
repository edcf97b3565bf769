"""Goals about requests and batches: lessons 1, 2 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.page.lessons.lesson import Goal
from minibroker.page.lessons.look import request_link

if TYPE_CHECKING:
    from minibroker.page.lessons.look import Look

_MANY: Final = 10
_LONG_MS: Final = 500


def _negotiated(look: Look) -> str | None:
    for each in look.readings("ApiVersions"):
        if each.client_id != "by-hand" and each.response is not None:
            count = len(each.response.api_keys)
            asked = f"{request_link(each.exchange)} is that of {each.client_id!r}"
            return f"{asked}: it asked with version {each.exchange.version} and learned of {count} APIs."
    return None


def _by_hand(look: Look) -> str | None:
    for each in look.readings("ApiVersions"):
        if each.client_id == "by-hand" and each.exchange.version == 0 and not each.errors:
            return f"{request_link(each.exchange)} is yours: {each.exchange.bytes_in} bytes."
    return None


def _unsupported(look: Look) -> str | None:
    for each in look.all_readings("ApiVersions"):
        if "UNSUPPORTED_VERSION" in each.errors:
            return f"{request_link(each.exchange)} asked with version {each.exchange.version}. The response is in 0."
    return None


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
        "Put 99 into the version of your frame. The response is in version 0, which every client can read.",
        _unsupported,
    ),
)


def _lingered(look: Look) -> str | None:
    for each in look.logs("orders"):
        for batch in each.batches:
            if (batch.records or 0) >= _MANY:
                return f"{each.link(batch.base_offset)} has a batch of {batch.records} records in {batch.size} bytes."
    return None


def _compressed(look: Look) -> str | None:
    for each in look.logs("orders"):
        for batch in each.batches:
            if batch.codec != "none" and (batch.records or 0) >= _MANY:
                return (
                    f"{each.link(batch.base_offset)}: {batch.records} records in {batch.size} bytes with {batch.codec}."
                )
    return None


def _unacknowledged(look: Look) -> str | None:
    for each in look.readings("Produce"):
        if each.request.acks == 0:
            return f"{request_link(each.exchange)} has no response: the client cannot know whether it was written."
    return None


PRODUCING: Final = (
    Goal(
        "lingered",
        "Write a batch of at least ten records to the topic `orders`.",
        "Set `linger.ms` to 100 and send ten records without waiting in between.",
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


def _waited(look: Look) -> str | None:
    for each in look.readings("Fetch"):
        exchange = each.exchange
        if exchange.ended_ms is not None and exchange.ended_ms - exchange.began_ms >= _LONG_MS:
            waited = round(exchange.ended_ms - exchange.began_ms)
            return f"{request_link(exchange)} waited for {waited} ms; it may wait for {each.request.max_wait_ms}."
    return None


def _in_session(look: Look) -> str | None:
    for each in look.readings("Fetch"):
        if each.request.session_epoch > 0 and not each.request.topics:
            return f"{request_link(each.exchange)} names no partition: session {each.request.session_id} has them."
    return None


def _woken(look: Look) -> str | None:
    for each in look.readings("Fetch"):
        exchange = each.exchange
        if exchange.ended_ms is None or each.request.max_wait_ms < _LONG_MS:
            continue
        waited = exchange.ended_ms - exchange.began_ms
        if 20 < waited < each.request.max_wait_ms - 20 and each.response is not None and each.response.responses:  # noqa: PLR2004 - ms that a busy machine takes
            return f"{request_link(exchange)} was answered after {waited:.0f} of {each.request.max_wait_ms} ms."
    return None


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
