"""A broker that emulates a release of Kafka, against the jars of that release."""

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from minibroker.cluster.features import FEATURES
from minibroker.cluster.releases import advertised_versions, release, unstable_versions
from minibroker.cluster.routing.routes import ROUTES
from minibroker.config.releases import RELEASES
from minibroker_protocol.api_keys import ApiKey
from tests.clients import toolchains
from tests.kafka import jars, jvm
from tests.programs import run_to_success

_POM: Final = Path(__file__).with_name("releases.xml")
_PROGRAM: Final = Path(__file__).with_name("Releases.java")
_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_LAST_WITH_ZOOKEEPER: Final = RELEASES.index("3.2")
_BETWEEN_BROKERS_OF_0_8: Final = {4: (0, 0), 5: (0, 0), 6: (0, 0), 7: (0, 0)}
"""`kafka.api.RequestKeys` of 0.8.2 has them; its clients' jar does not."""
_NOT_SERVED_BY_0_8: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT})
"""The clients of 0.8.2 had declared them before there was a broker that knew them (`KafkaApis.handle`)."""
_BETWEEN_BROKERS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
"""Served in all versions that there are, though no release tells its clients of all: from 3.3 on we go by KRaft."""

_UNSTABLE: Final = "unstable"
Table = dict[int, tuple[int, int]]


@cache
def _jars() -> Path:
    def fill(folder: Path) -> None:
        command = [toolchains.tool("mvn"), "-q", "-B", "-f", str(_POM), _GOAL, f"-DoutputDirectory={folder}"]
        failure = toolchains.run(command, folder)
        if failure is not None:
            toolchains.missing(f"the jars of Kafka's releases could not be had: {failure}")

    return toolchains.build(toolchains.place("kafka-releases", [_POM]), fill)


def _version(jar: str) -> str:
    return jar.removeprefix("kafka-clients-").removesuffix(".jar")


def _listener_of(version: str) -> str:
    """The kind of listener of a release's brokers: they have a ZooKeeper, or they are KRaft's."""
    return "ZK_BROKER" if RELEASES.index(release(version).name) <= _LAST_WITH_ZOOKEEPER else "BROKER"


@cache
def _told_by(listener: str) -> dict[str, Table]:
    """By minor release, what its jar says that a broker with this kind of listener tells."""
    folder = _jars()
    (logging,) = folder.glob("slf4j-api-*.jar")
    found = [
        str(path)
        for path in sorted(folder.glob("kafka-clients-*.jar"))
        if _listener_of(_version(path.name)) == listener
    ]
    try:
        java = jars.java()
    except jars.NoJarsError as error:
        toolchains.missing(str(error))
    done = run_to_success([java, *jvm.OPTIONS, str(_PROGRAM), str(logging), listener, *found])
    tables: dict[str, Table] = {}
    for line in done.stdout.splitlines():
        jar, key, first, last = line.split()
        name = release(_version(jar)).name
        if first == _UNSTABLE:
            tables.setdefault(f"{name} {_UNSTABLE}", {})[int(key)] = (0, int(last))
        else:
            tables.setdefault(name, {})[int(key)] = (int(first), int(last))
    return tables


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.torture if number <= _LAST_WITH_ZOOKEEPER else ())
        for number, name in enumerate(RELEASES)
    ],
)
def test_a_release_tells_what_its_own_brokers_tell(name: str) -> None:
    theirs = dict(_told_by(_listener_of(name))[name])
    if name == "0.8.2":
        theirs |= _BETWEEN_BROKERS_OF_0_8
        theirs = {key: versions for key, versions in theirs.items() if key not in _NOT_SERVED_BY_0_8}
    assert advertised_versions(release(name).served, release(name)) == theirs


@pytest.mark.parametrize("name", RELEASES[RELEASES.index("4.1") :])
def test_a_release_still_designs_the_versions_of_its_brokers(name: str) -> None:
    theirs = {key: last for key, (_, last) in _told_by("BROKER")[f"{name} {_UNSTABLE}"].items()}
    known = release(name)
    ours = unstable_versions(known)
    assert {key: last for key, (_, last) in ours.items() if known.served.get(key) != ours[key]} == theirs


def test_2_0_has_43_apis() -> None:
    assert sorted(release("2.0").served) == list(range(43))


@pytest.mark.parametrize("name", RELEASES)
def test_all_that_a_release_serves_is_in_the_dispatch_table(name: str) -> None:
    ours = {int(route.key): route for route in ROUTES}
    for key, (first, last) in release(name).served.items():
        assert ours[key].first <= first, ApiKey(key).name
        assert last <= ours[key].last, ApiKey(key).name


def test_without_a_release_all_that_any_of_them_serves_is_served() -> None:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for each in map(release, RELEASES):
        for key, versions in each.served.items():
            first[key] = min(first.get(key, versions[0]), versions[0])
            last[key] = max(last.get(key, versions[1]), versions[1])
    ours = {int(route.key): (route.first, route.last) for route in ROUTES if route.key not in _BETWEEN_BROKERS}
    assert ours == {key: (first[key], last[key]) for key in first if key not in _BETWEEN_BROKERS}


def test_the_newest_release_has_the_features_that_there_are() -> None:
    assert release(RELEASES[-1]).features == FEATURES
