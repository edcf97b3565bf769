"""Goals about logs, for lessons 3, 7, 8 and 9."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from minibroker.operations.wording import format_count
from minibroker_lab.page.follow.sightings import record_sets
from minibroker_lab.page.lessons.evidence import last_of, no_records_text, request_link, request_nodes
from minibroker_lab.page.lessons.lesson import Finding, Goal, reached, report_open

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker_lab.page.lessons.evidence import Evidence

_SEGMENTS: Final = 3
_FENCED: Final = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
_NO_PRODUCER: Final = -1
_READ_COMMITTED: Final = 1


def _check_segments(evidence: Evidence) -> Finding:
    segment_count = 0
    for log in evidence.logs("orders"):
        segments = {batch.segment for batch in log.batches}
        if len(segments) >= _SEGMENTS:
            return reached(f"{log.link()} has {len(segments)} segments; each is named after its first offset.")
        segment_count = max(segment_count, len(segments))
    newest = last_of(evidence.readings("Produce"))
    if newest is not None and newest.errors:
        return report_open(f"{request_link(newest.exchange)}, the last Produce, got {newest.errors[0]}.")
    return report_open(
        f"`orders` has {format_count(segment_count, 'segment')}." if segment_count else no_records_text("orders")
    )


def _check_by_time(evidence: Evidence) -> Finding:
    newest = "No ListOffsets has come."
    for reading in evidence.readings("ListOffsets"):
        link = request_link(reading.exchange)
        timestamps = [part.timestamp for part in evidence.partitions(reading.request.topics)]
        offsets = [part.offset for part in evidence.partitions(reading.response.topics)] if reading.response else []
        for timestamp, offset in zip(timestamps, offsets, strict=False):
            if timestamp >= 0 <= offset:
                return reached(f"{link}: the first record since {timestamp} ms is at offset {offset}.")
            newest = f"{link}, the last ListOffsets, asks for " + (
                "a time after the last record." if timestamp >= 0 else "the start or the end, not for a time."
            )
    return report_open(newest)


def _check_inside(evidence: Evidence) -> Finding:
    batches = {log.partition: log.earlier + log.batches for log in evidence.logs("orders")}
    if not batches:
        return report_open(no_records_text("orders"))
    newest = "No Fetch has come."
    for reading in evidence.readings("Fetch"):
        for part in evidence.partitions(reading.request.topics):
            link = request_link(reading.exchange)
            for batch in batches.get(part.partition, ()):
                if not batch.base_offset < part.fetch_offset <= batch.last_offset:
                    continue
                return reached(
                    f"{link} asked for offset {part.fetch_offset}. The response begins "
                    f"with the batch of offsets {batch.base_offset} to {batch.last_offset}."
                )
            newest = f"{link} asked for offset {part.fetch_offset}, which is not inside a batch."
    return report_open(newest)


FINDING: Final = (
    Goal(
        "segments",
        "Fill `orders` until it has three segments. "
        "300 records of 100 bytes are enough if you flush after every ten records.",
        "If the log stays empty, look for RECORD_LIST_TOO_LARGE among the requests: a batch is larger than a segment.",
        _check_segments,
    ),
    Goal(
        "by-time",
        "Find the first record at or after a given time (ListOffsets).",
        "Most clients call this `offsets_for_times` or similar. The time is in milliseconds since 1970.",
        _check_by_time,
    ),
    Goal(
        "inside",
        "Fetch from an offset in the middle of a batch.",
        "Assign the partition at an offset such as 25, and poll.",
        _check_inside,
    ),
)

_BatchSequence = tuple[int, int, int]


def _iterate_sent_batches(evidence: Evidence) -> Iterator[tuple[_BatchSequence, int]]:
    """Yield the producer id, epoch and first sequence, and the checksum of each batch sent by clients."""
    for reading in evidence.readings("Produce"):
        nodes = list(request_nodes(reading.exchange))
        names = ("producer_id", "producer_epoch", "base_sequence", "crc")
        numbers = ([node.value for node in nodes if node.name == name] for name in names)
        for producer, epoch, sequence, crc in zip(*numbers, strict=False):
            yield (producer, epoch, sequence), crc


def _check_numbered(evidence: Evidence) -> Finding:
    count = 0
    for log in evidence.logs("orders"):
        for batch in log.batches:
            if batch.producer_id != _NO_PRODUCER and not batch.is_control:
                link, producer = log.link(batch.base_offset), f"producer {batch.producer_id}"
                return reached(f"{link}: {producer} wrote sequence {batch.base_sequence} at this offset.")
            count += 1
    if not count:
        return report_open(no_records_text("orders"))
    return report_open(f"`orders` has {format_count(count, 'batch', 'batches')}, and no producer id in any.")


def _check_kept_once(evidence: Evidence) -> Finding:
    counts = Counter(sent for sent, _ in _iterate_sent_batches(evidence) if sent[0] != _NO_PRODUCER)
    duplicates = _find_duplicates(evidence)
    newest = _no_repetition_text(len(counts), "with")
    for (producer, epoch, sequence), count in counts.items():
        stored_batches = [
            (log.link(batch.base_offset), batch.base_offset)
            for log in evidence.logs("orders")
            for batch in log.batches
            if (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer, epoch, sequence)
        ]
        if count > 1:
            came = f"Sequence {sequence} of producer {producer} came {count} times"
            if len(stored_batches) == 1 and stored_batches[0][1] in duplicates:
                return reached(f"{came}, and {stored_batches[0][0]} has it once.")
            newest = f"{came}, but the broker had not written it before the last time."
    return report_open(newest)


def _find_duplicates(evidence: Evidence) -> set[int]:
    """Return the base offsets in responses to duplicate batches.

    The response to a duplicate has the timestamp of the stored batch. Other responses have the timestamp -1
    (`UnifiedLog.append`).
    """
    return {
        part.base_offset
        for reading in evidence.readings("Produce")
        for topic in (reading.response.responses if reading.response is not None else ())
        for part in topic.partition_responses
        if part.log_append_time_ms >= 0
    }


def _check_kept_twice(evidence: Evidence) -> Finding:
    counts = Counter(crc for (producer, _, _), crc in _iterate_sent_batches(evidence) if producer == _NO_PRODUCER)
    if all(count == 1 for count in counts.values()):
        return report_open(_no_repetition_text(len(counts), "without"))
    stored_batches = Counter(
        (log.link(), batch.size, batch.max_timestamp)
        for log in evidence.logs("orders")
        for batch in log.batches
        if batch.producer_id == _NO_PRODUCER
    )
    for (link, _, _), count in stored_batches.items():
        if count > 1:
            is_twice = f"The same batch came twice, and {link} has it twice"
            return reached(f"{is_twice}: nothing tells the broker that it is the same.")
    return report_open("A batch without a producer id came twice, and `orders` has it once.")


def _no_repetition_text(count: int, kind: str) -> str:
    if not count:
        return f"No batch {kind} a producer id has come."
    return f"{format_count(count, 'batch has', 'batches have')} come {kind} a producer id, and none twice."


IDEMPOTENCE: Final = (
    Goal(
        "numbered",
        "Write to `orders` with an idempotent producer (`enable.idempotence`, which is off by default in librdkafka).",
        "Set `enable.idempotence` to true.",
        _check_numbered,
    ),
    Goal(
        "once",
        "Lose the response to one Produce request, so that the client sends the batch again. "
        "The log must have the batch once.",
        "Install a fault that closes the connection after the broker has written the batch: see the text.",
        _check_kept_once,
    ),
    Goal(
        "twice",
        "Do the same without idempotence. The log must have the batch twice.",
        "Set `enable.idempotence` to false, and install the fault again.",
        _check_kept_twice,
    ),
)


def _check_committed(evidence: Evidence) -> Finding:
    markers = sum(batch.control_type == "COMMIT" for log in evidence.logs("orders") for batch in log.batches)
    newest = "No EndTxn has come."
    for reading in evidence.readings("EndTxn"):
        link, producer = request_link(reading.exchange), repr(reading.request.transactional_id)
        if reading.request.committed and reading.response is not None and not reading.errors and markers:
            return reached(f"{link} of {producer} committed; the log has {format_count(markers, 'commit marker')}.")
        if reading.errors:
            newest = f"{link}, the last EndTxn, got {reading.errors[0]}."
        elif reading.request.committed:
            newest = f"{link} of {producer} committed, but not to `orders`."
        else:
            newest = f"{link} of {producer}, the last EndTxn, aborted."
    return report_open(newest)


def _check_skipped(evidence: Evidence) -> Finding:
    levels: set[int] = set()
    for reading in evidence.readings("Fetch"):
        levels.add(reading.request.isolation_level)
        if reading.request.isolation_level != _READ_COMMITTED or reading.response is None:
            continue
        for part in evidence.partitions(reading.response.responses):
            if part.aborted_transactions:
                first = part.aborted_transactions[0]
                return reached(
                    f"{request_link(reading.exchange, 'Response')} names the aborted transaction of producer "
                    f"{first.producer_id} from offset {first.first_offset} on, "
                    "and your consumer skipped exactly its records."
                )
    aborts = sum(batch.control_type == "ABORT" for log in evidence.logs("orders") for batch in log.batches)
    in_log = f"`orders` has {format_count(aborts, 'abort marker')}"
    if not levels:
        return report_open(f"{in_log}, and no Fetch has come.")
    if _READ_COMMITTED not in levels:
        return report_open(f"{in_log}, and all consumers have read uncommitted records, too.")
    return report_open(f"{in_log}, and no read_committed consumer has come to one.")


def _check_fenced(evidence: Evidence) -> Finding:
    for api in ("AddPartitionsToTxn", "Produce", "EndTxn", "InitProducerId"):
        for reading in evidence.readings(api):
            if _FENCED & set(reading.errors):
                return reached(f"{request_link(reading.exchange)}, {api}, got {reading.errors[0]}.")
    newest = "No InitProducerId of a transactional producer has come."
    for reading in evidence.readings("InitProducerId"):
        if reading.request.transactional_id is not None and reading.response is not None and not reading.errors:
            newest = (
                f"{request_link(reading.exchange)} gave {reading.request.transactional_id!r} the epoch "
                f"{reading.response.producer_epoch}, and no producer of an older epoch has gone on."
            )
    return report_open(newest)


TRANSACTIONS: Final = (
    Goal(
        "committed",
        "Commit a transaction that writes to `orders`.",
        "Set `transactional.id`, then call init_transactions, begin_transaction, produce and commit_transaction.",
        _check_committed,
    ),
    Goal(
        "skipped",
        "Write and flush in a transaction, abort it, and read `orders` with a consumer that skips the aborted records.",
        "Set `isolation.level` to `read_committed` in the consumer. Flush before you abort, or the client drops "
        "the records that it has not sent.",
        _check_skipped,
    ),
    Goal(
        "fenced",
        "Start a second producer with the same transactional id, and then use the first producer again.",
        "The second init_transactions raises the epoch. The next call of the first producer fails.",
        _check_fenced,
    ),
)


def _check_expired(evidence: Evidence) -> Finding:
    for event in evidence.events:
        if (event.kind, event.topic) == ("retention", "orders") and event.facts["after"]["start"] > 0:
            link = f"[orders-{event.partition}](/logs/orders/{event.partition})"
            return reached(f"{link} begins at offset {event.facts['after']['start']} now. {event.text}")
    for log in evidence.logs("orders"):
        start, end = log.log.log_start_offset, log.log.log_end_offset
        return report_open(f"Retention has deleted nothing of {log.link()}: it has the offsets {start} to {end - 1}.")
    return report_open(no_records_text("orders"))


def _check_compacted(evidence: Evidence) -> Finding:
    for log in evidence.logs("prices"):
        records = sum(batch.records or 0 for batch in log.batches)
        offsets = log.log.log_end_offset - log.first_offset
        if records < offsets:
            return reached(f"{log.link()} has {format_count(records, 'record')} left of {offsets} offsets.")
        return report_open(
            f"{log.link()} has {format_count(records, 'record')} at {format_count(offsets, 'offset')}: all are left."
        )
    return report_open(no_records_text("prices"))


def _check_tombstone(evidence: Evidence) -> Finding:
    logs = {log.partition: log for log in evidence.logs("prices")}
    written: set[bytes] = set()
    newest = "No tombstone has come to `prices`."
    for key, has_value, partition, offset in _keyed_records(evidence):
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
    return report_open(newest)


def _keyed_records(evidence: Evidence) -> Iterator[tuple[bytes, bool, int, int]]:
    """Yield each keyed record produced to `prices`: its key, whether it has a value, its partition and its offset."""
    for reading in evidence.readings("Produce"):
        sets = record_sets(reading.exchange, evidence.topics)
        # Without a successful response, the offsets of the records are unknown.
        if any(record_set["first"] is None for record_set in sets):
            continue
        places = [(batches, offset) for batches in sets for offset in range(batches["first"], batches["last"] + 1)]
        records = (node for node in request_nodes(reading.exchange) if node.type == "RECORD")
        for (record_set, offset), record in zip(places, records, strict=False):
            key, value = (record.find(name).value for name in ("key", "value"))
            if record_set["topic"] == "prices" and key is not None:
                yield bytes(key), value is not None, record_set["partition"], offset


RETENTION: Final = (
    Goal(
        "expired",
        "Have the broker delete old segments of `orders`.",
        "Write to `orders`, and advance the clock: see the text. The lab created it with `retention.ms=60000`.",
        _check_expired,
    ),
    Goal(
        "compacted",
        "Have a compacted topic `prices` keep the newest record of each key.",
        "Write several values with the same key, and compact the topic: see the text.",
        _check_compacted,
    ),
    Goal(
        "tombstone",
        "Delete a key of `prices` with a tombstone, and have the topic compacted.",
        "Produce a record with an existing key and a null value.",
        _check_tombstone,
    ),
)
