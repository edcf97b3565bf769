"""Mutants for the fetch and list-offsets stages."""

from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import (
    first_batch,
    flipped,
    mapped,
    put,
    shift,
    signed,
    stamped,
    swap,
    when,
    without_first_batch,
)
from tests.broker.grade.relay import Mutant, caught

_F: Final = ApiKey.FETCH
_L: Final = ApiKey.LIST_OFFSETS
_FETCHED: Final = "responses.partitions"
_LISTED: Final = "topics.partitions"

FETCH: Final = caught(
    {
        "fetch/what-was-produced-is-fetched": [
            Mutant("the first batch alone", _F, mapped(f"{_FETCHED}.records", first_batch)),
            Mutant("the first batch left out", _F, mapped(f"{_FETCHED}.records", without_first_batch)),
            Mutant("no records", _F, put(f"{_FETCHED}.records", b"")),
            Mutant("base offsets as the producer wrote them", _F, mapped(f"{_FETCHED}.records", flipped(7))),
        ],
        "fetch/checksums-of-batches-fit": [
            Mutant("checksums of batches wrong", _F, mapped(f"{_FETCHED}.records", flipped(18)))
        ],
        "fetch/batches-have-the-leaders-epoch": [
            Mutant(
                "no leader epoch in batches",
                _F,
                mapped(
                    f"{_FETCHED}.records",
                    lambda data: bytes(data or b"")[:12] + b"\xff\xff\xff\xff" + bytes(data or b"")[16:],
                ),
            )
        ],
        "fetch/the-high-watermark-is-told": [
            Mutant("a high watermark one too low", _F, shift(f"{_FETCHED}.high_watermark", -1)),
            Mutant("no last stable offset", _F, put(f"{_FETCHED}.last_stable_offset", -1)),
            Mutant("no log start offset in Fetch", _F, put(f"{_FETCHED}.log_start_offset", -1)),
        ],
        "fetch/a-fetch-within-a-batch-returns-the-whole-batch": [
            Mutant(
                "the next batch instead of the one with the offset",
                _F,
                when(
                    lambda _, r: r.topics and r.topics[0].partitions[0].fetch_offset,
                    mapped(f"{_FETCHED}.records", without_first_batch),
                ),
            )
        ],
        "fetch/at-the-end-there-is-nothing": [
            Mutant(
                "the end of the log is out of range",
                _F,
                when(
                    lambda m, _: not any(p.records for t in m.responses for p in t.partitions),
                    put(f"{_FETCHED}.error_code", 1),
                ),
            )
        ],
        "fetch/an-offset-behind-the-end-has-error-1": [
            Mutant("no error behind the end", _F, swap(f"{_FETCHED}.error_code", 1, 0))
        ],
        "fetch/an-unknown-partition-has-error-3": [
            Mutant("no error for an unknown partition", _F, swap(f"{_FETCHED}.error_code", 3, 0))
        ],
        "fetch/a-waiting-fetch-is-woken-up-by-new-records": [
            Mutant("no wake-up by new records", _F, request=swap("min_bytes", 1, 1 << 20)),
            Mutant("no long poll", _F, request=put("max_wait_ms", 0)),
        ],
        "fetch/a-wait-ends-after-max-wait-ms": [
            Mutant("max_wait_ms ignored", _F, request=put("max_wait_ms", 0)),
            Mutant("an endless wait", _F, request=swap("max_wait_ms", 400, 60000)),
        ],
        "fetch/min-bytes-is-waited-for": [Mutant("min_bytes ignored", _F, request=put("min_bytes", 1))],
        "fetch/min-bytes-0-does-not-wait": [Mutant("min_bytes 0 taken for 1", _F, request=swap("min_bytes", 0, 1))],
        "fetch/the-first-batch-comes-even-if-it-is-too-large": [
            Mutant(
                "a first batch above the limit held back",
                _F,
                when(lambda _, r: r.max_bytes < 100, put(f"{_FETCHED}.records", b"")),
            )
        ],
        "fetch/partition-max-bytes-limits-the-answer": [
            Mutant("partition_max_bytes ignored", _F, request=put("topics.partitions.partition_max_bytes", 1 << 20))
        ],
        "fetch/max-bytes-limits-all-partitions-together": [
            Mutant("max_bytes ignored", _F, request=put("max_bytes", 1 << 20))
        ],
        "fetch/a-future-leader-epoch-has-error-75": [
            Mutant("leader epochs not compared", _F, request=put("topics.partitions.current_leader_epoch", -1))
        ],
        "fetch/all-versions-are-served": [
            Mutant("Fetch 11 not served", _F, raw=lambda frame: None if frame[4:8] == b"\0\1\0\x0b" else frame)
        ],
        "fetch/topics-are-fetched-by-id": [Mutant("nothing for an id", _F, put(f"{_FETCHED}.records", None))],
        "fetch/an-unknown-id-has-error-100": [
            Mutant("error 3 for an unknown id in Fetch", _F, swap(f"{_FETCHED}.error_code", 100, 3))
        ],
        "fetch/epoch-0-makes-a-session": [Mutant("no sessions", _F, put("session_id", 0))],
        "fetch/a-session-leaves-out-what-is-as-before": [
            Mutant(
                "sessions that answer in full",
                _F,
                lambda m, r: m.responses.append(_empty()) if r.session_epoch > 0 else None,
                request=lambda request, _: None,
            )
        ],
        "fetch/a-session-takes-more-partitions": [
            Mutant(
                "new partitions of a session unheard",
                _F,
                request=lambda request, _: setattr(request, "topics", []) if request.session_epoch > 0 else None,
            )
        ],
        "fetch/a-session-forgets-partitions": [
            Mutant("forgotten partitions remembered", _F, request=put("forgotten_topics_data", []))
        ],
        "fetch/a-wrong-session-epoch-has-error-71": [
            Mutant("session epochs not compared", _F, swap("error_code", 71, 0))
        ],
        "fetch/an-unknown-session-has-error-70": [
            Mutant("error 71 for an unknown session", _F, swap("error_code", 70, 71))
        ],
        "fetch/epoch-minus-1-ends-a-session": [Mutant("sessions that never end", _F, swap("error_code", 70, 0))],
        "fetch/timestamps-come-back": [
            Mutant("the broker's time in all records", _F, mapped(f"{_FETCHED}.records", signed(stamped)))
        ],
    }
)
LISTS: Final = caught(
    {
        "list-offsets/an-empty-partition-begins-and-ends-at-0": [
            Mutant("an empty log ends at 1", _L, swap(f"{_LISTED}.offset", 0, 1))
        ],
        "list-offsets/the-end-is-behind-the-last-record": [
            Mutant("the last record instead of the end", _L, swap(f"{_LISTED}.offset", 3, 2)),
            Mutant("the end instead of the start", _L, request=swap(f"{_LISTED}.timestamp", -2, -1)),
        ],
        "list-offsets/start-and-end-have-no-time": [Mutant("a time for the end", _L, put(f"{_LISTED}.timestamp", 5))],
        "list-offsets/a-time-finds-the-first-record-at-or-after-it": [
            Mutant(
                "the first record after the time",
                _L,
                request=mapped(f"{_LISTED}.timestamp", lambda time: time + 1 if time > 0 else time),
            ),
            Mutant(
                "the asked time instead of the record's",
                _L,
                lambda m, r: put(f"{_LISTED}.timestamp", r.topics[0].partitions[0].timestamp)(m, r),
            ),
        ],
        "list-offsets/a-time-finds-a-record-within-a-batch": [
            Mutant("the batch instead of the record", _L, swap(f"{_LISTED}.offset", 2, 0))
        ],
        "list-offsets/a-time-after-all-records-finds-nothing": [
            Mutant("the end for a time after all records", _L, swap(f"{_LISTED}.offset", -1, 1))
        ],
        "list-offsets/times-may-go-back": [Mutant("the last record with a time", _L, swap(f"{_LISTED}.offset", 0, 2))],
        "list-offsets/minus-3-finds-the-largest-time": [
            Mutant("the end for -3", _L, request=swap(f"{_LISTED}.timestamp", -3, -1))
        ],
        "list-offsets/an-unknown-topic-has-error-3": [
            Mutant("no error for an unknown topic in ListOffsets", _L, swap(f"{_LISTED}.error_code", 3, 0))
        ],
        "list-offsets/deleterecords-moves-the-start": [
            Mutant("DeleteRecords does nothing", ApiKey.DELETE_RECORDS, request=put(f"{_LISTED}.offset", 0)),
            Mutant("no low watermark", ApiKey.DELETE_RECORDS, put(f"{_LISTED}.low_watermark", -1)),
        ],
        "list-offsets/deleterecords-behind-the-end-has-error-1": [
            Mutant("DeleteRecords behind the end", ApiKey.DELETE_RECORDS, swap(f"{_LISTED}.error_code", 1, 0))
        ],
        "list-offsets/the-current-epoch-ends-at-the-end": [
            Mutant(
                "an epoch that ends a record early", ApiKey.OFFSET_FOR_LEADER_EPOCH, shift(f"{_LISTED}.end_offset", -1)
            )
        ],
    }
)


def _empty() -> Any:
    from minibroker_protocol.messages.fetch import FetchableTopicResponse, PartitionData  # noqa: PLC0415 - for one mutant

    partition = PartitionData(partition_index=0, error_code=0, high_watermark=0)
    return FetchableTopicResponse(topic="x", partitions=[partition])
