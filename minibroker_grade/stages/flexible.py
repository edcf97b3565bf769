"""Stage 2: flexible versions (KIP-482)."""

import struct
from typing import Final

from minibroker_grade.check import Stage
from minibroker_grade.subject import Subject
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

STAGE: Final = Stage(
    "flexible", "2 Flexible versions", "Newer versions have compact lengths and tagged fields, also in headers."
)
_KIP: Final = "KIP-482"
_FLEXIBLE_VERSION: Final = 3
_METADATA_VERSION: Final = 9
_TAGS: Final = b"\x02\x63\x02hi\xc8\x01\x01x"
"""Two unknown tagged fields: tag 99 with two bytes, and tag 200 with one byte."""
_NO_TAGS: Final = b"\0"


def _pack_api_versions(header_tags: bytes = _NO_TAGS, body_tags: bytes = _NO_TAGS, name: bytes = b"\x06grade") -> bytes:
    body = struct.pack(">hhih", ApiKey.API_VERSIONS, _FLEXIBLE_VERSION, 9, -1) + header_tags
    body += name + b"\x021" + body_tags
    return struct.pack(">i", len(body)) + body


def _ask_api_versions(b: Subject, frame: bytes) -> None:
    b.require(ApiKey.API_VERSIONS, _FLEXIBLE_VERSION)
    b.wire.send_frame(frame, ApiVersionsRequest(), _FLEXIBLE_VERSION)
    b.same(b.wire.receive(), "error_code", 0)


@STAGE.check(_KIP, look="The length of a compact array is the count plus one. End each element with its tagged fields.")
def apiversions_3_is_answered_in_its_own_form(b: Subject) -> None:
    """From version 3 on, the table is a compact array whose elements end with tagged fields."""
    _ask_api_versions(b, _pack_api_versions())
    b.holds(b.exchanges[-1].response.api_keys, "at least one API", b.exchanges[-1].response, "api_keys")


@STAGE.check("KIP-511, ApiMessageType.responseHeaderVersion", look="Omit the tagged fields from this response header.")
def the_header_of_apiversions_stays_version_0(b: Subject) -> None:
    """A client reads this response before the broker's versions are known, so the header never has tagged fields."""
    _ask_api_versions(b, _pack_api_versions())
    received = b.exchanges[-1].received
    b.equal(
        received[8:10],
        b"\0\0",
        "the error code right behind the correlation id",
        b.exchanges[-1].response,
        "error_code",
    )


@STAGE.check(_KIP, look="Skip unknown tags by their size.")
def unknown_tags_in_the_header_are_skipped(b: Subject) -> None:
    """A newer client can add tagged fields to the header. An older broker skips them."""
    _ask_api_versions(b, _pack_api_versions(header_tags=_TAGS))


@STAGE.check(_KIP, look="Also skip the tags at the end of the body.")
def unknown_tags_in_the_body_are_skipped(b: Subject) -> None:
    """Tagged fields extend the protocol without new versions, so unknown ones have no effect."""
    _ask_api_versions(b, _pack_api_versions(body_tags=_TAGS))


@STAGE.check(
    "KIP-511, ApiVersionsRequest.isValid",
    look="Check client_software_name against [a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?",
)
def a_software_name_with_forbidden_letters_is_refused(b: Subject) -> None:
    """The client's software name becomes part of a metric. An invalid name is rejected with INVALID_REQUEST."""
    b.require(ApiKey.API_VERSIONS, _FLEXIBLE_VERSION)
    b.wire.send_frame(_pack_api_versions(name=b"\x05a b!"), ApiVersionsRequest(), _FLEXIBLE_VERSION)
    b.same(b.wire.receive(), "error_code", 42)


@STAGE.check(_KIP, look="Use header version 1, with tagged fields after the id, for all other flexible responses.")
def other_flexible_responses_have_tags_in_their_header(b: Subject) -> None:
    """From its first flexible version on, an API uses version 1 of the response header."""
    answer = b.metadata(version=_METADATA_VERSION)
    b.equal(b.exchanges[-1].received[8], 0, "the number of tagged fields in the header", answer)


@STAGE.check(_KIP, look="Write the length plus one as an unsigned varint. From 128 on it takes two bytes.")
def a_compact_string_may_need_two_bytes_of_length(b: Subject) -> None:
    """Lengths are varints: the length of a name of 200 characters takes two bytes."""
    name = b.name().ljust(200, "n")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    answer = b.ask(request, _METADATA_VERSION)
    b.same(answer, "topics[0].name", name)
    b.same(answer, "topics[0].error_code", 3)


@STAGE.check(_KIP, look="Write the number of elements plus one. 0 is null.")
def a_compact_array_may_need_two_bytes_of_length(b: Subject) -> None:
    """Array lengths are varints too: the length of an array of 130 topics takes two bytes."""
    answer = b.metadata(*(f"grade-no-such-{index}" for index in range(130)), version=_METADATA_VERSION)
    b.equal(len(answer.topics), 130, "the number of topics", answer, "topics")


@STAGE.check(_KIP, look="A compact string or array of length 0 is null, and one of length 1 is empty.")
def null_and_empty_differ(b: Subject) -> None:
    """A null array requests all topics, and an empty array requests no topics."""
    topic = b.topic()
    answer = b.metadata(version=_METADATA_VERSION)
    b.equal(len(answer.topics), 0, "the number of topics", answer, "topics")
    answer = b.ask(MetadataRequest(topics=None), _METADATA_VERSION)
    b.holds(topic in {info.name for info in answer.topics}, f"{topic} among all topics", answer, "topics")


@STAGE.check("KIP-482, RequestHeader", look="Read the client id as a plain nullable string, even in request header 2.")
def the_client_id_keeps_its_old_form(b: Subject) -> None:
    """Version 2 of the request header adds tagged fields. The client id still has an int16 length and can be null."""
    _ask_api_versions(b, _pack_api_versions())
    b.metadata(version=_METADATA_VERSION)


@STAGE.check("KIP-584", look="Write the features as tagged fields 0, 1 and 2 of ApiVersions 3.")
def tagged_fields_of_the_answer_can_be_read(b: Subject) -> None:
    """Features are tagged fields in the order of their tags. Older clients skip unknown tags."""
    b.require(ApiKey.API_VERSIONS, _FLEXIBLE_VERSION)
    answer = b.ask(ApiVersionsRequest(client_software_name="grade", client_software_version="1"), _FLEXIBLE_VERSION)
    for index, feature in enumerate(answer.supported_features):
        path = f"supported_features[{index}].max_version"
        first, last = feature.min_version, feature.max_version
        b.holds(first <= last, f"{first} or more in {path}", answer, path)
