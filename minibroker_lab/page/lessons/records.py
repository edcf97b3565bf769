"""Goals about logs, for lessons 3, 7, 8 and 9."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from minibroker.operations.wording import counted
from minibroker_lab.page.lessons.lesson import Finding, Goal, not_yet, reached
from minibroker_lab.page.lessons.look import fields, last, nothing_in, request_link, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker_lab.page.lessons.look import Look
    from minibroker_storage.views.snapshot import BatchView

_SEGMENTS: Final = 3
_FENCED: Final = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
_NO_PRODUCER: Final = -1
_READ_COMMITTED: Final = 1


def _segmented(look: Look) -> Finding:
    most = 0
    for each in look.logs("orders"):
        segments = {batch.segment for batch in each.batches}
        if len(segments) >= _SEGMENTS:
            return reached(f"{each.link()} has {len(segments)} segments; each is named after its first offset.")
        most = max(most, len(segments))
    newest = last(look.readings("Produce"))
    if newest is not None and newest.errors:
        return not_yet(f"{request_link(newest.exchange)}, the last Produce, got {newest.errors[0]}.")
    return not_yet(f"`orders` has {counted(most, 'segment')}." if most else nothing_in("orders"))


def _by_time(look: Look) -> Finding:
    newest = "No ListOffsets has come."
    for each in look.readings("ListOffsets"):
        link = request_link(each.exchange)
        asked = [part.timestamp for part in look.partitions(each.request.topics)]
        found = [part.offset for part in look.partitions(each.response.topics)] if each.response else []
        for timestamp, offset in zip(asked, found, strict=False):
            if timestamp >= 0 <= offset:
                return reached(f"{link}: the first record since {timestamp} ms is at offset {offset}.")
            newest = f"{link}, the last ListOffsets, asks for " + (
                "a time after the last record." if timestamp >= 0 else "the start or the end, not for a time."
            )
    return not_yet(newest)


def _inside(look: Look) -> Finding:
    batches = {each.partition: each.earlier + each.batches for each in look.logs("orders")}
    if not batches:
        return not_yet(nothing_in("orders"))
    newest = "No Fetch has come."
    for each in look.readings("Fetch"):
        for part in look.partitions(each.request.topics):
            link = request_link(each.exchange)
            batch = _around(batches.get(part.partition, ()), part.fetch_offset)
            if batch is not None:
                return reached(
                    f"{link} asked for offset {part.fetch_offset}. The response begins "
                    f"with the batch of offsets {batch.base_offset} to {batch.last_offset}."
                )
            newest = f"{link} asked for offset {part.fetch_offset}, which is not inside a batch."
    return not_yet(newest)


def _around(batches: tuple[BatchView, ...], offset: int) -> BatchView | None:
    return next((each for each in batches if each.base_offset < offset <= each.last_offset), None)


FINDING: Final = (
    Goal(
        "segments",
        "Fill `orders` until it has three segments. 300 records of 100 bytes will do, if you flush every ten.",
        "If the log stays empty, look for RECORD_LIST_TOO_LARGE among the requests: a batch is larger than a segment.",
        _segmented,
    ),
    Goal(
        "by-time",
        "Look for the first record at or after a time (ListOffsets).",
        "Most clients call it `offsets_for_times`, or much like it. The time is in milliseconds since 1970.",
        _by_time,
    ),
    Goal(
        "inside",
        "Fetch from an offset in the middle of a batch.",
        "Assign the partition at an offset such as 25, and poll.",
        _inside,
    ),
)

_Sent = tuple[int, int, int]


def _sent(look: Look) -> Iterator[tuple[_Sent, int]]:
    """Yield the producer id, epoch and first sequence, and the checksum of each batch sent by clients."""
    for each in look.readings("Produce"):
        root = fields(each.exchange)
        numbers = (values(root, name) for name in ("producer_id", "producer_epoch", "base_sequence", "crc"))
        for producer, epoch, sequence, crc in zip(*numbers, strict=False):
            yield (producer, epoch, sequence), crc


def _numbered(look: Look) -> Finding:
    count = 0
    for each in look.logs("orders"):
        for batch in each.batches:
            if batch.producer_id != _NO_PRODUCER and not batch.is_control:
                place, producer = each.link(batch.base_offset), f"producer {batch.producer_id}"
                return reached(f"{place}: {producer} wrote sequence {batch.base_sequence} at this offset.")
            count += 1
    if not count:
        return not_yet(nothing_in("orders"))
    return not_yet(f"`orders` has {counted(count, 'batch', 'batches')}, and no producer id in any.")


def _kept_once(look: Look) -> Finding:
    counts = Counter(sent for sent, _ in _sent(look) if sent[0] != _NO_PRODUCER)
    duplicates = _duplicates(look)
    newest = _all_new(len(counts), "with")
    for (producer, epoch, sequence), count in counts.items():
        kept = [
            (each.link(batch.base_offset), batch.base_offset)
            for each in look.logs("orders")
            for batch in each.batches
            if (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer, epoch, sequence)
        ]
        if count > 1:
            came = f"Sequence {sequence} of producer {producer} came {count} times"
            if len(kept) == 1 and kept[0][1] in duplicates:
                return reached(f"{came}, and {kept[0][0]} has it once.")
            newest = f"{came}, but the broker had not written it before the last time."
    return not_yet(newest)


def _duplicates(look: Look) -> set[int]:
    """Return the base offsets in responses to batches that were already in the log.

    Such a response contains the timestamp of the batch, which is otherwise -1 (`UnifiedLog.append`, a duplicate).
    """
    return {
        part.base_offset
        for each in look.readings("Produce")
        for topic in (each.response.responses if each.response is not None else ())
        for part in topic.partition_responses
        if part.log_append_time_ms >= 0
    }


def _kept_twice(look: Look) -> Finding:
    counts = Counter(crc for (producer, _, _), crc in _sent(look) if producer == _NO_PRODUCER)
    kept = Counter(
        (each.link(), batch.size, batch.max_timestamp)
        for each in look.logs("orders")
        for batch in each.batches
        if batch.producer_id == _NO_PRODUCER
    )
    twice = [place for (place, _, _), count in kept.items() if count > 1]
    if any(count > 1 for count in counts.values()):
        if not twice:
            return not_yet("A batch without a producer id came twice, and `orders` has it once.")
        place = twice[0]
        return reached(
            f"The same batch came twice, and {place} has it twice: nothing tells the broker that it is the same."
        )
    return not_yet(_all_new(len(counts), "without"))


def _all_new(count: int, kind: str) -> str:
    if not count:
        return f"No batch {kind} a producer id has come."
    return f"{counted(count, 'batch has', 'batches have')} come {kind} a producer id, and none twice."


IDEMPOTENCE: Final = (
    Goal(
        "numbered",
        "Write to `orders` with an idempotent producer (`enable.idempotence`, which is off by default in librdkafka).",
        "Set `enable.idempotence` to true.",
        _numbered,
    ),
    Goal(
        "once",
        "Lose the response of one Produce, so that the client sends the batch again. The log must have it once.",
        "Install a fault that drops the connection after the broker has written: see the text.",
        _kept_once,
    ),
    Goal(
        "twice",
        "Do the same without idempotence. The log has the batch twice.",
        "Set `enable.idempotence` to false, and install the fault again.",
        _kept_twice,
    ),
)


def _committed(look: Look) -> Finding:
    markers = sum(batch.control_type == "COMMIT" for each in look.logs("orders") for batch in each.batches)
    newest = "No EndTxn has come."
    for each in look.readings("EndTxn"):
        link, producer = request_link(each.exchange), repr(each.request.transactional_id)
        if each.request.committed and each.response is not None and not each.errors and markers:
            return reached(f"{link} of {producer} committed; the log has {counted(markers, 'commit marker')}.")
        if each.errors:
            newest = f"{link}, the last EndTxn, got {each.errors[0]}."
        elif each.request.committed:
            newest = f"{link} of {producer} committed, but not to `orders`."
        else:
            newest = f"{link} of {producer}, the last EndTxn, aborted."
    return not_yet(newest)


def _skipped(look: Look) -> Finding:
    levels: set[int] = set()
    for each in look.readings("Fetch"):
        levels.add(each.request.isolation_level)
        if each.request.isolation_level != _READ_COMMITTED or each.response is None:
            continue
        for part in look.partitions(each.response.responses):
            if part.aborted_transactions:
                first = part.aborted_transactions[0]
                return reached(
                    f"{request_link(each.exchange, 'Response')} names the aborted transaction of producer "
                    f"{first.producer_id} from offset {first.first_offset} on, "
                    "and your consumer skipped exactly its records."
                )
    aborts = sum(batch.control_type == "ABORT" for each in look.logs("orders") for batch in each.batches)
    in_log = f"`orders` has {counted(aborts, 'abort marker')}"
    if not levels:
        return not_yet(f"{in_log}, and no Fetch has come.")
    if _READ_COMMITTED not in levels:
        return not_yet(f"{in_log}, and all consumers have read uncommitted records, too.")
    return not_yet(f"{in_log}, and no read_committed consumer has come to one.")


def _fenced(look: Look) -> Finding:
    for api in ("AddPartitionsToTxn", "Produce", "EndTxn", "InitProducerId"):
        for each in look.readings(api):
            if _FENCED & set(each.errors):
                return reached(f"{request_link(each.exchange)}, {api}, got {each.errors[0]}.")
    newest = "No InitProducerId of a transactional producer has come."
    for each in look.readings("InitProducerId"):
        if each.request.transactional_id is not None and each.response is not None and not each.errors:
            newest = (
                f"{request_link(each.exchange)} gave {each.request.transactional_id!r} the epoch "
                f"{each.response.producer_epoch}, and no producer of an older epoch has gone on."
            )
    return not_yet(newest)


TRANSACTIONS: Final = (
    Goal(
        "committed",
        "Commit a transaction that writes to `orders`.",
        "Set `transactional.id`, then call init_transactions, begin_transaction, produce and commit_transaction.",
        _committed,
    ),
    Goal(
        "skipped",
        "Write and flush in a transaction, abort it, and read `orders` with a consumer that does not see its records.",
        "Set `isolation.level` to `read_committed` in the consumer. Call flush before you abort, or the client drops "
        "the records that it has not sent yet.",
        _skipped,
    ),
    Goal(
        "fenced",
        "Start a second producer with the same transactional id, and go on with the first one.",
        "The second init_transactions raises the epoch. The next call of the first producer fails.",
        _fenced,
    ),
)


def _expired(look: Look) -> Finding:
    for each in look.events:
        if (each.kind, each.topic) == ("retention", "orders") and each.facts["after"]["start"] > 0:
            place = f"[orders-{each.partition}](/logs/orders/{each.partition})"
            return reached(f"{place} begins at offset {each.facts['after']['start']} now. {each.text}")
    for log in look.logs("orders"):
        start, end = log.log.log_start_offset, log.log.log_end_offset
        return not_yet(f"Retention has deleted nothing of {log.link()}: it has the offsets {start} to {end - 1}.")
    return not_yet(nothing_in("orders"))


def _compacted(look: Look) -> Finding:
    for each in look.logs("prices"):
        records = sum(batch.records or 0 for batch in each.batches)
        offsets = each.log.log_end_offset - each.first_offset
        if records < offsets:
            return reached(f"{each.link()} has {counted(records, 'record')} left of {offsets} offsets.")
        return not_yet(f"{each.link()} has {counted(records, 'record')} at {counted(offsets, 'offset')}: all are left.")
    return not_yet(nothing_in("prices"))


def _tombstone(look: Look) -> Finding:
    logs = {each.partition: each for each in look.logs("prices")}
    written: set[bytes] = set()
    newest = "No tombstone has come to `prices`."
    for key, has_value, partition, offset in _priced(look):
        name = repr(key.decode(errors="replace"))
        if has_value:
            written.add(key)
        elif key not in written:
            newest = f"The tombstone at offset {offset} has the key {name}, which had no value before."
        elif partition in logs:
            log = logs[partition]
            tombstone = f"The tombstone of the key {name} is at offset {offset} of {log.link()}"
            end = log.first_dirty_offset or 0
            if offset < end:
                return reached(f"{tombstone}, and the cleaner has compacted the log up to offset {end - 1}.")
            newest = f"{tombstone}, to which the cleaner has not come."
    return not_yet(newest)


def _priced(look: Look) -> Iterator[tuple[bytes, bool, int, int]]:
    """Yield each keyed record produced to `prices`: its key, whether it has a value, its partition and its offset."""
    for each in look.readings("Produce"):
        sets = look.record_sets(each.exchange)
        if any(one["first"] is None for one in sets):  # The request was rejected or has no response.
            continue
        places = [(one, offset) for one in sets for offset in range(one["first"], one["last"] + 1)]
        records = (node for node in fields(each.exchange).all_nodes() if node.type == "RECORD")
        for (one, offset), record in zip(places, records, strict=False):
            key, value = (record.find(name).value for name in ("key", "value"))
            if one["topic"] == "prices" and key is not None:
                yield bytes(key), value is not None, one["partition"], offset


RETENTION: Final = (
    Goal(
        "expired",
        "Have the broker delete old segments of `orders`.",
        "Write to `orders`, and turn the clock forward: see the text. The lab has made it with `retention.ms=60000`.",
        _expired,
    ),
    Goal(
        "compacted",
        "Have a compacted topic `prices` keep the newest record of each key.",
        "Write several values with the same key, and have the broker compact the topic: see the text.",
        _compacted,
    ),
    Goal(
        "tombstone",
        "Delete a key of `prices` with a tombstone, and have the topic compacted.",
        "Produce a record with a key that has a value, and no value this time.",
        _tombstone,
    ),
)
