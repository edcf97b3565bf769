"""Stage 1: ApiVersions, frames and headers."""

import struct
from typing import Final

from minibroker_grade.check import Stage
from minibroker_grade.subject import Subject
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.metadata import MetadataRequest

STAGE: Final = Stage("versions", "1 ApiVersions", "A client asks first which APIs and versions a broker serves.")
_FROM_THE_FUTURE: Final = 99
_NEEDED: Final = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS)
_TABLE: Final = "KafkaApis.handleApiVersionsRequest"


def _unknown_version() -> bytes:
    body = struct.pack(">hhih5sb", ApiKey.API_VERSIONS, _FROM_THE_FUTURE, 77, 5, b"grade", 0)
    return struct.pack(">i", len(body)) + body


@STAGE.check(_TABLE, look="Answer key 18, version 0: an error code, then an array of key, first and last version.")
def version_0_is_answered(b: Subject) -> None:
    """The oldest form of ApiVersions has no body, and every client can send it."""
    answer = b.ask(ApiVersionsRequest(), 0)
    b.same(answer, "error_code", 0)
    b.holds(answer.api_keys, "at least one API", answer, "api_keys")


@STAGE.check(_TABLE, look="List all that you serve, also ApiVersions itself.")
def the_table_has_what_clients_need(b: Subject) -> None:
    """Without Produce, Fetch, ListOffsets, Metadata and ApiVersions in the table no client goes on."""
    answer = b.ask(ApiVersionsRequest(), 0)
    keys = {api.api_key for api in answer.api_keys}
    missing = [key.message for key in _NEEDED if key not in keys]
    came = f"{len(answer.api_keys)} rows without {' and '.join(missing)}"
    b.holds(not missing, f"{', '.join(missing)} in the table", answer, "api_keys", came=came)


@STAGE.check("ApiVersionsResponse.collectApis", look="Write one entry for each API.")
def each_api_is_listed_once(b: Subject) -> None:
    """A client makes a map of the table; of an API with two rows it would know one by chance."""
    answer = b.ask(ApiVersionsRequest(), 0)
    keys = [api.api_key for api in answer.api_keys]
    twice = next((at for at, key in enumerate(keys) if key in keys[:at]), 0)
    b.holds(
        len(set(keys)) == len(keys),
        "each key once",
        answer,
        f"api_keys[{twice}].api_key",
        came=f"{keys[twice]} in api_keys[{keys.index(keys[twice])}] and in api_keys[{twice}]",
    )


@STAGE.check("NodeApiVersions.latestUsableVersion", look="The first version comes before the last one.")
def ranges_are_in_order(b: Subject) -> None:
    """A client takes the highest version between the first and the last, so an empty range has none."""
    answer = b.ask(ApiVersionsRequest(), 0)
    for index, api in enumerate(answer.api_keys):
        b.holds(
            0 <= api.min_version <= api.max_version,
            "a first version of at least 0 and a last one not below it",
            answer,
            f"api_keys[{index}].max_version",
        )


@STAGE.check("KIP-511", look="Look at the version before you decode the body, and answer in version 0.")
def an_unknown_version_is_answered_in_version_0_with_error_35(b: Subject) -> None:
    """A client that is newer than the broker must be able to read the refusal: UNSUPPORTED_VERSION in version 0."""
    b.wire.send_frame(_unknown_version(), ApiVersionsRequest(), _FROM_THE_FUTURE)
    answer = b.wire.receive()
    b.same(answer, "error_code", 35)


@STAGE.check("KIP-511", look="Add the row of ApiVersions to the refusal, as ApiVersionsRequest.getErrorResponse does.")
def the_refusal_names_the_versions_of_apiversions(b: Subject) -> None:
    """The refusal carries the range of ApiVersions, and the client asks again with the last one."""
    served = b.versions[ApiKey.API_VERSIONS]
    b.wire.send_frame(_unknown_version(), ApiVersionsRequest(), _FROM_THE_FUTURE)
    answer = b.wire.receive()
    rows = [(api.min_version, api.max_version) for api in answer.api_keys if api.api_key == ApiKey.API_VERSIONS]
    b.equal(rows, [served], "the ranges of ApiVersions", answer, "api_keys")


@STAGE.check("KIP-511", look="Keep the connection open after the refusal.")
def the_connection_goes_on_after_the_refusal(b: Subject) -> None:
    """The client repeats ApiVersions on the connection that it has."""
    b.wire.send_frame(_unknown_version(), ApiVersionsRequest(), _FROM_THE_FUTURE)
    b.wire.receive()
    b.same(b.ask(ApiVersionsRequest(), 0), "error_code", 0)


@STAGE.check(_TABLE, look="Make the table the same for each version; only tagged fields come with version 3.")
def all_versions_tell_the_same_table(b: Subject) -> None:
    """A newer ApiVersions adds fields, and the table of APIs stays what it was."""
    first = b.ask(ApiVersionsRequest(), 0)
    table = {(api.api_key, api.min_version, api.max_version) for api in first.api_keys}
    for version in range(1, min(b.versions[ApiKey.API_VERSIONS][1], 3) + 1):
        answer = b.ask(ApiVersionsRequest(client_software_name="grade", client_software_version="1"), version)
        found = {(api.api_key, api.min_version, api.max_version) for api in answer.api_keys}
        b.equal(sorted(found ^ table), [], f"rows that differ in version {version}", answer, "api_keys")


@STAGE.check("RequestChannel, SocketServer", look="Copy the correlation id from the request into the response header.")
def correlation_ids_come_back(b: Subject) -> None:
    """A client finds the request that a response belongs to by the correlation id; any int32 will do."""
    for number in (0, 1, -1, 2**31 - 1, -(2**31)):
        body = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, number, -1)
        b.wire.send_frame(struct.pack(">i", len(body)) + body, ApiVersionsRequest(), 0)
        b.same(b.wire.receive(), "error_code", 0)


@STAGE.check("Processor.processCompletedReceives", look="Answer the requests of a connection one after the other.")
def requests_of_a_connection_are_answered_in_order(b: Subject) -> None:
    """Several requests may be on their way at once; their answers come in the order of the requests."""
    for _ in range(5):
        b.wire.send(ApiVersionsRequest(), 0)
        b.wire.send(MetadataRequest(topics=[]), 1 if b.versions[ApiKey.METADATA][0] <= 1 else 4)
    for _ in range(10):
        b.wire.receive()


@STAGE.check("NetworkReceive", look="Collect bytes until the length is there, then until the frame is.")
def a_request_may_come_byte_by_byte(b: Subject) -> None:
    """TCP is a stream: a frame may arrive in any pieces, and so may its length."""
    body = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 5, -1)
    frame = struct.pack(">i", len(body)) + body
    for byte in frame[:-1]:
        b.wire.send_bytes(bytes([byte]))
    b.wire.send_frame(frame, ApiVersionsRequest(), 0, already=len(frame) - 1)
    b.same(b.wire.receive(), "error_code", 0)


@STAGE.check("SocketServer", look="Give each connection state and buffers of its own.")
def connections_do_not_wait_for_each_other(b: Subject) -> None:
    """Half a request on one connection holds up no other one."""
    slow, quick = b.connect(), b.connect()
    slow.send_bytes(b"\0\0\0\x40\0")
    quick.send(ApiVersionsRequest(), 0)
    b.same(quick.receive(), "error_code", 0)


@STAGE.check(
    "NetworkReceive, InvalidReceiveException", look="Refuse lengths above socket.request.max.bytes and below 0."
)
def an_impossible_length_ends_the_connection(b: Subject) -> None:
    """A negative length is no frame: Kafka closes the connection, and goes on with all others."""
    broken = b.connect()
    broken.send_bytes(b"\xff\xff\xff\xff\0\0\0\0", is_request=True)
    b.holds(broken.is_closed(), "the end of the connection", came="an answer")
    b.same(b.ask(ApiVersionsRequest(), 0), "error_code", 0)


@STAGE.check("RequestHeader.parse, ApiKeys.forId", look="Close the connection for a key that you do not know.")
def an_unknown_api_ends_the_connection(b: Subject) -> None:
    """No response has a form for an unknown API key, so the broker closes the connection."""
    broken = b.connect()
    body = struct.pack(">hhih", 9999, 0, 5, -1)
    broken.send_bytes(struct.pack(">i", len(body)) + body, is_request=True)
    b.holds(broken.is_closed(), "the end of the connection", came="an answer")
    b.same(b.ask(ApiVersionsRequest(), 0), "error_code", 0)
