"""The validation of faults, and the requests that they match."""

from pathlib import Path
from typing import Any

import pytest

from minibroker.server.faults.fault import Fault, FaultError, RequestContext, read_faults
from minibroker.server.requests.declarations import Target
from minibroker_protocol.error_codes import ErrorCode


def asked(
    api: str = "Produce", version: int = 9, client_id: str | None = "c", node: int = 1, **target: Any
) -> RequestContext:
    return RequestContext(api, version, client_id, node, (Target(**target),))


def fault(**fields: Any) -> Fault:
    return Fault(**{"error": "NOT_LEADER_OR_FOLLOWER", **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the fault has no effect; give one of error, drop, disconnect"),
        ({"api": "Prodcue", "drop": "after"}, "api: 'Prodcue' is not an API of Kafka; did you mean Produce?"),
        ({"api": 3, "drop": "after"}, "api: 3 is not a text"),
        ({"error": "NOT_LEADER"}, "error: 'NOT_LEADER' is neither the name nor the number"),
        ({"error": 9999}, "error: 9999 is neither"),
        ({"error": True}, "error: True is neither"),
        ({"error": "NONE"}, "error: NONE is not an error"),
        ({"drop": "during"}, "drop: 'during' is not one of before, after"),
        ({"disconnect": True}, "disconnect: True is not one of before, after"),
        ({"corrupt": "all"}, "corrupt: 'all' is not one of records, body"),
        ({"corrupt": "records"}, "corrupt: 'records' needs api='Fetch', not None"),
        ({"api": "Produce", "stale_metadata": 1}, "stale_metadata: 1 needs api='Metadata', not 'Produce'"),
        ({"api": "Produce", "fetch_bytes": 1}, "fetch_bytes: 1 needs api='Fetch', not 'Produce'"),
        ({"api": "ShareFetch", "fetch_bytes": -1}, "fetch_bytes: -1 is below 0"),
        ({"late": 0}, "late: 0 is below 1"),
        ({"late": 1, "disconnect": "after"}, "late: 1 cannot go with the field disconnect"),
        ({"error": 7, "applied": False}, "applied: False is not true"),
        ({"drop": "after", "applied": True}, "applied: True has no meaning without error"),
        ({"black_hole": False}, "black_hole: False is not true"),
        ({"truncate": -1}, "truncate: -1 is below 0"),
        ({"delay_ms": 0}, "delay_ms: 0 is out of range"),
        ({"delay_ms": "1s"}, "delay_ms: '1s' is not a number"),
        ({"delay_ms": float("nan")}, "delay_ms: nan is out of range"),
        ({"throttle_ms": 1.5}, "throttle_ms: 1.5 is not an integer"),
        ({"throttle_ms": 10, "drop": "after"}, "throttle_ms: 10 cannot go with drop"),
        ({"error": 1, "drop": "after"}, "drop: 'after' cannot go with the field error"),
        ({"delay_ms": 1, "nth": 0}, "nth: 0 is below 1"),
        ({"delay_ms": 1, "nth": 2, "times": 1}, "times: 1 cannot be given with nth"),
        ({"delay_ms": 1, "times": True}, "times: True is not an integer"),
        ({"delay_ms": 1, "probability": 1.5}, "probability: 1.5 is out of range; give a number above 0, and at most 1"),
        ({"delay_ms": 1, "seed": 1}, "seed: 1 has no meaning without probability or jitter_ms"),
        ({"jitter_ms": 0}, "jitter_ms: 0 is out of range"),
        ({"bytes_per_second": 0}, "bytes_per_second: 0 is below 1"),
        ({"slice_bytes": 9, "corrupt": "body"}, "slice_bytes: 9 cannot go with corrupt"),
        ({"delay_ms": 1, "versions": "3-1"}, "versions: '3-1' is not a version"),
        ({"delay_ms": 1, "versions": "new"}, "versions: 'new' is not a version"),
        ({"delay_ms": 1, "versions": 1.0}, "versions: 1.0 is not a version"),
        ({"delay_ms": 1, "partition": -1}, "partition: -1 is below 0"),
        ({"delay_ms": 1, "topic": b"t"}, "topic: b't' is not a text"),
        ({"delay_ms": 1, "api": "Heartbeat", "topic": "t"}, "topic: 't' never matches, since Heartbeat names none"),
        ({"delay_ms": 1, "api": "Produce", "group": "g"}, "group: 'g' never matches, since Produce names none"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_its_field_and_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError) as refused:
        Fault(**fields)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLOWER", "not_leader_or_follower"])
def test_a_misspelt_error_is_answered_with_the_one_that_was_meant(error: str) -> None:
    with pytest.raises(FaultError, match=r"of Kafka's errors; did you mean NOT_LEADER_OR_FOLLOWER\?$"):
        Fault(error=error)


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", 16, ErrorCode.NOT_COORDINATOR])
def test_an_error_is_given_by_name_or_number(error: Any) -> None:
    assert Fault(error=error).error is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("api", ["Produce", "PRODUCE", "produce", "Prod*", "P?oduce", "*", None])
def test_an_api_is_found_by_name_and_pattern(api: str | None) -> None:
    assert fault(api=api).matches(asked("Produce"))


@pytest.mark.parametrize("api", ["Fetch", "*Txn*", "ADD_PARTITIONS_TO_TXN"])
def test_another_api_does_not_match(api: str) -> None:
    assert not fault(api=api).matches(asked("Produce"))


@pytest.mark.parametrize(("versions", "hits"), [("9", True), (9, True), ("0-8", False), ("9+", True), ("3-9", True)])
def test_versions_are_one_or_a_range(versions: str | int, hits: bool) -> None:  # noqa: FBT001 - a column of the table
    assert fault(versions=versions).matches(asked(version=9)) is hits


def test_every_criterion_that_is_given_has_to_match() -> None:
    topic_fault = fault(topic="a*", partition=1)
    assert topic_fault.matches(asked(topic="ab", partition=1))
    assert not topic_fault.matches(asked(topic="ab", partition=0))
    assert not topic_fault.matches(asked(topic="b", partition=1))
    assert not fault(client_id="x?").matches(asked(client_id="x"))
    assert fault(client_id="").matches(asked(client_id=None))
    assert not fault(node=2).matches(asked(node=1))


def test_brackets_in_a_pattern_are_no_wildcards() -> None:
    assert not fault(topic="[ab]").matches(asked(topic="a"))
    assert fault(topic="[ab]").matches(asked(topic="[ab]"))


def firings(tested: Fault, requests: int) -> list[int]:
    """Return the numbers of the requests that the fault hits, starting at 1."""
    numbers: list[int] = []
    for number in range(1, requests + 1):
        if tested.is_due(asked()):
            tested.fired += 1
            numbers.append(number)
    return numbers


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 3}, [3]),
        ({"after": 4}, [5, 6]),
        ({"times": 2}, [1, 2]),
        ({"after": 1, "times": 2}, [2, 3]),
        ({"probability": 1}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_how_often_a_fault_hits(fields: dict[str, Any], expected: list[int]) -> None:
    assert firings(fault(**fields), 6) == expected


def test_a_seed_makes_chances_come_out_alike() -> None:
    first, second, other = (firings(fault(probability=0.5, seed=seed), 200) for seed in (7, 7, 8))
    assert first == second != other
    assert 60 < len(first) < 140


def test_a_fault_is_data_there_and_back() -> None:
    original = Fault(api="Produce", topic="t", error="NOT_LEADER_OR_FOLLOWER", delay_ms=5, times=2)
    data = original.to_json()
    assert data == {"api": "Produce", "topic": "t", "error": "NOT_LEADER_OR_FOLLOWER", "delay_ms": 5, "times": 2}
    assert Fault.from_json(data).to_json() == data
    expected = "Fault(api='Produce', topic='t', times=2, error='NOT_LEADER_OR_FOLLOWER', delay_ms=5)"
    assert repr(original) == expected


@pytest.mark.parametrize("wrapped", [True, False])
def test_faults_are_read_from_json(tmp_path: Path, wrapped: bool) -> None:  # noqa: FBT001 - a parameter of the test
    path = tmp_path / "faults.json"
    documents = '[{"api": "Fetch", "drop": "after"}, {"delay_ms": 3}]'
    path.write_text(f'{{"faults": {documents}}}' if wrapped else documents)
    assert [fault.to_json() for fault in read_faults(str(path))] == [{"api": "Fetch", "drop": "after"}, {"delay_ms": 3}]


def test_faults_are_read_from_yaml(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "faults.yaml"
    path.write_text("faults:\n  - api: Fetch\n    error: OFFSET_OUT_OF_RANGE\n    times: 1\n")
    (read,) = read_faults(str(path))
    assert read.error is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.json", "{", "not JSON: Expecting property name"),
        ("f.json", "3", "faults: 3 is not a list"),
        ("f.json", '{"fault": []}', "fault: there is no such field; the only field is faults"),
        ("f.json", "{}", "it has no faults; write a list"),
        ("f.json", '[{"drop": "after"}, 3]', "fault 2: 3 is not a mapping of fields"),
        ("f.json", '[{"drop": "after"}, {"drop": "now"}]', "fault 2: drop: 'now' is not one of before, after"),
        ("f.json", '[{"tpoic": "t"}]', "fault 1: tpoic: there is no such field; did you mean topic?"),
        ("f.json", '[{"x": 1}]', "fault 1: x: there is no such field; there are after, api,"),
        ("f.json", "[" * 100_000, "nested too deeply"),
        ("f.yaml", "faults: [", "not YAML: while parsing"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_fault_and_the_field(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FaultError) as refused:
        read_faults(str(path))
    assert str(refused.value).startswith(f"{path}: {message}")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_bytes(b"\xff")
    with pytest.raises(FaultError, match="not UTF-8"):
        read_faults(str(path))
