"""The emulation of Kafka's releases: their names, and the APIs that are advertised and served."""

import socket
import struct
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.cluster.features import FEATURES
from minibroker.cluster.releases import ReleaseError, advertised_versions, release
from minibroker.cluster.routing.routes import ROUTES
from minibroker.config.releases import RELEASES
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.harness import Harness
from tests.broker.socket_client import framed
from tests.kafka import jars

ROOT = Path(__file__).parents[3]
OF_CLIENT_METRICS = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
_NEWEST_THEN = 2
_FIRST_WITH_RANGE = "2.4"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2.0", "2.0"),
        ("2.0.1", "2.0"),
        ("0.8.2.2", "0.8.2"),
        ("0.9.0.1", "0.9"),
        ("0.10", "0.10.2"),
        ("0.10.1.1", "0.10.1"),
        ("3.9.x", "3.9"),
        ("v1.1", "1.1"),
        ("0", "0.11"),
        ("4", RELEASES[-1]),
    ],
)
def test_a_release_is_named_as_people_name_it(text: str, name: str) -> None:
    assert release(text).name == name


@pytest.mark.parametrize("text", ["", "x", "5.0", "0.7", "2.0-beta"])
def test_what_is_no_release_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(ReleaseError, match=r"0\.8\.2, 0\.9"):
        release(text)


def test_an_unknown_release_is_named_before_the_broker_starts() -> None:
    with pytest.raises(ReleaseError, match=r"'7\.5'"), Broker(config={"minibroker.emulate": "7.5"}):
        pass


@pytest.mark.parametrize("name", ["0.10.0", "2.0", "2.7", "3.9", "4.0"])
def test_api_versions_tells_what_that_release_tells(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    harness = Harness(str(tmp_path_factory.mktemp("data")), {"minibroker.emulate": name})
    response = harness.ask(ApiVersionsRequest(client_software_name="", client_software_version=""), 0)
    rows = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    expected = advertised_versions(release(name).served, release(name))
    assert rows == {key: versions for key, versions in expected.items() if key not in OF_CLIENT_METRICS}
    harness.close()


@pytest.mark.parametrize(
    ("emulated", "last"),
    [("4.0", (9, 9, 5, -1)), ("4.1", (10, 10, 6, 0)), ("4.2", (10, 10, 6, 0)), ("", (10, 10, 6, 1))],
)
def test_a_release_serves_what_it_still_designs_if_that_is_allowed(
    emulated: str, last: tuple[int, ...], tmp_path: Path
) -> None:
    config = {"minibroker.emulate": emulated, "unstable.api.versions.enable": "true"}
    with closing(Harness(str(tmp_path), config)) as harness:
        response = harness.ask(ApiVersionsRequest(client_software_name="", client_software_version=""), 0)
        rows = {row.api_key: row.max_version for row in response.api_keys}
        apis = (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.INIT_PRODUCER_ID, ApiKey.STREAMS_GROUP_HEARTBEAT)
        assert tuple(rows.get(api, -1) for api in apis) == last
        assert rows[ApiKey.PRODUCE] == (12 if emulated == "4.0" else 13)


def test_levels_of_features_that_a_release_still_designs_can_be_set_if_that_is_allowed(tmp_path: Path) -> None:
    config = {"minibroker.emulate": "4.1", "unstable.feature.versions.enable": "true"}
    with closing(Harness(str(tmp_path), config)) as harness:
        features = harness.core.features
        assert (features.level("metadata.version"), features.level("streams.version")) == (27, 0)
        features.finalize({"metadata.version": 29, "streams.version": 1})
        assert (features.level("metadata.version"), features.level("streams.version")) == (29, 1)
    assert "streams.version" not in release("4.1").features


@pytest.mark.parametrize(
    ("emulated", "levels"),
    [
        ("3.7", {"metadata.version": (1, 19)}),  # Its key has another name.
        ("3.8", {"metadata.version": (1, 21)}),
        ("3.9", {"metadata.version": (1, 23), "transaction.version": (0, 2), "kraft.version": (0, 1)}),
    ],
)
def test_kafka_3_has_the_levels_that_it_still_designs(emulated: str, levels: Mapping[str, tuple[int, int]]) -> None:
    """The levels are those of `BrokerFeatures.defaultSupportedFeatures`. None of them is that of a new cluster."""
    features, stable = release(emulated, unstable_features=True).features, release(emulated).features
    assert {name: (feature.first, feature.last) for name, feature in features.items()} == levels
    assert features["metadata.version"].fresh == stable["metadata.version"].last
    assert {feature.fresh for name, feature in features.items() if name != "metadata.version"} <= {0}


@pytest.mark.parametrize("name", ["2.0", _FIRST_WITH_RANGE])
def test_an_unknown_version_of_api_versions_is_answered_as_then(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    harness = Harness(str(tmp_path_factory.mktemp("data")), {"minibroker.emulate": name})
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    outcome = harness.accept(request, _NEWEST_THEN + 2)
    assert outcome is not None
    response = outcome.response  # type: ignore[union-attr]  # it waits for nothing
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [row.api_key for row in response.api_keys] == ([ApiKey.API_VERSIONS] if name == _FIRST_WITH_RANGE else [])
    harness.close()


@pytest.mark.parametrize("name", ["0.8.2", "0.9"])
def test_brokers_before_0_10_close_the_connection_on_api_versions(name: str) -> None:
    with Broker(config={"minibroker.emulate": name}) as broker, socket.create_connection(broker.address) as client:
        frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 1, -1)
        client.sendall(framed(frame))
        assert client.recv(1) == b""


def test_a_version_that_the_release_lacks_closes_the_connection() -> None:
    with Broker(config={"minibroker.emulate": "4.0"}) as broker, socket.create_connection(broker.address) as client:
        frame = struct.pack(">hhih", ApiKey.PRODUCE, 2, 1, -1) + struct.pack(">hii", 1, 1000, 0)
        client.sendall(framed(frame))
        assert client.recv(1) == b""


def _range(*ends: int) -> str:
    return "-".join(map(str, dict.fromkeys(ends)))


def comparison() -> list[str]:
    """Return the tables of `docs/releases.md`: APIs and features of Kafka 4.4, which `--emulate 4.4` has, and ours."""
    newest = release(RELEASES[-1])
    versions = advertised_versions(newest.served, newest)
    apis = [
        f"| {route.message} | {_range(*versions.get(route.key, ()))} | {_range(route.first, route.last)} |"
        for route in ROUTES
    ]
    features = [
        f"| `{name}` | {feature.first}-{feature.last} | {feature.fresh} | {FEATURES[name].first}-{FEATURES[name].last} "
        f"| {FEATURES[name].fresh} |"
        for name, feature in sorted(newest.features.items())
    ]
    return [
        "| API | Kafka 4.4.0, and `--emulate 4.4` | by default |",
        "|---|---|---|",
        *apis,
        "",
        "| feature | levels of Kafka 4.4.0 | in a new cluster | levels here | at the start |",
        "|---|---|---|---|---|",
        *features,
    ]


def test_the_page_has_the_apis_and_features_of_the_newest_release() -> None:
    assert release(RELEASES[-1]).served.keys() <= {route.key for route in ROUTES}
    page = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
    assert "\n".join(comparison()) in page
    assert f"Kafka {jars.NEWEST} is the newest release." in page
