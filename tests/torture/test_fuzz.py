"""One round of `make torture ARGS=fuzz` for each configuration with fixed seeds, and the making of requests."""

import random
from pathlib import Path

import pytest

from minibroker.cluster.routing.routes import ROUTES, Route
from minibroker_protocol.codec import decode
from minibroker_protocol.messages.cluster import DescribeClusterRequest
from minibroker_protocol.primitives import skip_tagged_fields
from minibroker_protocol.schema import schema_of
from tests.broker.harness import frame_of
from tests.broker.socket_client import SocketClient
from tests.protocol.message_strategies import message_class
from tests.torture.fuzz.broker import CONFIGURATIONS, Configuration
from tests.torture.fuzz.campaign import Case, Findings, Round, cases_in, replay, run
from tests.torture.fuzz.mutation import mutated, with_unknown_tags
from tests.torture.fuzz.tame import tame
from tests.torture.fuzz.values import Hostile, Pool

_SEED = 24
_REQUESTS = 140
"""Two of each API."""


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)), ids=[each.name for each in CONFIGURATIONS])
def test_hostile_requests_leave_no_error_and_a_broker_that_serves(tmp_path: Path, number: int) -> None:
    findings = run(tmp_path, _SEED + number, rounds=1, requests=_REQUESTS)
    assert not findings.faults, "\n".join(findings.faults.values())
    assert findings.counts["requests"] > _REQUESTS
    assert findings.counts["answered" if number != 2 else "closed"] > 0


def test_a_round_that_was_kept_can_be_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('["ApiVersions", 0, "0000000a00120000000000010000"]\n')
    assert cases_in(path) == [Case("ApiVersions", 0, bytes.fromhex("0000000a00120000000000010000"))]
    assert replay(tmp_path, path, 0).counts["answered"] == 6


class _Failing(Round):
    """Its broker logs an error for each request."""

    def _connect(self) -> SocketClient:
        with self.broker.stderr.open("a") as log:
            log.write('{"level": "ERROR", "message": "A request could not be served", "exception": "ValueError: x"}\n')
        return super()._connect()


def test_an_error_in_the_log_is_a_finding_with_the_bytes_that_led_to_it(tmp_path: Path) -> None:
    findings = Findings(tmp_path / "found")
    cases = [Case("ApiVersions", 0, bytes.fromhex("0000000a00120000000000010000"))]
    _Failing(tmp_path / "round", 0, findings).replay(cases)
    assert list(findings.faults) == ["ApiVersions: ValueError: x"]
    assert cases_in(tmp_path / "found" / "fault-0.jsonl") == cases


@pytest.mark.parametrize("route", ROUTES, ids=[route.message for route in ROUTES])
def test_a_hostile_request_is_well_formed_until_it_is_spoilt(route: Route) -> None:
    kind = message_class(route, "Request")
    for version in range(route.first, route.last + 1):
        rng = random.Random(version)
        request = Hostile(rng, Pool()).request(kind, version)
        tame(request, rng)
        frame = frame_of(request, version, client_id="fuzz")
        body = 10 + len("fuzz")
        if version in schema_of(kind).flexible:
            body = skip_tagged_fields(memoryview(frame), body)
        decoded, end = decode(kind, memoryview(frame), version, body)
        assert (type(decoded), end) == (kind, len(frame))


def test_tagged_fields_that_nobody_knows_are_well_formed() -> None:
    frame = frame_of(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
    longer = with_unknown_tags(random.Random(1), frame)
    assert longer.startswith(frame[:-1])
    assert skip_tagged_fields(memoryview(longer), len(frame) - 1) == len(longer) > len(frame)


def test_faults_come_from_the_seed_alone() -> None:
    frame = bytes(range(200))
    assert [mutated(random.Random(7), frame) for _ in range(2)] == [mutated(random.Random(7), frame)] * 2
    assert len({mutated(random.Random(number), frame) for number in range(50)}) > 40
    assert isinstance(CONFIGURATIONS[0], Configuration)
