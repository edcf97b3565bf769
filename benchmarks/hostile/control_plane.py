"""Requests of clients of the HTTP control plane."""

from dataclasses import replace

from benchmarks.hostile.bytes_of import batch, record
from benchmarks.hostile.case import WATCHED, Attack, Cases, Target
from benchmarks.wire import Connection, produce_request, produced_offset

_CASES = Cases()
case = _CASES.case
_CONTROL = replace(WATCHED, has_control=True)
_ALONE = "it has no control plane"


def _get(path: str) -> Attack:
    lines = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    return Attack(frames=(lines.encode(),), at="control")


@case("control plane: GET /topics of 5,000 topics", 5_000, broker=_CONTROL, alone=_ALONE)
def get_topics(target: Target, size: int) -> Attack:
    target.topics(size)
    return _get("/topics")


@case("control plane: GET /topics/TOPIC of 10,000 partitions", 10_000, broker=_CONTROL, alone=_ALONE)
def get_topic(target: Target, size: int) -> Attack:
    return _get(f"/topics/{target.topic(size)}")


@case("control plane: GET /topics/TOPIC/records of 200,000 records", 200_000, broker=_CONTROL, alone=_ALONE)
def get_records(target: Target, size: int) -> Attack:
    name = target.topic()
    each = 1_000
    data = batch(b"".join(record(number, b"v" * 100) for number in range(each)), each)
    with Connection(target.address) as connection:
        for _ in range(size // each):
            connection.socket.sendall(produce_request(name, 0, data))
            produced_offset(connection.receive())
    return _get(f"/topics/{name}/records")


@case("control plane: GET /metrics of 5,000 topics", 5_000, broker=_CONTROL, alone=_ALONE)
def get_metrics(target: Target, size: int) -> Attack:
    target.topics(size)
    return _get("/metrics")


CASES = tuple(_CASES.found)
