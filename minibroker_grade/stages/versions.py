"""Stage 1: ApiVersions, frames and headers."""

import struct
from typing import Final

from minibroker_grade.check import Stage
from minibroker_grade.subject import Subject
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.metadata import MetadataRequest

STAGE: Final = Stage("versions", "1 ApiVersions", "Clients first request the APIs and versions that a broker serves.")
_FUTURE_VERSION: Final = 99
_NEEDED_APIS: Final = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS)
_TABLE: Final = "KafkaApis.handleApiVersionsRequest"


def _pack_frame(form: str, *fields: int | bytes) -> bytes:
    body = struct.pack(form, *fields)
    return struct.pack(">i", len(body)) + body


_UNKNOWN_VERSION_FRAME: Final = _pack_frame(">hhih5sb", ApiKey.API_VERSIONS, _FUTURE_VERSION, 77, 5, b"grade", 0)


@STAGE.check(_TABLE, look="Answer key 18, version 0, with an error code and an array of key, first and last version.")
def version_0_is_answered(b: Subject) -> None:
    """A version 0 ApiVersions request has no body, and every client can send it."""
    answer = b.ask(ApiVersionsRequest(), 0)
    b.same(answer, "error_code", 0)
    b.holds(answer.api_keys, "at least one API", answer, "api_keys")


@STAGE.check(_TABLE, look="List all served APIs, including ApiVersions itself.")
def the_table_has_what_clients_need(b: Subject) -> None:
    """Clients cannot continue without Produce, Fetch, ListOffsets, Metadata and ApiVersions in the table."""
    answer = b.ask(ApiVersionsRequest(), 0)
    keys = {api.api_key for api in answer.api_keys}
    missing = [key.message for key in _NEEDED_APIS if key not in keys]
    actual = f"{len(answer.api_keys)} rows without {' and '.join(missing)}"
    b.holds(not missing, f"{', '.join(missing)} in the table", answer, "api_keys", actual=actual)


@STAGE.check("ApiVersionsResponse.collectApis", look="Write one row for each API.")
def each_api_is_listed_once(b: Subject) -> None:
    """Clients convert the table to a map. If an API had two rows, an arbitrary one would win."""
    answer = b.ask(ApiVersionsRequest(), 0)
    keys = [api.api_key for api in answer.api_keys]
    duplicate = next((index for index, key in enumerate(keys) if key in keys[:index]), 0)
    path = f"api_keys[{duplicate}]"
    actual = f"{keys[duplicate]} in api_keys[{keys.index(keys[duplicate])}] and in {path}"
    b.holds(len(set(keys)) == len(keys), "each key once", answer, f"{path}.api_key", actual=actual)


@STAGE.check("NodeApiVersions.latestUsableVersion", look="The first version must not be higher than the last one.")
def ranges_are_in_order(b: Subject) -> None:
    """A client uses the highest version in the range, and an empty range contains no version."""
    answer = b.ask(ApiVersionsRequest(), 0)
    for index, api in enumerate(answer.api_keys):
        expected = "a first version of at least 0 and a last one not below it"
        b.holds(0 <= api.min_version <= api.max_version, expected, answer, f"api_keys[{index}].max_version")


@STAGE.check("KIP-511", look="Check the version before decoding the body, and respond in version 0.")
def an_unknown_version_is_answered_in_version_0_with_error_35(b: Subject) -> None:
    """A client newer than the broker must be able to read the error, so UNSUPPORTED_VERSION is sent in version 0."""
    b.wire.send_frame(_UNKNOWN_VERSION_FRAME, ApiVersionsRequest(), _FUTURE_VERSION)
    answer = b.wire.receive()
    b.same(answer, "error_code", 35)


@STAGE.check(
    "KIP-511", look="Add the ApiVersions row to the error response, as ApiVersionsRequest.getErrorResponse does."
)
def the_refusal_names_the_versions_of_apiversions(b: Subject) -> None:
    """The error response has the version range of ApiVersions, and the client retries with the last version in it."""
    served = b.versions[ApiKey.API_VERSIONS]
    b.wire.send_frame(_UNKNOWN_VERSION_FRAME, ApiVersionsRequest(), _FUTURE_VERSION)
    answer = b.wire.receive()
    rows = [(api.min_version, api.max_version) for api in answer.api_keys if api.api_key == ApiKey.API_VERSIONS]
    b.equal(rows, [served], "the ranges of ApiVersions", answer, "api_keys")


@STAGE.check("KIP-511", look="Keep the connection open after the error response.")
def the_connection_goes_on_after_the_refusal(b: Subject) -> None:
    """After the error response, the client repeats ApiVersions on the same connection."""
    b.wire.send_frame(_UNKNOWN_VERSION_FRAME, ApiVersionsRequest(), _FUTURE_VERSION)
    b.wire.receive()
    b.same(b.ask(ApiVersionsRequest(), 0), "error_code", 0)


@STAGE.check(_TABLE, look="Return the same table in every version. Version 3 only adds tagged fields.")
def all_versions_tell_the_same_table(b: Subject) -> None:
    """Newer versions of ApiVersions add fields, but the table of APIs stays the same."""
    first = b.ask(ApiVersionsRequest(), 0)
    table = {(api.api_key, api.min_version, api.max_version) for api in first.api_keys}
    for version in range(1, min(b.versions[ApiKey.API_VERSIONS][1], 3) + 1):
        answer = b.ask(ApiVersionsRequest(client_software_name="grade", client_software_version="1"), version)
        rows = {(api.api_key, api.min_version, api.max_version) for api in answer.api_keys}
        b.equal(sorted(rows ^ table), [], f"rows that differ in version {version}", answer, "api_keys")


@STAGE.check("RequestChannel, SocketServer", look="Copy the correlation id from the request into the response header.")
def correlation_ids_come_back(b: Subject) -> None:
    """Clients match responses to requests by the correlation id, which can be any int32."""
    for number in (0, 1, -1, 2**31 - 1, -(2**31)):
        b.wire.send_frame(_pack_frame(">hhih", ApiKey.API_VERSIONS, 0, number, -1), ApiVersionsRequest(), 0)
        b.same(b.wire.receive(), "error_code", 0)


@STAGE.check("Processor.processCompletedReceives", look="Respond to the requests of a connection in order.")
def requests_of_a_connection_are_answered_in_order(b: Subject) -> None:
    """Several requests can be in flight at once. Their responses arrive in the order of the requests."""
    for _ in range(5):
        b.wire.send(ApiVersionsRequest(), 0)
        b.wire.send(MetadataRequest(topics=[]), 1 if b.versions[ApiKey.METADATA][0] <= 1 else 4)
    for _ in range(10):
        b.wire.receive()


@STAGE.check("NetworkReceive", look="Collect bytes until the length has arrived, and then until the frame is complete.")
def a_request_may_come_byte_by_byte(b: Subject) -> None:
    """TCP is a stream: a frame, including its length, can arrive in arbitrary pieces."""
    frame = _pack_frame(">hhih", ApiKey.API_VERSIONS, 0, 5, -1)
    for byte in frame[:-1]:
        b.wire.send_bytes(bytes([byte]))
    b.wire.send_frame(frame, ApiVersionsRequest(), 0, already=len(frame) - 1)
    b.same(b.wire.receive(), "error_code", 0)


@STAGE.check("SocketServer", look="Use separate state and buffers for each connection.")
def connections_do_not_wait_for_each_other(b: Subject) -> None:
    """An incomplete request on one connection does not block other connections."""
    slow, quick = b.connect(), b.connect()
    slow.send_bytes(b"\0\0\0\x40\0")
    quick.send(ApiVersionsRequest(), 0)
    b.same(quick.receive(), "error_code", 0)


@STAGE.check(
    "NetworkReceive, InvalidReceiveException", look="Reject lengths above socket.request.max.bytes and below 0."
)
def an_impossible_length_ends_the_connection(b: Subject) -> None:
    """A negative length is invalid. Kafka closes the connection and keeps serving the other connections."""
    broken = b.connect()
    broken.send_bytes(b"\xff\xff\xff\xff\0\0\0\0", is_request=True)
    b.holds(broken.is_closed(), "the end of the connection", actual="an answer")
    b.same(b.ask(ApiVersionsRequest(), 0), "error_code", 0)


@STAGE.check("RequestHeader.parse, ApiKeys.forId", look="Close the connection for an unknown API key.")
def an_unknown_api_ends_the_connection(b: Subject) -> None:
    """There is no response format for an unknown API key, so the broker closes the connection."""
    broken = b.connect()
    broken.send_bytes(_pack_frame(">hhih", 9999, 0, 5, -1), is_request=True)
    b.holds(broken.is_closed(), "the end of the connection", actual="an answer")
    b.same(b.ask(ApiVersionsRequest(), 0), "error_code", 0)
