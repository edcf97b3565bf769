"""Addresses in responses are replaced, and all other bytes are unchanged."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.addresses import replace_addresses
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages.cluster import DescribeClusterResponse
from minibroker_protocol.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint
from minibroker_protocol.messages.fetch import FetchResponse
from minibroker_protocol.messages.groups import FindCoordinatorResponse
from minibroker_protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from minibroker_protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from minibroker_protocol.messages.share_records import ShareAcknowledgeResponse, ShareFetchResponse
from minibroker_protocol.primitives import write_uvarint
from minibroker_protocol.schema import fields_of, schema_of
from tests.protocol.message_strategies import messages
from tests.sweeps import few_examples, one_in

CLASSES: tuple[type[Any], ...] = (
    MetadataResponse,
    FindCoordinatorResponse,
    DescribeClusterResponse,
    ProduceResponse,
    FetchResponse,
    ShareFetchResponse,
    ShareAcknowledgeResponse,
)
DECLARED = [
    (cls, version)
    for cls in CLASSES
    for version in range(schema_of(cls).versions.first, schema_of(cls).versions.last + 1)
]
VERSIONS = [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}") for each in DECLARED]
FLEXIBLE = [
    pytest.param(cls, version, id=f"{cls.__name__}-{version}")
    for cls, version in DECLARED
    if version in schema_of(cls).flexible
]
HEADER = b"\0\0\0\x07head"


def proxied(host: str, port: int) -> tuple[str, int] | None:
    """Return the replacement of an address, or None for addresses without one."""
    return None if port % 5 == 0 else (f"proxy of {host}, far away " * (port % 7), port ^ 0x55)


def encoded(message: object, version: int) -> bytes:
    out = bytearray(HEADER)
    encode(message, version, out, [])
    return bytes(out)


def replace_in_place(value: Any) -> Any:
    """Replace the addresses of a message or structure in place."""
    if isinstance(value, list):
        for each in value:
            replace_in_place(each)
    elif hasattr(value, "__dataclass_fields__"):
        names = {field.name for field in fields_of(type(value))}
        if "host" in names and (other := proxied(value.host, value.port)) is not None:
            value.host, value.port = other
        for name in names:
            replace_in_place(getattr(value, name))
    return value


@pytest.mark.parametrize(("cls", "version"), one_in(6, VERSIONS))
def test_only_addresses_change(cls: type[Any], version: int) -> None:
    """The result equals that of decoding, replacing and encoding again, for a message without unknown fields."""

    @given(messages(cls, version))
    @few_examples
    def check(message: Any) -> None:
        before = encoded(message, version)
        decoded = decode(cls, memoryview(before), version, len(HEADER))[0]
        after = encoded(replace_in_place(decoded), version)
        found = replace_addresses(cls, version, memoryview(before), len(HEADER), proxied)
        assert (before if found is None else bytes(found)) == after
        assert replace_addresses(cls, version, memoryview(before), len(HEADER), lambda *_: None) is None

    check()


@pytest.mark.parametrize(("cls", "version"), FLEXIBLE)
def test_unknown_tagged_fields_stay(cls: type[Any], version: int) -> None:
    @given(messages(cls, version), st.binary(max_size=200), st.integers(20, 2**31))
    @few_examples
    def check(message: Any, content: bytes, tag: int) -> None:
        def with_unknown(value: Any) -> bytes:
            data = bytearray(encoded(value, version))
            if any(version in field.tagged_in for field in fields_of(cls)):
                value = dataclasses.replace(value, node_endpoints=[])
            data[len(encoded(value, version)) - 1] += 1  # the number of tagged fields at the end
            write_uvarint(data, tag)
            write_uvarint(data, len(content))
            return bytes(data + content)

        before = with_unknown(message)
        after = with_unknown(replace_in_place(message))
        found = replace_addresses(cls, version, memoryview(before), len(HEADER), proxied)
        assert (before if found is None else bytes(found)) == after

    check()


def test_sizes_of_tagged_fields_follow_their_content() -> None:
    """If the new address needs a longer size, the size of the enclosing tagged field grows as well."""
    moved = LeaderIdAndEpoch(leader_id=2, leader_epoch=3)
    partition = PartitionProduceResponse(index=0, error_code=6, base_offset=-1, current_leader=moved)
    response = ProduceResponse(
        responses=[TopicProduceResponse(name="t", partition_responses=[partition])],
        node_endpoints=[NodeEndpoint(node_id=2, host="b", port=9092)],
    )
    before = encoded(response, 11)
    after = replace_addresses(ProduceResponse, 11, memoryview(before), len(HEADER), lambda *_: ("h" * 300, 1))
    assert after is not None
    endpoint = decode(ProduceResponse, memoryview(after), 11, len(HEADER))[0].node_endpoints[0]
    assert (endpoint.host, endpoint.port, len(after) - len(before)) == ("h" * 300, 1, 299 + 2)


@pytest.mark.parametrize(("cls", "version"), one_in(6, VERSIONS))
def test_bytes_that_are_cut_are_refused_or_have_all_addresses(cls: type[Any], version: int) -> None:
    @given(messages(cls, version), st.data())
    @few_examples
    def check(message: Any, data: st.DataObject) -> None:
        whole = encoded(message, version)
        cut = whole[: data.draw(st.integers(len(HEADER), len(whole)))]
        seen: list[tuple[str, int]] = []
        seen_in_whole: list[tuple[str, int]] = []
        replace_addresses(cls, version, memoryview(whole), len(HEADER), lambda *each: seen_in_whole.append(each))
        try:
            replace_addresses(cls, version, memoryview(cut), len(HEADER), lambda *each: seen.append(each))
        except DecodeError:
            assert len(cut) < len(whole)
        else:
            assert seen == seen_in_whole

    check()


@given(st.binary(max_size=200), st.sampled_from([each.values for each in VERSIONS]))
def test_random_bytes_are_refused_or_walked(data: bytes, kind: tuple[type[Any], int]) -> None:
    cls, version = kind
    try:
        replace_addresses(cls, version, memoryview(data), 0, proxied)
    except DecodeError:
        return


def test_a_host_that_is_not_text_stays() -> None:
    broker = MetadataResponseBroker(node_id=1, host="AB", port=9092)
    data = encoded(MetadataResponse(brokers=[broker], topics=[]), 12).replace(b"AB", b"\xff\xfe")
    assert replace_addresses(MetadataResponse, 12, memoryview(data), len(HEADER), lambda *_: ("h", 1)) is None


def test_a_version_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="MetadataResponse has no version 99"):
        replace_addresses(MetadataResponse, 99, memoryview(b""), 0, proxied)
