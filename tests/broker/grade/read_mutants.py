"""The mutants of the stages about Fetch and ListOffsets."""

from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import (
    asked,
    first_batch,
    flipped,
    made,
    put,
    shift,
    signed,
    stamped,
    swap,
    without_first_batch,
)
from tests.broker.grade.relay import Mutant

_F: Final = ApiKey.FETCH
_L: Final = ApiKey.LIST_OFFSETS
_FETCHED: Final = "responses.partitions"
_LISTED: Final = "topics.partitions"

FETCH: Final = (
    Mutant(
        "the first batch alone",
        "fetch/what-was-produced-is-fetched",
        _F,
        response=made(f"{_FETCHED}.records", first_batch),
    ),
    Mutant(
        "the first batch left out",
        "fetch/what-was-produced-is-fetched",
        _F,
        response=made(f"{_FETCHED}.records", without_first_batch),
    ),
    Mutant("no records", "fetch/what-was-produced-is-fetched", _F, response=put(f"{_FETCHED}.records", b"")),
    Mutant(
        "base offsets as the producer wrote them",
        "fetch/what-was-produced-is-fetched",
        _F,
        response=made(f"{_FETCHED}.records", flipped(7)),
    ),
    Mutant(
        "checksums of batches wrong",
        "fetch/checksums-of-batches-fit",
        _F,
        response=made(f"{_FETCHED}.records", flipped(18)),
    ),
    Mutant(
        "no leader epoch in batches",
        "fetch/batches-have-the-leaders-epoch",
        _F,
        response=made(
            f"{_FETCHED}.records", lambda data: bytes(data or b"")[:12] + b"\xff\xff\xff\xff" + bytes(data or b"")[16:]
        ),
    ),
    Mutant(
        "a high watermark one too low",
        "fetch/the-high-watermark-is-told",
        _F,
        response=shift(f"{_FETCHED}.high_watermark", -1),
    ),
    Mutant(
        "no last stable offset",
        "fetch/the-high-watermark-is-told",
        _F,
        response=put(f"{_FETCHED}.last_stable_offset", -1),
    ),
    Mutant(
        "no log start offset in Fetch",
        "fetch/the-high-watermark-is-told",
        _F,
        response=put(f"{_FETCHED}.log_start_offset", -1),
    ),
    Mutant(
        "the next batch instead of the one with the offset",
        "fetch/a-fetch-within-a-batch-returns-the-whole-batch",
        _F,
        response=lambda m, r: (
            made(f"{_FETCHED}.records", without_first_batch)(m, r)
            if r.topics and r.topics[0].partitions[0].fetch_offset
            else None
        ),
    ),
    Mutant(
        "the end of the log is out of range",
        "fetch/at-the-end-there-is-nothing",
        _F,
        response=lambda m, r: (
            put(f"{_FETCHED}.error_code", 1)(m, r)
            if not any(p.records for t in m.responses for p in t.partitions)
            else None
        ),
    ),
    Mutant(
        "no error behind the end",
        "fetch/an-offset-behind-the-end-has-error-1",
        _F,
        response=swap(f"{_FETCHED}.error_code", 1, 0),
    ),
    Mutant(
        "no error for an unknown partition",
        "fetch/an-unknown-partition-has-error-3",
        _F,
        response=swap(f"{_FETCHED}.error_code", 3, 0),
    ),
    Mutant(
        "no wake-up by new records",
        "fetch/a-waiting-fetch-is-woken-up-by-new-records",
        _F,
        request=asked(swap("min_bytes", 1, 1 << 20)),
    ),
    Mutant(
        "no long poll", "fetch/a-waiting-fetch-is-woken-up-by-new-records", _F, request=asked(put("max_wait_ms", 0))
    ),
    Mutant("max_wait_ms ignored", "fetch/a-wait-ends-after-max-wait-ms", _F, request=asked(put("max_wait_ms", 0))),
    Mutant(
        "an endless wait", "fetch/a-wait-ends-after-max-wait-ms", _F, request=asked(swap("max_wait_ms", 400, 60000))
    ),
    Mutant("min_bytes ignored", "fetch/min-bytes-is-waited-for", _F, request=asked(put("min_bytes", 1))),
    Mutant("min_bytes 0 taken for 1", "fetch/min-bytes-0-does-not-wait", _F, request=asked(swap("min_bytes", 0, 1))),
    Mutant(
        "a first batch above the limit held back",
        "fetch/the-first-batch-comes-even-if-it-is-too-large",
        _F,
        response=lambda m, r: put(f"{_FETCHED}.records", b"")(m, r) if r.max_bytes < 100 else None,
    ),
    Mutant(
        "partition_max_bytes ignored",
        "fetch/partition-max-bytes-limits-the-answer",
        _F,
        request=asked(put("topics.partitions.partition_max_bytes", 1 << 20)),
    ),
    Mutant(
        "max_bytes ignored",
        "fetch/max-bytes-limits-all-partitions-together",
        _F,
        request=asked(put("max_bytes", 1 << 20)),
    ),
    Mutant(
        "leader epochs not compared",
        "fetch/a-future-leader-epoch-has-error-75",
        _F,
        request=asked(put("topics.partitions.current_leader_epoch", -1)),
    ),
    Mutant(
        "Fetch 11 not served",
        "fetch/all-versions-are-served",
        _F,
        raw=lambda frame: None if frame[4:8] == b"\0\1\0\x0b" else frame,
    ),
    Mutant("nothing for an id", "fetch/topics-are-fetched-by-id", _F, response=put(f"{_FETCHED}.records", None)),
    Mutant(
        "error 3 for an unknown id in Fetch",
        "fetch/an-unknown-id-has-error-100",
        _F,
        response=swap(f"{_FETCHED}.error_code", 100, 3),
    ),
    Mutant("no sessions", "fetch/epoch-0-makes-a-session", _F, response=put("session_id", 0)),
    Mutant(
        "sessions that answer in full",
        "fetch/a-session-leaves-out-what-is-as-before",
        _F,
        request=lambda r: None,
        response=lambda m, r: m.responses.append(_empty()) if r.session_epoch > 0 else None,
    ),
    Mutant(
        "new partitions of a session unheard",
        "fetch/a-session-takes-more-partitions",
        _F,
        request=lambda r: setattr(r, "topics", []) if r.session_epoch > 0 else None,
    ),
    Mutant(
        "forgotten partitions remembered",
        "fetch/a-session-forgets-partitions",
        _F,
        request=asked(put("forgotten_topics_data", [])),
    ),
    Mutant(
        "session epochs not compared",
        "fetch/a-wrong-session-epoch-has-error-71",
        _F,
        response=swap("error_code", 71, 0),
    ),
    Mutant(
        "error 71 for an unknown session",
        "fetch/an-unknown-session-has-error-70",
        _F,
        response=swap("error_code", 70, 71),
    ),
    Mutant("sessions that never end", "fetch/epoch-minus-1-ends-a-session", _F, response=swap("error_code", 70, 0)),
    Mutant(
        "the broker's time in all records",
        "fetch/timestamps-come-back",
        _F,
        response=made(f"{_FETCHED}.records", signed(stamped)),
    ),
)
LISTS: Final = (
    Mutant(
        "an empty log ends at 1",
        "list-offsets/an-empty-partition-begins-and-ends-at-0",
        _L,
        response=swap(f"{_LISTED}.offset", 0, 1),
    ),
    Mutant(
        "the last record instead of the end",
        "list-offsets/the-end-is-behind-the-last-record",
        _L,
        response=swap(f"{_LISTED}.offset", 3, 2),
    ),
    Mutant(
        "the end instead of the start",
        "list-offsets/the-end-is-behind-the-last-record",
        _L,
        request=asked(swap(f"{_LISTED}.timestamp", -2, -1)),
    ),
    Mutant(
        "a time for the end", "list-offsets/start-and-end-have-no-time", _L, response=put(f"{_LISTED}.timestamp", 5)
    ),
    Mutant(
        "the first record after the time",
        "list-offsets/a-time-finds-the-first-record-at-or-after-it",
        _L,
        request=asked(made(f"{_LISTED}.timestamp", lambda time: time + 1 if time > 0 else time)),
    ),
    Mutant(
        "the batch instead of the record",
        "list-offsets/a-time-finds-a-record-within-a-batch",
        _L,
        response=swap(f"{_LISTED}.offset", 2, 0),
    ),
    Mutant(
        "the asked time instead of the record's",
        "list-offsets/a-time-finds-the-first-record-at-or-after-it",
        _L,
        response=lambda m, r: put(f"{_LISTED}.timestamp", r.topics[0].partitions[0].timestamp)(m, r),
    ),
    Mutant(
        "the end for a time after all records",
        "list-offsets/a-time-after-all-records-finds-nothing",
        _L,
        response=swap(f"{_LISTED}.offset", -1, 1),
    ),
    Mutant(
        "the last record with a time", "list-offsets/times-may-go-back", _L, response=swap(f"{_LISTED}.offset", 0, 2)
    ),
    Mutant(
        "the end for -3",
        "list-offsets/minus-3-finds-the-largest-time",
        _L,
        request=asked(swap(f"{_LISTED}.timestamp", -3, -1)),
    ),
    Mutant(
        "no error for an unknown topic in ListOffsets",
        "list-offsets/an-unknown-topic-has-error-3",
        _L,
        response=swap(f"{_LISTED}.error_code", 3, 0),
    ),
    Mutant(
        "DeleteRecords does nothing",
        "list-offsets/deleterecords-moves-the-start",
        ApiKey.DELETE_RECORDS,
        request=asked(put(f"{_LISTED}.offset", 0)),
    ),
    Mutant(
        "no low watermark",
        "list-offsets/deleterecords-moves-the-start",
        ApiKey.DELETE_RECORDS,
        response=put(f"{_LISTED}.low_watermark", -1),
    ),
    Mutant(
        "DeleteRecords behind the end",
        "list-offsets/deleterecords-behind-the-end-has-error-1",
        ApiKey.DELETE_RECORDS,
        response=swap(f"{_LISTED}.error_code", 1, 0),
    ),
    Mutant(
        "an epoch that ends a record early",
        "list-offsets/the-current-epoch-ends-at-the-end",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        response=shift(f"{_LISTED}.end_offset", -1),
    ),
)


def _empty() -> Any:
    from minibroker_protocol.messages.fetch import FetchableTopicResponse, PartitionData  # noqa: PLC0415 - for one mutant

    partition = PartitionData(partition_index=0, error_code=0, high_watermark=0)
    return FetchableTopicResponse(topic="x", partitions=[partition])
