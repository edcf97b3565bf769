"""kafka-python 1.4.7 in a process of its own: the client of 2013 to 2017, which still speaks the old message formats.

Run as a script it does the jobs that it finds as JSON on stdin, and prints what it saw. `run` starts it so, in a test.
It lives in a folder of its own, since the tests use a newer kafka-python.
"""

import base64
import json
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.clients.kafka_versions import import_kafka
from tests.programs import run_to_success

TIMEOUT = 300.0
PLACE = Path(sysconfig.get_path("data")) / "old-client"
"""Where the Makefile puts it, beside the packages of the virtual environment."""


class OldRecord(NamedTuple):
    """One record; `timestamp` is in ms, None where the format has none. `checksum` is the message's, or of v2 None."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    offset: int = -1
    timestamp_type: int | None = None
    checksum: int | None = None


class Seen(NamedTuple):
    """The client's configuration, and the records that it read."""

    #: (offset, timestamp) of each record that it produced.
    produced: list[list[int]]
    consumed: list[OldRecord]
    beginning: int
    end: int
    #: For each time that was asked for, (offset, timestamp) or None; empty below 0.10.1.
    times: list[list[int] | None]


class Job(NamedTuple):
    """Produce `produce` into partition 0 of a topic in one batch; then read `consume` records, from `start` on."""

    topic: str
    produce: Sequence[OldRecord] = ()
    compression: str | None = None
    consume: int = 0
    start: int | None = None
    fetch_bytes: int = 1 << 20
    times: Sequence[int] = ()


def run(bootstrap: str, version: Sequence[int], jobs: Sequence[Job]) -> list[Seen]:
    """Let the client, told that the broker is of this version, do the jobs. AssertionError when it fails."""
    assert PLACE.is_dir(), f"{PLACE} is not there: `make setup` makes it"
    asked = {
        "bootstrap": bootstrap,
        "version": list(version),
        "jobs": [{**job._asdict(), "produce": [_to_json(record) for record in job.produce]} for job in jobs],
    }
    done = run_to_success(
        [sys.executable, "-m", "tests.clients.old_client", str(PLACE)], input=json.dumps(asked), timeout=4 * TIMEOUT
    )
    seen = json.loads(done.stdout)
    return [Seen(**{**each, "consumed": [_from_json(record) for record in each["consumed"]]}) for each in seen]


def _to_json(record: OldRecord) -> list[Any]:
    key, value, timestamp, headers, *rest = record
    return [_text(key), _text(value), timestamp, [[name, _text(content)] for name, content in headers], *rest]


def _from_json(fields: Sequence[Any]) -> OldRecord:
    key, value, timestamp, headers, *rest = fields
    return OldRecord(
        _bytes(key), _bytes(value), timestamp, tuple((name, _bytes(content) or b"") for name, content in headers), *rest
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _produce(kafka: Any, common: dict[str, Any], job: dict[str, Any]) -> list[list[int]]:
    producer = kafka.KafkaProducer(
        **common,
        compression_type=job["compression"],
        acks="all",
        linger_ms=60_000,  # one batch; flush() ends the waiting
        batch_size=4 << 20,
        max_request_size=4 << 20,
    )
    futures = [
        producer.send(
            job["topic"],
            value=_bytes(value),
            key=_bytes(key),
            headers=[(name, _bytes(content)) for name, content in headers] or None,
            partition=0,
            timestamp_ms=timestamp,
        )
        for key, value, timestamp, headers, *_ in job["produce"]
    ]
    producer.flush(TIMEOUT)
    answers = [future.get(TIMEOUT) for future in futures]
    producer.close()
    return [[answer.offset, answer.timestamp] for answer in answers]


def _consume(kafka: Any, common: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    consumer = kafka.KafkaConsumer(
        **common, group_id=None, auto_offset_reset="earliest", max_partition_fetch_bytes=job["fetch_bytes"]
    )
    partition = kafka.TopicPartition(job["topic"], 0)
    consumer.assign([partition])
    if job["start"] is not None:
        consumer.seek(partition, job["start"])
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < job["consume"]:
        assert time.monotonic() < deadline, f"{len(found)} of {job['consume']} records of {job['topic']} came"
        found += consumer.poll(timeout_ms=500).get(partition, [])
    times = [consumer.offsets_for_times({partition: at})[partition] for at in job["times"]]
    seen = {
        "consumed": [_to_json(_old_record(record)) for record in found],
        "beginning": consumer.beginning_offsets([partition])[partition],
        "end": consumer.end_offsets([partition])[partition],
        "times": [None if place is None else [place.offset, place.timestamp] for place in times],
    }
    consumer.close()
    return seen


def _old_record(record: Any) -> OldRecord:
    headers = tuple(record.headers)
    return OldRecord(
        record.key, record.value, record.timestamp, headers, record.offset, record.timestamp_type, record.checksum
    )


def main() -> None:
    """Do the jobs."""
    kafka = import_kafka(sys.argv[1])
    assert kafka.__version__ == "1.4.7"
    asked = json.loads(sys.stdin.read())
    common = {"bootstrap_servers": asked["bootstrap"], "api_version": tuple(asked["version"])}
    seen: list[dict[str, Any]] = []
    for job in asked["jobs"]:
        produced = _produce(kafka, common, job) if job["produce"] else []
        seen.append({"produced": produced, **_consume(kafka, common, job)})
    print(json.dumps(seen))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
