"""ApiVersions, by version (KIP-511)."""

import struct

import pytest

from minibroker.cluster.features import FEATURES
from minibroker.cluster.routing.outcomes import Answer
from minibroker.cluster.routing.routes import ROUTES
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tests.broker.config.configs import METRICS, OK, put
from tests.broker.harness import Harness, bytes_of

TABLE = [ApiVersion(api_key=route.key, min_version=route.first, max_version=route.last) for route in ROUTES]
OF_CLIENT_METRICS = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
QUIET = [row for row in TABLE if row.api_key not in OF_CLIENT_METRICS]
OWN_RANGE = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=5)


def asked(harness: Harness, version: int, name: str = "client", software_version: str = "1.0") -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    response: ApiVersionsResponse = harness.ask(request, version)
    return response


@pytest.mark.parametrize("version", range(6))
def test_every_version_is_told_the_dispatch_table(harness: Harness, version: int) -> None:
    response = asked(harness, version)
    assert (response.error_code, response.api_keys, response.throttle_time_ms) == (0, QUIET, 0)
    assert response.zk_migration_ready is False


def test_clients_are_told_of_metrics_while_somebody_wants_any(harness: Harness) -> None:
    assert put(harness, METRICS, "m", "metrics", "a.") == OK
    assert asked(harness, 3).api_keys == TABLE
    assert put(harness, METRICS, "m", "metrics", None) == OK
    assert asked(harness, 3).api_keys == QUIET


def test_feature_levels_are_told_from_version_3_on(harness: Harness) -> None:
    before, first, newest = (asked(harness, version) for version in (2, 3, 4))
    assert (before.supported_features, before.finalized_features, before.finalized_features_epoch) == ([], [], -1)
    assert [feature.name for feature in first.supported_features] == ["metadata.version"]
    assert {feature.name: (feature.min_version, feature.max_version) for feature in newest.supported_features} == {
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "transaction.version": FEATURES["transaction.version"][:2],
        "eligible.leader.replicas.version": (0, 1),
        "share.version": (0, 2),
        "streams.version": (0, 1),
    }
    levels = {feature.name: feature.max_version_level for feature in newest.finalized_features}
    assert levels == {
        "group.version": 1,
        "metadata.version": 33,
        "transaction.version": FEATURES["transaction.version"].fresh,
        "eligible.leader.replicas.version": 1,
        "share.version": 2,
        "streams.version": 1,
    }
    assert first.finalized_features == newest.finalized_features
    assert first.finalized_features_epoch == newest.finalized_features_epoch == 1


@pytest.mark.parametrize("version", range(6))
def test_the_response_header_is_always_version_0(harness: Harness, version: int) -> None:
    outcome = harness.accept(ApiVersionsRequest(client_software_name="a", client_software_version="1"), version)
    assert isinstance(outcome, Answer)
    # The error code follows the length and the correlation id directly, without tagged fields in between.
    assert bytes_of(outcome)[4:10] == b"\0\0\0\x01\0\0"


@pytest.mark.parametrize("version", [6, 7, 100, 32_767, -1])
@pytest.mark.parametrize("body", [b"", b"\0", b"\0\x07franzgo\x021\0", b"\xff" * 50])
def test_a_version_that_is_not_known_is_told_the_own_range_in_the_form_of_version_0(
    harness: Harness, version: int, body: bytes
) -> None:
    frame = bytearray(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, 1) + b"c" + body)
    outcome = accept(memoryview(frame), harness.session())
    assert isinstance(outcome, Answer)
    data = bytes_of(outcome)
    assert data[4:8] == b"\0\0\0\x4d"
    response, end = decode(ApiVersionsResponse, memoryview(data), 0, 8)
    assert end == len(data)
    assert (response.error_code, response.api_keys) == (ErrorCode.UNSUPPORTED_VERSION, [OWN_RANGE])


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "0", "a.b-c", "A1"])
def test_ordinary_software_names_are_taken(harness: Harness, name: str) -> None:
    assert asked(harness, 3, name, name).error_code == 0


def test_version_5_says_which_cluster_and_node_it_means_and_hears_when_it_has_reached_another(harness: Harness) -> None:
    cluster, node = harness.core.cluster.cluster_id, harness.core.cluster.first.id
    for cluster_and_node, code in {
        (None, -1): ErrorCode.NONE,
        (cluster, node): ErrorCode.NONE,
        (cluster, node + 1): ErrorCode.REBOOTSTRAP_REQUIRED,
        ("another", node): ErrorCode.REBOOTSTRAP_REQUIRED,
        (cluster, -1): ErrorCode.INVALID_REQUEST,
        (None, node): ErrorCode.INVALID_REQUEST,
    }.items():
        cluster_id, node_id = cluster_and_node
        request = ApiVersionsRequest(
            client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
        )
        response = harness.ask(request, 5)
        assert (response.error_code, bool(response.api_keys)) == (code, code == ErrorCode.NONE), cluster_and_node


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "a-", ".a", "a.", "a\n", "ä", "a_b"])
@pytest.mark.parametrize("version", [3, 4])
def test_strange_software_names_are_refused_since_version_3(harness: Harness, name: str, version: int) -> None:
    for response in (asked(harness, version, name, "1"), asked(harness, version, "a", name)):
        assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])
