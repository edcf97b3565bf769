"""Tells the life of a record as JSON, from the logs and the recorded requests, and finds the requests it was in.

This is one file of more than 500 lines because it tells one story, whose parts refer to each other.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from minibroker.cluster.errors import OperationError
from minibroker.operations.views.consumer_offsets import commits_of
from minibroker.operations.wording import format_count
from minibroker_lab.page.follow.sightings import Target, sightings
from minibroker_lab.page.recorder import Reader
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_protocol.json_values import bytes_json
from minibroker_storage.errors import StorageError
from minibroker_storage.views.record_view import RecordView, find_newest_with_key, record_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.operations.views.consumer_offsets import CommitRecord, CommitsView, GroupCommits
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_control.remote import Remote
    from minibroker_lab.page.follow.sightings import Sighting
    from minibroker_lab.page.recorder import Recorder
    from minibroker_lab.page.rows import BrokerEvent
    from minibroker_protocol.fields.record_places import RecordPlace


MAX_SIGHTINGS: Final = 200
"""The number of sightings kept of each kind, oldest first."""
_MAX_SEARCHES: Final = 16


class Search:
    """The sightings of one record.

    Attributes:
        began_with: The number of the oldest exchange that was still recorded when the search began.
        found: The sightings by kind, oldest first. Only the first commit of each group and outcome is kept.
        counts: The number of sightings by kind.
    """

    def __init__(self, recorder: Recorder, target: Target) -> None:
        recorder.catch_up()
        self._target = target
        self.began_with = recorder.first
        self.reader = Reader(recorder, self._look, first=self.began_with)
        self.found: dict[str, list[Sighting]] = {}
        self.counts: Counter[str] = Counter()

    def _look(self, exchange: Exchange) -> None:
        for sighting in sightings(exchange, self._target):
            self.counts[sighting.kind] += 1
            kept = self.found.setdefault(sighting.kind, [])
            if sighting.kind == "committed":
                group = sighting.facts["group"], not sighting.error
                if any((earlier.facts["group"], not earlier.error) == group for earlier in kept):
                    continue
            if len(kept) < MAX_SIGHTINGS:
                kept.append(sighting)


class Searches:
    """A cache of the most recent searches."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kept: dict[Target, Search] = {}  # The least recently used search comes first.

    async def look(self, target: Target) -> Search:
        """Return the search for a record, updated with the newest exchanges."""
        previous = self._kept.pop(target, None)
        search = self._kept[target] = previous or Search(self._recorder, target)
        if len(self._kept) > _MAX_SEARCHES:
            del self._kept[next(iter(self._kept))]
        await search.reader.read_new()
        return search


_MAX_ITEMS: Final = 50


def stage(name: str, title: str, state: str, text: str, items: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return a stage as JSON."""
    return {"id": name, "title": title, "state": state, "text": text, "items": list(items)}


def log_link(topic: str, partition: int, offset: int, **more: Any) -> str:
    """Return the page path of an offset in its log."""
    return f"/logs/{quote(topic, safe='')}/{partition}?{urlencode({'offset': offset, **more})}"


def follow_link(topic: str, partition: int, offset: int) -> str:
    """Return the page path of a record's history."""
    return f"/follow/{quote(topic, safe='')}/{partition}/{offset}"


def _make_item(sighting: Sighting, text: str) -> dict[str, Any]:
    exchange, place = sighting.exchange, sighting.place
    size = exchange.bytes_in if sighting.direction == "request" else exchange.bytes_out
    parts, inside = [{"start": sighting.start, "end": sighting.end, "kind": "part"}], ""
    if place is not None:
        parts = [{"start": place.batch_start, "end": place.batch_end, "kind": "batch"}]
        if place.is_inside:
            inside = f"&inside={place.start}-{place.end}"
        else:
            parts.append({"start": place.start, "end": place.end, "kind": "record"})
    return {
        "text": text,
        "link": f"/requests/{exchange.number}?at={sighting.direction}-{parts[-1]['start']}-{parts[-1]['end']}{inside}",
        "time": exchange.time_ms,
        "request": exchange.number,
        "bar": {"name": f"{sighting.direction} {exchange.number}", "size": size, "parts": parts},
    }


def _client_text(sighting: Sighting) -> str:
    return f"{sighting.client_id or 'a client without an id'} at {sighting.exchange.client}"


def _error_text(sighting: Sighting) -> str:
    return f", and got {sighting.error}" if sighting.error else ""


def _bytes_text(sighting: Sighting) -> str:
    place = sighting.place
    if place is None:
        return f"somewhere in bytes {sighting.start} to {sighting.end - 1}"
    if place.is_inside:
        inside = f"at bytes {place.start} to {place.end - 1} of the decompressed ones"
        return f"in the compressed batch at bytes {place.batch_start} to {place.batch_end - 1}, where it is {inside}"
    return f"at bytes {place.start} to {place.end - 1}"


def not_kept_text(search: Search) -> str:
    """Return a sentence about the requests that are no longer recorded, or "" if all are still recorded."""
    last = search.began_with - 1
    return f"Of what came before, requests 1 to {last} are no longer kept." if last else ""


def produce_stage(search: Search, target: Target, view: RecordView | None, gap: str) -> dict[str, Any]:
    """Return the stage of the Produce request."""
    title = "Produce"
    refused = [
        _make_item(sighting, f"{_client_text(sighting)} sent it{_error_text(sighting)}.")
        for sighting in search.found.get("refused", [])
    ]
    sightings = search.found.get("produced", [])
    if not sightings:
        if view is not None and view.state == "ahead":
            text = f"No record has this offset yet: the log ends at {view.log_end_offset}."
            return stage("produced", title, "waiting", text, refused)
        if target.topic.startswith("__"):
            text = "No client sends records of this topic: a coordinator of the broker writes them."
            return stage("produced", title, "none", text, refused)
        text = (
            f"The request is not here. {gap}"
            if gap
            else (
                "No request of a client has brought it since the page watches. It was there before, or the broker has"
                " written it itself: Python's produce(), the control plane, or records to start with."
            )
        )
        return stage("produced", title, "unknown", text, refused)
    first = sightings[0]
    facts = first.facts
    batch = ""
    if "records" in facts:
        codec = "" if facts["codec"] == "none" else f" under {facts['codec']}"
        batch = f", record {facts['number'] + 1} of {facts['records']} in its batch{codec}"
    text = f"{_client_text(first)} sent it{batch}. The response gave the batch the base offset {facts['base_offset']}."
    if first.error is None:
        text = f"{_client_text(first)} sent it{batch}. No response says so: the batch in the log is the same."
    items = [*refused, _make_item(first, f"Produce v{first.exchange.version}: the record is {_bytes_text(first)}.")]
    repetition = "The same batch again: its sequence was known, so nothing was appended."
    items += [_make_item(sighting, repetition) for sighting in sightings[1:]]
    return stage("produced", title, "done", text, items)


def log_stage(target: Target, view: RecordView | None) -> dict[str, Any]:
    """Return the stage of the log."""
    title = "Log"
    if view is None:
        return stage("stored", title, "bad", f"There is no partition {target.topic}-{target.partition} any more.")
    if view.state == "ahead":
        return stage("stored", title, "waiting", f"The log ends at offset {view.log_end_offset}.")
    if view.state == "below":
        text = f"The log begins at offset {view.log_start_offset} by now, so the record is no longer there."
        return stage("stored", title, "none", text)
    batch = view.batch
    if view.state == "gap" or batch is None:
        text = "The log has this offset, and no record has it any more."
        if batch is not None:
            is_in_batch = batch.base_offset <= target.offset <= batch.last_offset
            where = "Its batch is still there" if is_in_batch else "The next batch is"
            offsets = f"offsets {batch.base_offset} to {batch.last_offset}"
            text += f" {where}: {offsets} at byte {batch.position} of {view.file}."
        return stage("stored", title, "none", text)
    end = batch.position + batch.size
    parts = [{"start": batch.position, "end": end, "kind": "batch"}]
    link, place = log_link(target.topic, target.partition, target.offset), view.place
    offsets = f"offsets {batch.base_offset} to {batch.last_offset}"
    text = f"It is in the batch of {offsets}, at bytes {batch.position} to {end - 1} of {view.file}."
    if place is None:
        item_text = f"The batch cannot be opened: {view.fault}."
    elif place.is_inside:
        place_text = f"bytes {place.start} to {place.end - 1} of the decompressed ones"
        item_text = f"The batch is compressed: the record is at {place_text}."
        link = log_link(target.topic, target.partition, target.offset, inside=f"{place.start}-{place.end}")
    else:
        start = batch.position + place.start
        item_text = f"The record is at bytes {start} to {batch.position + place.end - 1} of the file."
        link = log_link(target.topic, target.partition, target.offset, at=f"{place.start}-{place.end}")
        parts.append({"start": start, "end": batch.position + place.end, "kind": "record"})
    bar = {"name": view.file, "size": end, "parts": parts}
    return stage("stored", title, "done", text, [{"text": item_text, "link": link, "bar": bar}])


def index_stage(target: Target, view: RecordView | None) -> dict[str, Any] | None:
    """Return the stage of the indexes, or None if the record is not in the log."""
    if view is None or view.state != "here" or view.batch is None:
        return None
    entry, batch = view.offset_entry, view.batch
    items: list[dict[str, Any]] = []
    scanned = format_count(view.scanned, "batch", "batches")
    every = f"about every {view.index_interval_bytes} bytes (index.interval.bytes)"
    if entry is None:
        before = f"The broker adds one {every}, and before this batch the file has {batch.position} bytes"
        text = f"No entry leads to it. {before}. A look-up begins at byte 0 and passes over {scanned}."
    else:
        text = (
            f"Entry {entry.slot + 1} of {entry.entries} covers it: offset {entry.key} is in the batch at byte"
            f" {entry.target}. A look-up begins there and passes over {scanned}, {view.scanned_bytes} bytes."
        )
        item_text = f"{entry.file}: the entry is at bytes {entry.start} to {entry.end - 1}."
        parts = [{"start": entry.start, "end": entry.end, "kind": "record"}]
        bar = {"name": entry.file, "size": entry.entries * (entry.end - entry.start), "parts": parts}
        items.append({"text": item_text, "link": log_link(target.topic, target.partition, entry.key), "bar": bar})
    times = view.time_entry
    if times is not None:
        place = f"{times.file}, bytes {times.start} to {times.end - 1}"
        start = f"offset {times.target}, whose time is {time_text(times.key)}"
        items.append({"text": f"{place}: a look-up of the record's time begins at {start}."})
    return stage("indexed", "Index", "none" if entry is None else "done", text, items)


def transaction_stage(search: Search, target: Target, view: RecordView | None) -> dict[str, Any] | None:
    """Return the stage of the transaction, or None if the record is not in a transaction."""
    batch = None if view is None or view.state != "here" else view.batch
    first = next(iter(search.found.get("produced", [])), None)
    is_transactional = batch.is_transactional if batch else bool(first and first.facts.get("is_transactional"))
    if not is_transactional or (batch is not None and batch.is_control):
        return None
    items: list[dict[str, Any]] = []
    for end in search.found.get("ended", []):
        if first and end.exchange.number > first.exchange.number:
            decision = "commit" if end.facts["committed"] else "abort"
            text = f"EndTxn v{end.exchange.version} of {end.facts['id']} asks for a {decision}{_error_text(end)}."
            items.append(_make_item(end, text))
            break
    title = "Transaction"
    marker = None if view is None else view.marker
    if view is None or batch is None:
        return stage("decided", title, "unknown", "The record is no longer there to be looked at.", items)
    producer = f"producer {batch.producer_id}, epoch {batch.producer_epoch}"
    if marker is not None:
        is_commit = marker.kind == "COMMIT"
        link = log_link(target.topic, target.partition, marker.offset)
        items.append({"text": f"The marker {marker.kind} is at offset {marker.offset}.", "link": link})
        outcome = "was aborted: read_committed leaves the record out"
        if is_commit:
            outcome = "is committed: the marker made the record visible to read_committed"
        text = f"The transaction of {producer} {outcome}."
        return stage("decided", title, "done" if is_commit else "bad", text, items)
    if view.open_transaction:
        effect = "so consumers with read_committed do not see the record yet"
        text = f"The transaction of {producer} is open. The last stable offset is {view.last_stable_offset}, {effect}."
        return stage("decided", title, "waiting", text, items)
    text = f"The marker of {producer} is not in the log any more, or too far away: the transaction has ended."
    return stage("decided", title, "unknown", text, items)


def fetch_stage(search: Search, target: Target, gap: str) -> dict[str, Any]:
    """Return the stage of the fetches."""
    fetched = search.found.get("fetched", [])
    items = [_make_item(sighting, _fetch_text(sighting, target)) for sighting in fetched[:_MAX_ITEMS]]
    more, cut = "", search.counts.get("cut", 0)
    if cut:
        more = f" {cut} more responses may have carried it in a part that is not kept: the lab keeps the first MiB."
    if not fetched:
        text = f"No response that is kept has carried it.{more} {gap}".strip()
        return stage("read", "Fetch", "unknown" if gap or cut else "waiting", text)
    total = search.counts["fetched"]
    clients = len({(sighting.client_id, sighting.exchange.client) for sighting in fetched})
    responses = format_count(total, "response has", "responses have")
    text = f"{responses} carried it, to {format_count(clients, 'connection')}.{more}"
    if total > len(items):
        text += f" The first {len(items)} are shown."
    return stage("read", "Fetch", "done", text, items)


def _fetch_text(sighting: Sighting, target: Target) -> str:
    facts, client = sighting.facts, _client_text(sighting)
    if "delivery_count" in facts:
        count = facts["delivery_count"]
        delivery = "is in the batch, but not acquired" if count is None else f"is acquired, delivery {count}"
        return f"ShareFetch of group {facts['group']}, {client}: the record {delivery}, {_bytes_text(sighting)}."
    text = f"Fetch v{sighting.exchange.version} by {client}: the record is {_bytes_text(sighting)}."
    fetch_offset = facts["fetch_offset"]
    if fetch_offset is not None and fetch_offset > target.offset:
        text += f" The client asked from {fetch_offset}, so it passes the record over: batches are sent whole."
    if facts["listed_as_aborted"] and facts["read_committed"]:
        text += " The response lists its transaction as aborted, so the client leaves it out."
    return text


def acknowledgement_stage(search: Search) -> dict[str, Any] | None:
    """Return the stage of the share groups' acknowledgements, or None if there are none."""
    sightings = search.found.get("acknowledged", [])
    if not sightings:
        return None
    items = [
        _make_item(sighting, f"Group {sighting.facts['group']}: {sighting.facts['type']}{_error_text(sighting)}.")
        for sighting in sightings[:_MAX_ITEMS]
    ]
    times = "once" if search.counts["acknowledged"] == 1 else f"{search.counts['acknowledged']} times"
    return stage("acknowledged", "Acknowledgement", "done", f"Share groups have acknowledged it {times}.", items)


def commit_stage(search: Search, target: Target, commits: CommitsView, gap: str) -> dict[str, Any]:
    """Return the stage of the committed offsets."""
    title = "Committed offset"
    sightings = search.found.get("committed", [])
    commits_by_group = {commits_of_group.group: commits_of_group for commits_of_group in commits.groups}
    groups = list(dict.fromkeys([*(sighting.facts["group"] for sighting in sightings), *commits_by_group]))
    items: list[dict[str, Any]] = []
    passed_count = 0
    for group in groups[:_MAX_ITEMS]:
        items += [
            _make_item(sighting, _commit_text(sighting)) for sighting in sightings if sighting.facts["group"] == group
        ]
        record = commits_by_group.get(group)
        if record is not None:
            items += _commit_record_items(record, target)
            passed_count += record.passed is not None and record.passed.state == "committed"
    if not groups:
        text = f"No group has committed an offset of this partition. {gap}".strip()
        return stage("committed", title, "unknown" if gap else "waiting", text)
    if not commits.is_whole:
        gap = "The logs of the coordinator are too long to be read as a whole."
    if passed_count:
        names = format_count(passed_count, "group has", "groups have")
        text = f"{names} committed an offset beyond {target.offset}. {gap}".strip()
        return stage("committed", title, "done", text, items)
    text = f"No group's committed offset that counts is beyond {target.offset}. {gap}".strip()
    return stage("committed", title, "waiting", text, items)


def _commit_text(sighting: Sighting) -> str:
    facts = sighting.facts
    name = "TxnOffsetCommit" if facts["is_transactional"] else "OffsetCommit"
    request = f"{name} v{sighting.exchange.version} of group {facts['group']}"
    passed = f"offset {facts['committed']}, the next one to read, at bytes {sighting.start} to {sighting.end - 1}"
    return f"{request} was the first to pass it: {passed}{_error_text(sighting)}."


def _commit_record_items(known: GroupCommits, target: Target) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for record, place in ((known.passed, "The oldest record there is beyond it"), (known.latest, "What counts now")):
        if record is None or (items and record == known.passed):
            continue
        if record.offset is None:
            text = f"{place}: a tombstone at offset {record.log_offset} has removed the offset of group {known.group}."
        else:
            beyond = "beyond" if record.offset > target.offset else "not beyond"
            text = (
                f"{place}: {CONSUMER_OFFSETS}-{record.partition}, offset {record.log_offset}, says that group"
                f" {known.group} has {record.offset}, {beyond} the record.{_state_text(record)}"
            )
        link = follow_link(CONSUMER_OFFSETS, record.partition, record.log_offset)
        items.append({"text": text, "link": link, "time": record.commit_timestamp or None})
    return items


def _state_text(record: CommitRecord) -> str:
    if record.state == "open":
        return f" The transaction of producer {record.producer_id} is open, so it does not count yet."
    if record.state == "aborted":
        return f" The marker at offset {record.marker} has aborted it, so it does not count."
    if record.marker is not None:
        return f" The marker at offset {record.marker} has committed it."
    return ""


def removal_stage(
    search: Search, target: Target, view: RecordView | None, events: Sequence[BrokerEvent], newer: int | None
) -> dict[str, Any]:
    """Return the stage of the record's removal.

    Args:
        search: The sightings of the record.
        target: The record.
        view: The record's position in the log, or None if the topic was deleted.
        events: The events of the partition.
        newer: The newest offset with the record's key, or None if unknown.
    """
    title = "Removal"
    deletes = [
        _make_item(item, f"DeleteRecords up to offset {item.facts['offset']}.")
        for item in search.found.get("deleted", [])
        if not item.error
    ]
    if view is None:
        return stage("removed", title, "bad", "The topic was deleted, and its records with it.", deletes)
    if view.state == "below":
        shortened = [
            {"text": item.text, "time": item.time_ms}
            for item in events
            if item.kind == "retention"
            and item.facts["before"]["start"] <= target.offset < item.facts["after"]["start"]
        ]
        if deletes:
            return stage("removed", title, "bad", "A client has deleted the records up to here.", deletes)
        text = "Retention has removed it." if shortened else "It was removed, and nothing that is kept says by what."
        return stage("removed", title, "bad" if shortened else "unknown", text, shortened)
    cleanings = [{"text": item.text, "time": item.time_ms} for item in events if item.kind == "cleaning"]
    if view.state == "gap":
        text, items = "Compaction has removed it, or the offset was never one of a record.", cleanings[-1:]
        if newer is not None:
            text = "Compaction has removed it, since a newer record has the same key."
            link = follow_link(target.topic, target.partition, newer)
            items.append({"text": f"Offset {newer} has the same key, and is the newest one.", "link": link})
        return stage("removed", title, "bad", text, items)
    if view.state != "here":
        return stage("removed", title, "none", "It is not there yet.")
    return _not_removed_stage(target, view, title)


def _not_removed_stage(target: Target, view: RecordView, title: str) -> dict[str, Any]:
    if not view.is_compacted:
        return stage("removed", title, "none", "It is there until retention or DeleteRecords removes it.")
    if view.newer is not None and view.newer != target.offset:
        text = f"The next compaction may remove it: offset {view.newer} has the same key and is newer."
        item = {"text": f"Offset {view.newer}", "link": follow_link(target.topic, target.partition, view.newer)}
        return stage("removed", title, "waiting", text, [item])
    certain = "" if view.newer_is_certain else ", as far as the log was read"
    return stage("removed", title, "none", f"Compaction keeps it: no newer record has its key{certain}.")


def time_text(time_ms: int) -> str:
    """Return a time in readable form, in UTC."""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


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
    gap = not_kept_text(search)
    events = recorder.events.of(topic, partition)
    all_stages = (
        produce_stage(search, target, view, gap),
        log_stage(target, view),
        index_stage(target, view),
        transaction_stage(search, target, view),
        fetch_stage(search, target, gap),
        acknowledgement_stage(search),
        commit_stage(search, target, commits, gap),
        removal_stage(search, target, view, events, newer),
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
