"""Requests and responses in other versions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.fields.frames import (
    request_fields,
    request_in_version,
    request_versions,
    response_fields,
    response_in_version,
)
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.schema import schema_of
from tests.protocol.fields.test_frames import DECLARED, declared, request_frame, response_frame
from tests.protocol.fields.trees import check_leaves, is_complete
from tests.protocol.message_strategies import messages
from tests.sweeps import few_examples, one_in


def last_version(cls: type[Any]) -> int:
    return schema_of(cls).versions.last


@pytest.mark.parametrize("key", one_in(2, DECLARED), ids=lambda key: key.message)
def test_a_message_in_its_own_version_is_the_same_and_in_others_whole_or_refused(key: ApiKey) -> None:
    apis = declared(key)
    own = last_version(apis.request)

    @given(messages(apis.request, own), messages(apis.response, own), st.data())
    @few_examples
    def check(request: Any, response: Any, data: st.DataObject) -> None:
        other = data.draw(st.sampled_from(request_versions(key)))
        frame = request_frame(key, own, request)
        same = request_in_version(frame, own)
        assert (same.frame, list(same.lost), same.reason) == (frame, [], "")
        translated = request_in_version(frame, other)
        assert (translated.frame is None) == bool(translated.reason)
        if translated.frame is not None:
            root = request_fields(translated.frame)
            check_leaves(root, len(translated.frame))
            assert root.find("header", "request_api_version").value == other
            assert root.find("body").end == len(translated.frame)
        frame = response_frame(key, own, response)
        assert response_in_version(key, own, frame, own).frame == frame
        translated = response_in_version(key, own, frame, other)
        if translated.frame is not None and not (key == ApiKey.API_VERSIONS and response.error_code == 35):
            root = response_fields(key, other, translated.frame)
            assert root.find("body").end == len(translated.frame)

    check()


def fetch(**fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=3, fetch_offset=5, partition_max_bytes=1024, current_leader_epoch=4)
    return FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])], **fields)


def test_fields_that_a_version_lacks_are_named() -> None:
    frame = request_frame(ApiKey.FETCH, 11, fetch(rack_id="a", isolation_level=1))
    translated = request_in_version(frame, 7)
    assert list(translated.lost) == ["rackId", "topics.partitions.currentLeaderEpoch"]
    assert translated.frame is not None
    root = request_fields(translated.frame)
    assert is_complete(root)
    assert root.find("body", "topics", "[0]", "partitions", "[0]", "fetch_offset").value == 5
    assert request_in_version(frame, 13).lost == ["topics.topic"]
    assert "isolationLevel" in request_in_version(frame, 0).lost


def test_a_version_that_cannot_say_it_has_a_reason() -> None:
    everything = request_frame(ApiKey.METADATA, 1, MetadataRequest(topics=None))
    assert request_in_version(everything, 0).reason == "topics: null, which version 0 does not know"
    assert "no version 99" in request_in_version(everything, 99).reason
    assert request_in_version(everything[:-1], 2).frame is None
    assert request_in_version(b"", 2).frame is None
    assert request_in_version(b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\1\xff\xff", 2).reason == "API 32767 is not known here"
    assert response_in_version(999, 0, b"", 0).frame is None
    assert list(request_versions(ApiKey.METADATA)) == list(range(14))
    assert not request_versions(999)


def test_long_arrays_have_no_other_version() -> None:
    topics = [FetchTopic(topic="t", partitions=[])] * 6000
    frame = request_frame(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=1, min_bytes=1, topics=topics))
    assert "too many" in request_in_version(frame, 7).reason
