"""Messages byte for byte, and invalid bytes. `tests/kafka/test_messages.py` covers every version."""

import random
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minibroker_protocol.codec import Splices, decode, encode
from minibroker_protocol.compiler import generated_source
from minibroker_protocol.errors import DecodeError, EncodeError, TooManyElementsError
from minibroker_protocol.messages.api_versions import ApiVersionsResponse
from minibroker_protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.messages.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from minibroker_protocol.primitives import write_uvarint
from tests.protocol.hostile import at_most_allocated
from tests.protocol.message_strategies import all_classes, all_messages, few_at_a_time, layouts, messages, versions_of
from tests.protocol.sample_messages import Arrays, Leaf, Point, Texts, Tree, encoded
from tests.sweeps import few_examples, one_in

PRODUCE = ProduceRequest(
    acks=-1,
    timeout_ms=1500,
    topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=2, records=b"abc")])],
)
FETCHED = FetchableTopicResponse(
    topic="t", partitions=[PartitionData(partition_index=1, error_code=1, high_watermark=-1, records=b"xyz")]
)
_CUTS = 40
"""Number of places at which a long message is cut."""
_FETCHED_V0 = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01\0\x01" + b"\xff" * 8 + b"\0\0\0\x03xyz"
_PRODUCE_V0 = b"\xff\xff\0\0\x05\xdc\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\x03abc"

GOLDEN: list[tuple[int, Any, bytes]] = [
    (0, PRODUCE, _PRODUCE_V0),
    (3, PRODUCE, b"\xff\xff" + _PRODUCE_V0),
    (1, FetchResponse(responses=[FETCHED], throttle_time_ms=5), b"\0\0\0\x05" + _FETCHED_V0),
    (1, MetadataRequest(topics=None), b"\xff\xff\xff\xff"),
    (
        3,
        ApiVersionsResponse(error_code=0, api_keys=[], finalized_features_epoch=1, zk_migration_ready=True),
        b"\0\0\x01\0\0\0\0\x02\x01\x08\0\0\0\0\0\0\0\x01\x03\x01\x01",
    ),
]


@pytest.mark.parametrize(("version", "value", "golden"), GOLDEN, ids=[f"{type(m).__name__}-v{v}" for v, m, _ in GOLDEN])
def test_a_message_is_what_the_protocol_says(version: int, value: Any, golden: bytes) -> None:
    assert encoded(value, version) == golden
    assert decode(type(value), memoryview(golden), version) == (value, len(golden))


def test_decoding_begins_where_it_is_told_and_ends_where_the_message_ends() -> None:
    framed = memoryview(b"header" + _PRODUCE_V0 + b"rest")
    assert decode(ProduceRequest, framed, 0, position=6) == (PRODUCE, 6 + len(_PRODUCE_V0))


def test_records_and_bytes_are_views_of_the_buffer_and_not_copies() -> None:
    buffer = bytearray(_PRODUCE_V0)
    value, _ = decode(ProduceRequest, memoryview(buffer), 0)
    buffer[-3:] = b"new"
    assert value.topic_data[0].partition_data[0].records == b"new"


class OnDisk:
    """Records that are not in memory."""

    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(("version", "length"), [(4, b"\0\0\x03\xe8"), (12, b"\xe9\x07")])
def test_records_on_disk_leave_a_hole_with_their_length_before_it(version: int, length: bytes) -> None:
    whole = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[])])
    holes = [OnDisk(1000), OnDisk(0), OnDisk(5)]
    for index, hole in enumerate(holes):
        whole.responses[0].partitions.append(
            PartitionData(partition_index=index, error_code=0, high_watermark=0, records=hole)
        )
    out, splices = bytearray(b"before"), Splices()
    encode(whole, version, out, splices)
    assert [splice for _, splice in splices] == [holes[0], holes[2]]  # An empty splice leaves no gap.
    assert out[: splices[0][0]].endswith(length)
    for position, splice in reversed(splices):
        out[position:position] = bytes(splice.size)
    read, end = decode(FetchResponse, memoryview(out), version, 6)
    assert end == len(out)
    assert [data.records for data in read.responses[0].partitions] == [bytes(1000), b"", bytes(5)]


@pytest.mark.parametrize("version", [3, 4])
def test_tagged_fields_that_are_not_declared_are_passed_over(version: int) -> None:
    value = Tree(leaves=None, label=None, last=1, origin=Point(x=1, y=2))
    out = encoded(value, version)
    count_at = len(out) - 1 - 1 - 1 - 9  # count, tag, size, content
    assert out[count_at] == 1
    unknown = b"\x03" + b"\x02\x04\xff\xff\xff\xff" + out[count_at + 1 :] + b"\xac\x02\x00"
    assert decode(Tree, memoryview(out[:count_at] + unknown), version) == (value, count_at + len(unknown))


def test_a_nested_structure_has_tagged_fields_of_its_own_to_pass_over() -> None:
    value = Tree(leaves=[Leaf(name="a", weight=1)], label="", last=0)
    plain = encoded(value, 4)
    assert plain == b"\x02\x02a\0\x01\0\x01\xff\0\0"
    assert decode(Tree, memoryview(b"\x02\x02a\0\x01\x01\x07\x02zz\x01\xff\0\0"), 4)[0] == value


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (Tree, 3, b"\x01\x01\x01\0\x01\x05\x0a\0\0\0\x01\0\0\0\x02\x00\x00"),  # a size that is one too large
        (Tree, 3, b"\x01\x01\x01\0\x01\x05\x08\0\0\0\x01\0\0\0\x02\x00"),  # a size that is one too small
        (Tree, 3, b"\x01\x01\x01\0\x01\x05\xff\xff\xff\xff\x0f"),  # a size far beyond the end
        (Tree, 3, b"\x01\x01\x01\0\x01\x09\x01"),  # a size beyond the end, of an unknown tag
        (Tree, 3, b"\x01\x01\x01\0\xff\xff\xff\xff\x0f"),  # four billion tagged fields
        (Tree, 3, b"\x80\x80\x80\x80\x10\x01\x01\0\0"),  # a count beyond 32 bits
        (Tree, 0, b"\0\x7f\xff\xff\xff\0\0\0"),  # two billion leaves
        (Tree, 0, b"\0\x80\0\0\0\0\0\0"),  # -2**31 leaves
        (Arrays, 0, b"\0\0\0\x0a" + bytes(19)),  # ten int16 values in 19 bytes
        (Arrays, 1, b"\x0b" + bytes(19)),
        (Arrays, 0, b"\0\0\0\0\0\0\0\0\0\0\0\x02" + bytes(31)),  # two ids in 31 bytes
        (Texts, 0, b"\x7f\xffabc"),
        (Texts, 0, b"\x80\0abc"),
        (Texts, 0, b"\0\0\0\0\x7f\xff\xff\xff"),
        (Texts, 0, b"\0\0\0\0\x80\0\0\0"),
        (Texts, 1, b"\xff\xff\xff\xff\x0fabc"),
        (Texts, 1, b"\x00"),  # null in a field that is not nullable
    ],
)
def test_lengths_and_counts_that_lie_are_refused(cls: type[Any], version: int, data: bytes) -> None:
    with pytest.raises(DecodeError, match=f"{cls.__name__} v{version}: "):
        decode(cls, memoryview(data), version)


def test_a_string_has_no_more_bytes_than_the_older_versions_can_hold() -> None:
    """The compact form allows longer strings, but Kafka rejects them as well, and could not store them."""

    def read_back(length: int) -> str:
        out = bytearray()
        encode(DeleteTopicsRequest(topic_names=["x" * length], timeout_ms=1), 5, out, [])
        found, _ = decode(DeleteTopicsRequest, memoryview(out), 5)
        return str(found.topic_names[0])

    assert len(read_back(32_767)) == 32_767
    with pytest.raises(DecodeError, match="length 32768"):
        read_back(32_768)


def test_a_lying_count_costs_no_memory() -> None:
    lies = struct.pack(">hii", 1, 0, 2**31 - 1) + bytes(1000)
    with pytest.raises(DecodeError):
        decode(ProduceRequest, memoryview(lies), 0)
    with at_most_allocated(100_000), pytest.raises(DecodeError):
        decode(ProduceRequest, memoryview(lies), 0)


def test_versions_of_one_layout_have_the_same_functions() -> None:
    """The sample of round-trip messages can therefore omit these versions."""
    distinct = set(layouts())
    same = [(cls, version) for cls, version in all_messages() if (cls, version) not in distinct]
    assert len(same) > 100
    for cls, version in same:
        before, after = (generated_source(cls, number) for number in (version - 1, version))
        assert after == before, (cls, version)


def comes_back(value: Any, version: int) -> None:
    cls = type(value)
    out = encoded(value, version)
    assert decode(cls, memoryview(out), version) == (value, len(out))
    view = memoryview(out)
    for cut in range(len(out) - 1, -1, -(1 + len(out) // _CUTS)):
        with pytest.raises(DecodeError):
            decode(cls, view[:cut], version)


@pytest.mark.parametrize(("cls", "versions"), one_in(2, few_at_a_time(all_messages())))
@few_examples
@given(data=st.data())
def test_a_message_comes_back_and_is_refused_when_cut(cls: type[Any], versions: list[int], data: st.DataObject) -> None:
    for version in versions:
        comes_back(data.draw(messages(cls, version), f"version {version}"), version)


@pytest.mark.parametrize("cls", all_classes(), ids=lambda cls: cls.__name__)
def test_random_bytes_are_a_message_or_refused_and_nothing_else(cls: type[Any]) -> None:
    for version in versions_of(cls):
        dice = random.Random(f"{cls.__name__} {version}")
        for _ in range(25):
            # Small numbers are more likely to pass the first count.
            data = bytes(dice.choice((0, 0, 0, 1, 2, 255, dice.randrange(256))) for _ in range(dice.randrange(60)))
            with suppress(DecodeError):
                _, end = decode(cls, memoryview(data), version)
                assert end <= len(data), f"version {version}: {data.hex()}"


@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=5))
@example(flips=[(0, 255)])
def test_flipped_bytes_are_a_message_or_refused_and_nothing_else(flips: list[tuple[int, int]]) -> None:
    for version, value, golden in GOLDEN:
        data = bytearray(golden)
        for position, byte in flips:
            data[position % len(data)] = byte
        with suppress(DecodeError):
            _, end = decode(type(value), memoryview(data), version)
            assert end <= len(data)


@pytest.mark.parametrize(
    "value",
    [
        ProduceRequest(acks=2**15, timeout_ms=0, topic_data=[]),
        ProduceRequest(acks=0, timeout_ms=-(2**31) - 1, topic_data=[]),
        ProduceRequest(acks=0, timeout_ms=0, topic_data=None),  # type: ignore[arg-type]  # that is the point
        ProduceRequest(acks=0, timeout_ms=0, topic_data=[None]),  # type: ignore[list-item]  # that is the point
        DeletableTopicResult(name=None, error_code=0),
    ],
)
def test_a_value_that_does_not_fit_is_our_fault_and_named(value: Any) -> None:
    if isinstance(value, DeletableTopicResult):
        value = DeleteTopicsResponse(responses=[value])
    with pytest.raises(EncodeError, match=f"{type(value).__name__} v5: "):
        encoded(value, 5)


def test_a_limit_of_elements_counts_all_arrays_of_a_message() -> None:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(range(10))) for _ in range(5)]
    out = bytearray()
    encode(OffsetFetchRequest(group_id="g", topics=topics), 1, out, [])
    view = memoryview(bytes(out))
    assert decode(OffsetFetchRequest, view, 1, 0, 55)[0].topics == topics
    message = "OffsetFetchRequest v1: partition_indexes: 10 elements are too many"
    with pytest.raises(TooManyElementsError, match=message):
        decode(OffsetFetchRequest, view, 1, 0, 54)


@pytest.mark.parametrize("count", [128, 1_000_000])
def test_a_section_of_too_many_tagged_fields_is_refused(count: int) -> None:
    out = bytearray()
    encode(MetadataRequest(topics=[]), 9, out, [])
    assert out[-1] == 0
    del out[-1]
    write_uvarint(out, count)
    out += b"\x7f\x00" * count
    with pytest.raises(DecodeError, match=f"{count} tagged fields in one section"):
        decode(MetadataRequest, memoryview(bytes(out)), 9)
