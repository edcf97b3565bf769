"""The dispatch table, and the path of a request from its bytes to its response."""

import re
import struct
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.cluster.releases import release
from minibroker.cluster.routing.outcomes import Answer, Waiting
from minibroker.cluster.routing.routes import ROUTES, Route, UnservedRequestError
from minibroker.cluster.routing.slices import Steps, drain, steps_of
from minibroker.config.releases import RELEASES
from minibroker.server.requests.call import Call
from minibroker.server.requests.dispatch import accept, encode_answers, handle
from minibroker.server.requests.endpoints import endpoint
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages import MODULES
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.schema import schema_of
from tests.broker.harness import Harness, batch, bytes_of, fetch_request, frame_of, produce_request, response_of
from tests.protocol.message_strategies import message_class, messages
from tests.sweeps import few_examples, one_in

ROOT = Path(__file__).parents[3]


def ids(route: Route) -> str:
    return route.message


def header(key: int, version: int, client_id: bytes = b"c") -> bytes:
    return struct.pack(">hhih", key, version, 1, len(client_id)) + client_id


def accept_frame(harness: Harness, frame: bytes) -> Answer | Waiting | None:
    return accept(memoryview(bytearray(frame)), harness.session())


# Every route has declarations, a handler, documentation and tests.


@pytest.mark.parametrize("route", ROUTES, ids=ids)
def test_a_route_has_declarations_for_all_of_its_versions(route: Route) -> None:
    for kind in ("Request", "Response"):
        declared = schema_of(message_class(route, kind)).versions
        assert declared.first <= route.first <= route.last <= declared.last


def versions_of(route: Route) -> str:
    """Return the served versions in the form of the documentation."""
    return f"{route.first}-{route.last}" if route.first < route.last else f"{route.first}"


@pytest.mark.parametrize("route", ROUTES, ids=ids)
def test_a_route_has_a_handler_whose_card_tells_its_versions(route: Route) -> None:
    card = endpoint(route.key).handle.__doc__ or ""
    assert card.startswith(f"{route.message}: ")
    assert re.search(rf"\bVersions? {versions_of(route)}\b", card)


@pytest.mark.parametrize("route", ROUTES, ids=ids)
def test_a_route_has_a_row_in_the_documentation(route: Route) -> None:
    assert f"| {route.message} | {versions_of(route)} |" in (ROOT / "docs" / "behavior.md").read_text()


def test_the_documentation_has_no_row_too_many() -> None:
    rows = re.findall(r"^\| (\w+) \| \d+(?:-\d+)? \|", (ROOT / "docs" / "behavior.md").read_text(), re.MULTILINE)
    assert rows == [route.message for route in ROUTES]


def test_a_key_has_one_route_and_names_follow_the_keys() -> None:
    assert len({route.key for route in ROUTES}) == len(ROUTES)
    route = next(route for route in ROUTES if route.key is ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
    assert route.message == "DescribeUserScramCredentials"
    for route in ROUTES:
        assert message_class(route, "Request").__name__ == f"{route.message}Request"


def test_no_release_of_kafka_serves_a_version_that_is_not_served_here() -> None:
    for name in RELEASES:
        for key, (first, last) in release(name).served.items():
            route = endpoint(key).route
            assert route.first <= first <= last <= route.last


def test_an_api_has_one_handler_in_the_module_of_its_name() -> None:
    declared = [
        (ApiKey[match[1]], path.stem)
        for path in (ROOT / "minibroker" / "server" / "handlers").glob("[a-z]*.py")
        for match in re.finditer(r"^@handles\(\s*ApiKey\.(\w+)", path.read_text(), re.MULTILINE)
    ]
    assert sorted(declared) == sorted((route.key, MODULES[route.key]) for route in ROUTES)


# Invalid requests close the connection.


@pytest.mark.parametrize("key", [-1, 52, 500, 32_767])
def test_an_unknown_api_is_not_served(harness: Harness, key: int) -> None:
    with pytest.raises(UnservedRequestError, match=f"API key {key} is not served"):
        accept_frame(harness, header(key, 0))


@pytest.mark.parametrize("route", [route for route in ROUTES if route.key is not ApiKey.API_VERSIONS], ids=ids)
def test_a_version_outside_of_the_range_is_not_served(harness: Harness, route: Route) -> None:
    for version in {route.first - 1, route.last + 1, -1, 32_767}:
        with pytest.raises(UnservedRequestError, match=f"{route.key.name} v{version} is not served"):
            accept_frame(harness, header(route.key, version) + bytes(100))


@pytest.mark.parametrize("route", ROUTES, ids=ids)
def test_a_request_without_a_body_is_no_request(harness: Harness, route: Route) -> None:
    for version in range(route.first, route.last + 1):
        if route.key in {ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS} and version < 3:
            continue  # These versions have no body.
        with pytest.raises(DecodeError):
            accept_frame(harness, header(route.key, version))


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x03\0\0\0\0\0\x01", b"\0\x03\0\0\0\0\0\x01\x7f\xff"])
def test_a_frame_without_a_header_is_no_request(harness: Harness, frame: bytes) -> None:
    with pytest.raises(DecodeError):
        accept_frame(harness, frame)


def test_a_request_that_is_cut_anywhere_is_refused_and_changes_nothing(harness: Harness) -> None:
    for version in (0, 2, 3, 9):
        frame = frame_of(produce_request(batch(b"a")), version)
        for cut in range(len(frame)):
            with pytest.raises(DecodeError):
                accept_frame(harness, frame[:cut])
    assert harness.fetch_one().high_watermark == 0


def test_bytes_behind_a_request_are_passed_over_as_in_kafka(harness: Harness) -> None:
    frame = frame_of(MetadataRequest(topics=[]), 4) + b"rest"
    assert isinstance(accept_frame(harness, frame), Answer)


# Headers.


@pytest.mark.parametrize("client_id", [None, "", "client", "Käfer"])
@pytest.mark.parametrize("version", [1, 12])
def test_any_client_id_is_taken(harness: Harness, version: int, client_id: str | None) -> None:
    request = MetadataRequest(topics=[])
    outcome = accept_frame(harness, frame_of(request, version, client_id=client_id))
    assert isinstance(outcome, Answer)


def test_tagged_fields_of_a_request_header_are_passed_over(harness: Harness) -> None:
    frame = bytearray(frame_of(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12))
    assert frame[14] == 0
    frame[14:15] = b"\x02\x00\x03abc\x05\x00"
    outcome = accept_frame(harness, bytes(frame))
    assert isinstance(outcome, Answer)
    assert outcome.response.topics[0].name == "t"


@pytest.mark.parametrize("correlation_id", [0, 1, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("version", [0, 4, 9])
def test_the_answer_has_the_correlation_id_of_the_request(harness: Harness, correlation_id: int, version: int) -> None:
    request = produce_request(batch(b"a"))
    outcome = accept_frame(harness, frame_of(request, version, correlation_id))
    assert isinstance(outcome, Answer)
    response_of(request, version, bytes_of(outcome), correlation_id)


@pytest.mark.parametrize("route", ROUTES, ids=ids)
def test_flexible_versions_have_flexible_response_headers_but_for_api_versions(route: Route) -> None:
    served = endpoint(route.key)
    for version in range(route.first, route.last + 1):
        flexible = version in schema_of(served.request).flexible
        assert served.has_flexible_response_header(version) is (flexible and route.key is not ApiKey.API_VERSIONS)


# Responses.


def test_answers_leave_in_one_piece_and_in_order(harness: Harness) -> None:
    harness.produce(batch(b"a" * 50))
    requests = [(fetch_request(("t", 0, 0)), 12), (MetadataRequest(topics=[]), 4), (fetch_request(("t", 0, 0)), 4)]
    answers = []
    for number, (request, version) in enumerate(requests):
        outcome = accept_frame(harness, frame_of(request, version, number))
        assert isinstance(outcome, Answer)
        answers.append(outcome)
    out, splices = encode_answers(answers)
    assert len(splices) == 2
    data = bytes_of(*answers)
    assert len(data) == len(out) + sum(splice.size for _, splice in splices)
    for number, (request, version) in enumerate(requests):
        length = 4 + int.from_bytes(data[:4], "big")
        response_of(request, version, data[:length], number)
        data = data[length:]
    assert data == b""


def test_a_request_other_than_produce_sees_what_was_staged_before_it(harness: Harness) -> None:
    harness.accept(produce_request(batch(b"a")), 9)
    assert harness.fetch_one().high_watermark == 1


@pytest.mark.parametrize("route", one_in(2, ROUTES), ids=ids)
@few_examples
@given(data=st.data())
def test_whatever_a_request_says_it_is_answered(harness: Harness, route: Route, data: st.DataObject) -> None:
    version = data.draw(st.integers(route.first, route.last))
    request = data.draw(messages(message_class(route, "Request"), version))
    try:
        harness.send(request, version)
    except UnservedRequestError:
        # Without acks an error closes the connection, and so do ACL rules and filters with the value 0.
        assert route.key in {ApiKey.PRODUCE, ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(harness: Harness) -> None:
    outcome = accept_frame(harness, header(ApiKey.API_VERSIONS, 99) + b"whatever")
    assert isinstance(outcome, Answer)
    assert outcome.call.api_version == 0
    response_of(ApiVersionsRequest(), 0, bytes_of(outcome))


# Handlers that fail.


def answer_of_failing(harness: Harness, error: Exception, *, in_steps: bool) -> HeartbeatResponse:
    """Return the response of a handler that raises an error, immediately or in its second step."""

    def fail(request: Any, call: Call) -> Any:
        def steps() -> Steps[Any]:
            yield
            raise error

        if in_steps:
            return steps()
        raise error

    failing = endpoint(ApiKey.HEARTBEAT)._replace(handle=fail)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    call = Call(harness.core, harness.services, 4, "test", harness.session())
    call.endpoint = failing
    return cast("HeartbeatResponse", drain(steps_of(handle(request, call))))


@pytest.mark.parametrize("in_steps", [False, True])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR),
        (LookupError("a fault of ours"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_that_a_handler_lets_through_is_answered(
    harness: Harness, caplog: pytest.LogCaptureFixture, error: Exception, code: ErrorCode, *, in_steps: bool
) -> None:
    """`KafkaApis.handle` also answers each exception. Only unexpected ones are logged with their traceback."""
    assert answer_of_failing(harness, error, in_steps=in_steps).error_code == code
    (logged,) = caplog.records
    assert logged.getMessage() == f"HEARTBEAT failed: {error}"
    assert (logged.exc_info is not None) == (code is ErrorCode.UNKNOWN_SERVER_ERROR)


def test_bytes_that_a_handler_cannot_read_end_the_connection(harness: Harness) -> None:
    with pytest.raises(DecodeError):
        answer_of_failing(harness, DecodeError("bad"), in_steps=True)
