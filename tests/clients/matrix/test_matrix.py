"""Every feature of every client that passes on Kafka 3.9.1 or 4.4.0 passes here, with all clients at the same time."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.clients.matrix import records, servers
from tests.clients.matrix.clients import DRIVERS, PROGRAMS
from tests.clients.matrix.features import FEATURES, FRAMEWORKS, SINCE
from tests.clients.matrix.known import ASKS_FOR_MORE, GIVES_UP_LATE, KNOWN, NOT_OURS, UNSTEADY
from tests.clients.matrix.runs import Prepared, Run, prepare

_IN_TORTURE = (
    *("java-1.1.1", "java-2.4.1", "java-3.9.1", "confluent-kafka-1", "spark"),
    *("franz-go-1.6", "kafka-go-0.3", "sarama-1.38", "sarama-1.45", "sarama", "kafkajs-1", "aiokafka-0.7"),
    *("kafka-python-1.4", "kafka-python-1.4-as-0.8.2", "kafka-python-2.0", "kafka-python-2.2", "kafka-python-3"),
    *("kcat", "platformatic"),
)
"""Clients that only `make torture` runs. `make test` has a newer or another one of each language."""
CLIENTS = [
    pytest.param(name, marks=pytest.mark.torture if name in _IN_TORTURE else ())
    for name in DRIVERS
    if name not in PROGRAMS
]

NEEDS = {"sarama-1.45": "2.1", "platformatic": "3.1"}
"""The oldest release whose brokers each of these can use at all.

sarama 1.45 does not ask for versions, and takes a broker for 2.1 by default. platformatic reads the answer to its
first request in a version that releases before 2.4 did not have, and writes another one as it is since 3.1 only.
"""


def recorded(name: str) -> list[str]:
    """Return the checks of a client that are recorded."""
    return list(records.load(records.OURS).get(name, {}))


def checks_of(name: str, *without: tuple[str, str]) -> list[str]:
    """The checks to run: those that are recorded and pass on Kafka, without those that fail for a reason in the client.

    A check that fails on Kafka, too, would show nothing, and some of them fail by waiting until the check's limit.
    """
    left_out = {*NOT_OURS, *UNSTEADY, *without}
    return [check for check in recorded(name) if (name, check) not in left_out and records.passes_on_kafka(name, check)]


def chosen(request: pytest.FixtureRequest, fixture: str) -> list[str]:
    """Return the clients of the tests in this run that use a fixture."""
    items: list[Any] = request.session.items
    return [item.callspec.params["name"] for item in items if fixture in getattr(item, "fixturenames", ())]


@pytest.fixture(scope="module")
def prepared(request: pytest.FixtureRequest) -> Mapping[str, Prepared]:
    """Build all drivers before the first one runs: a compiler beside them would take the time that they have.

    One is fetched while another one is compiled.
    """
    names = list(dict.fromkeys(chosen(request, "prepared")))
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(lambda name: prepare(DRIVERS[name]), names), strict=True))


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, prepared: Mapping[str, Prepared], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Run]]:
    """All drivers at work on one broker."""
    with servers.minibroker(tmp_path_factory.mktemp("broker")) as bootstrap:
        yield {name: Run(prepared[name], bootstrap, checks_of(name)) for name in chosen(request, "runs")}


WITH_2_0 = [
    pytest.param(name, marks=() if name == "franz-go" else pytest.mark.torture)
    for name in DRIVERS
    if name not in PROGRAMS and name not in NEEDS
]


@pytest.fixture(scope="module")
def runs_with_2_0(
    request: pytest.FixtureRequest, prepared: Mapping[str, Prepared], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Run]]:
    """Drivers at work on one broker that passes for release 2.0, but those that would not even connect."""
    with servers.minibroker(tmp_path_factory.mktemp("broker"), ["--emulate", "2.0"]) as bootstrap:
        yield {
            name: Run(prepared[name], bootstrap, checks_of(name, *GIVES_UP_LATE))
            for name in chosen(request, "runs_with_2_0")
        }


@pytest.mark.parametrize("name", CLIENTS)
def test_what_a_client_can_do_with_kafka_it_can_do_here(runs: Mapping[str, Run], name: str) -> None:
    results = runs[name].results()
    expected = {
        check
        for check in {*results, *recorded(name)}
        if records.passes_on_kafka(name, check) and (name, check) not in {*KNOWN, *UNSTEADY}
    }
    assert expected, "nothing is recorded: see tests/README.md for how to do that"
    failed = {check: results.get(check, "it is not checked any more") for check in expected}
    failed = {check: error for check, error in failed.items() if error}
    runs[name].repeat(failed.keys() & results.keys())
    assert failed == {}
    assert [check for check in results if (name, check) in KNOWN and not results[check]] == [], "it passes now"


@pytest.mark.parametrize("name", WITH_2_0)
def test_a_broker_that_passes_for_release_2_0_does_what_that_release_knew(
    runs_with_2_0: Mapping[str, Run], name: str
) -> None:
    failed = {check: error for check, error in runs_with_2_0[name].results().items() if error}
    excused = {check for check in failed if SINCE.get(check, (0, 0)) > (2, 0)}
    excused |= {check for driver, check in (*ASKS_FOR_MORE, *NOT_OURS) if driver == name}
    failed = {check: error for check, error in failed.items() if check not in excused or "nothing came of it" in error}
    runs_with_2_0[name].repeat(failed)
    assert failed == {}


@pytest.mark.torture
@pytest.mark.parametrize("name", NEEDS)
def test_a_client_finds_all_that_the_oldest_release_had_that_it_can_use(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    prepared = prepare(DRIVERS[name])
    with servers.minibroker(tmp_path_factory.mktemp("broker"), ["--emulate", NEEDS[name]]) as bootstrap:
        results = Run(prepared, bootstrap, checks_of(name)).results()
    release = tuple(int(part) for part in NEEDS[name].split("."))
    assert {check: error for check, error in results.items() if error and SINCE.get(check, (0, 0)) <= release} == {}


def test_the_page_shows_what_is_recorded() -> None:
    assert records.PAGE.read_text() == records.page(), "run python -m tests.clients.matrix --page"


def test_every_client_is_recorded_here_and_on_a_kafka() -> None:
    for name in DRIVERS:
        for record in (records.OURS, *records.KAFKAS):
            checks = records.load(record).get(name, {})
            assert checks, (name, record)
            assert set(checks) <= set(FEATURES)
    recorded = {check for checks in records.load(records.OURS).values() for check in checks}
    assert recorded >= FEATURES.keys() - FRAMEWORKS.keys(), "nobody checks the rest"


def test_what_is_known_to_fail_does_so_as_recorded() -> None:
    recorded = records.load(records.OURS)
    failing = {(name, check) for name, checks in recorded.items() for check, passing in checks.items() if not passing}
    assert failing == {*KNOWN, *NOT_OURS}
    assert [pair for pair in NOT_OURS if records.passes_on_kafka(*pair)] == []
