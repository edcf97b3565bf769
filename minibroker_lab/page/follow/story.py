"""The life of a record as JSON, from the logs and the recorded requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.errors import OperationError
from minibroker.operations.views.consumer_offsets import commits_of
from minibroker_lab.page.follow import stages
from minibroker_lab.page.follow.sightings import Target
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.json_values import bytes_json
from minibroker_storage.errors import StorageError
from minibroker_storage.views.record_view import RecordView, find_newest_with_key, record_view

if TYPE_CHECKING:
    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker_control.remote import Remote
    from minibroker_lab.page.follow.search import Search, Searches
    from minibroker_lab.page.recorder import Recorder
    from minibroker_protocol.fields.record_places import RecordPlace

_MAX_TEXT: Final = 400


async def story(
    remote: Remote, recorder: Recorder, searches: Searches, topic: str, partition: int, offset: int
) -> dict[str, Any]:
    """Return the stages of a record's life.

    Raises:
        OperationError: A log cannot be read.
    """

    async def look(broker: AsyncOperations) -> tuple[bytes | None, RecordView | None]:
        core = broker.services.core
        core.writes.commit()
        known = core.topics.find_partition(topic, partition)
        return (None, None) if known is None else (known.topic.id, record_view(known.log, offset))

    async def look_for_newer(broker: AsyncOperations) -> int | None:
        known = broker.services.core.topics.find_partition(topic, partition)
        if known is None or place is None or place.key is None:
            return None
        return find_newest_with_key(known.log, place.key, offset)[0]

    try:
        topic_id, view = await remote(look)
        target = Target(topic, topic_id, partition, offset, _batch_key(view))
        search = await searches.look(target)
        place, source = _copy_json(view, search)
        commits = await remote(lambda broker: commits_of(broker.services, topic, partition, offset))
        newer = await remote(look_for_newer) if view is not None and view.state == "gap" else None
    except (StorageError, DecodeError, OSError) as error:
        raise OperationError(f"{topic}-{partition}: {error}") from None
    gap = stages.not_kept_text(search)
    events = recorder.events.of(topic, partition)
    all_stages = (
        stages.produce_stage(search, target, view, gap),
        stages.log_stage(target, view),
        stages.index_stage(target, view),
        stages.transaction_stage(search, target, view),
        stages.fetch_stage(search, target, gap),
        stages.acknowledgement_stage(search),
        stages.commit_stage(search, target, commits, gap),
        stages.removal_stage(search, target, view, events, newer),
    )
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "log": None if view is None else _bounds_json(view),
        "record": None if place is None else _record_json(place) | {"source": source},
        "stages": [stage for stage in all_stages if stage is not None],
        "requests": {"first": search.began_with, "last": recorder.last},
    }


def _batch_key(view: RecordView | None) -> tuple[int, int, int, int, int] | None:
    if view is None or view.state != "here" or (batch := view.batch) is None:
        return None
    return batch.base_offset, view.crc, batch.producer_id, batch.producer_epoch, batch.base_sequence


def _bounds_json(view: RecordView) -> dict[str, Any]:
    names = ("state", "log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset", "is_compacted")
    return {name: getattr(view, name) for name in names}


def _copy_json(view: RecordView | None, search: Search) -> tuple[RecordPlace | None, str]:
    """Return the record and the name of its source, or None and "".

    The record is taken from the log, else from a Produce request, else from a Fetch response.
    """
    if view is not None and view.place is not None:
        return view.place, "the log"
    for kind in ("produced", "fetched"):
        for sighting in search.found.get(kind, []):
            if sighting.place is not None:
                return sighting.place, f"{sighting.direction} {sighting.exchange.number}"
    return None, ""


def _record_json(place: RecordPlace) -> dict[str, Any]:
    headers = [{"key": key, "value": _text_json(value)} for key, value in place.headers]
    return {
        "timestamp": place.timestamp,
        "key": _text_json(place.key),
        "value": _text_json(place.value),
        "headers": headers,
    }


def _text_json(data: bytes | None) -> dict[str, Any] | None:
    """Return the first bytes as {"text"} or {"hex"}, with the full size as "size". Return None for null."""
    if data is None:
        return None
    text = bytes_json(data[:_MAX_TEXT])
    return {"size": len(data)} | ({"text": text} if isinstance(text, str) else {"hex": data[:_MAX_TEXT].hex()})
