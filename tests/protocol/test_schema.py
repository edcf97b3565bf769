"""Declarations of messages: versions, nullability, tags and defaults. Also shallow copies of messages."""

import copy
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Annotated, Any

import pytest

from minibroker_protocol.codec import decode, decoder_for, encoder_for, shallow_copy
from minibroker_protocol.compiler import generated_source
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.messages.fetch import FetchableTopicResponse, FetchPartition, FetchResponse, PartitionData
from minibroker_protocol.messages.groups import HeartbeatRequest
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition
from minibroker_protocol.schema import (
    ALWAYS,
    NEVER,
    Int16,
    NullableString,
    String,
    VersionRange,
    fields_of,
    first_version,
    message,
    schema_of,
    since,
    structure,
)
from tests.protocol.sample_messages import Leaf, Numbers, Point, Texts, Tree, encoded

TREE = {each.name: each for each in fields_of(Tree)}


def tree(**fields: Any) -> Tree:
    values: dict[str, Any] = {"leaves": [], "label": "", "last": 0, **fields}
    return Tree(**values)


@pytest.mark.parametrize(
    ("text", "first", "last"), [("3", 3, 3), ("0-7", 0, 7), ("2-2", 2, 2), ("0+", 0, 32767), ("12+", 12, 32767)]
)
def test_a_version_range_is_written_as_in_kafkas_definitions(text: str, first: int, last: int) -> None:
    assert VersionRange.parse(text) == (first, last)


def test_a_version_range_holds_its_ends_and_nothing_beyond() -> None:
    versions = VersionRange.parse("2-4")
    assert [version for version in range(7) if version in versions] == [2, 3, 4]
    text: object = "3"
    assert text not in versions
    assert all(version in ALWAYS and version not in NEVER for version in range(100))


def test_the_first_version_of_a_field_is_that_of_its_declaration() -> None:
    assert first_version(ListOffsetsPartition, "current_leader_epoch") == 4
    assert first_version(FetchResponse, "node_endpoints") == 16
    assert first_version(ListOffsetsPartition, "timestamp") == 0
    with pytest.raises(KeyError, match="timestmap"):
        first_version(ListOffsetsPartition, "timestmap")


@pytest.mark.parametrize("text", ["", "x", "1-x", "-", "+"])
def test_a_version_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        VersionRange.parse(text)


def test_a_message_without_flexible_versions_has_none() -> None:
    @message(versions="0-3")
    class Plain:
        number: Int16

    assert schema_of(Plain).versions == (0, 3)
    assert not any(version in schema_of(Plain).flexible for version in range(5))


def test_a_structure_is_no_message() -> None:
    with pytest.raises(KeyError):
        schema_of(Leaf)


def test_defaults_are_those_of_the_declaration_or_of_the_type() -> None:
    assert {name: field.default() for name, field in TREE.items()} == {
        "old": 9,
        "leaves": [],
        "label": "",
        "leaf": None,
        "origin": Point(),
        "comment": "none",
        "tags": [],
        "last": 0,
    }
    assert [field.default() for field in fields_of(Numbers)] == [False, 0, 0, 0, 0, 0, 0.0, bytes(16)]
    assert [field.default() for field in fields_of(Texts)] == ["", "", b"", b"", None]


def test_a_list_that_is_a_default_is_new_every_time() -> None:
    first, second = tree(), tree()
    first.tags.append(1)
    assert second.tags == []
    assert TREE["leaves"].default() is not TREE["leaves"].default()


def test_a_structure_without_a_default_of_its_own_is_built_from_the_defaults_of_its_fields() -> None:
    @message(versions="0-1")
    class Nest:
        leaf: Annotated[Leaf, since(1)]

    assert fields_of(Nest)[0].default() == Leaf(name="", weight=-7)
    assert decode(Nest, memoryview(b""), 0) == (Nest(leaf=Leaf(name="", weight=-7)), 0)


def test_only_fields_without_a_default_are_required() -> None:
    assert [name for name, field in TREE.items() if field.required] == ["leaves", "label", "last"]
    with pytest.raises(TypeError, match="last"):
        Tree(leaves=[], label="")  # type: ignore[call-arg]  # that is the point


def test_a_frozen_structure_cannot_change_under_the_messages_that_share_it() -> None:
    with pytest.raises(FrozenInstanceError):
        tree().origin.x = 5  # type: ignore[misc]  # that is the point


def test_an_annotation_that_means_nothing_is_refused() -> None:
    @structure
    class Odd:
        number: Annotated[Int16, "from version 3"]

    with pytest.raises(TypeError, match="number: 'from version 3' means nothing"):
        fields_of(Odd)


def test_a_field_is_not_written_in_a_version_that_lacks_it() -> None:
    assert encoded(tree(old=1, last=2), 1) == b"\x01" + b"\0\0\0\0" + b"\0\0" + b"\x02"
    assert encoded(tree(old=1, last=2), 2) == b"\0\0\0\0" + b"\0\0" + b"\x02"


def test_a_field_that_a_version_lacks_is_read_as_its_default() -> None:
    value, size = decode(Tree, memoryview(b"\0\0\0\0\0\0\x02"), 2)
    assert (value, size) == (tree(last=2, old=9), 7)


def test_a_nested_field_comes_with_the_version_of_its_message() -> None:
    one = tree(leaves=[Leaf(name="a", weight=3)])
    assert encoded(one, 1) == b"\x09\0\0\0\x01\0\x01a\0\0\0"
    assert encoded(one, 2) == b"\0\0\0\x01\0\x01a\0\x03\0\0\0"
    old, _ = decode(Tree, memoryview(encoded(one, 1)), 1)
    assert old.leaves == [Leaf(name="a", weight=-7)]


def test_null_is_refused_in_versions_before_it_is_allowed() -> None:
    with pytest.raises(EncodeError, match="Tree v0"):
        encoded(tree(leaves=None), 0)
    with pytest.raises(EncodeError, match="Tree v1"):
        encoded(tree(label=None), 1)
    with pytest.raises(DecodeError, match="Tree v0: leaves: count -1"):
        decode(Tree, memoryview(b"\0\xff\xff\xff\xff\0\0\0"), 0)
    with pytest.raises(DecodeError, match="Tree v1: label: length -1"):
        decode(Tree, memoryview(b"\0\0\0\0\0\xff\xff\0"), 1)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_null_is_kept_in_versions_that_allow_it(version: int) -> None:
    value = tree(leaves=None, label=None)
    assert decode(Tree, memoryview(encoded(value, version)), version)[0] == value


def test_a_tagged_field_takes_no_place_while_it_is_its_default() -> None:
    assert encoded(tree(), 4) == b"\x01\x01\xff\0\0"


def test_tagged_fields_stand_in_the_order_of_their_tags() -> None:
    value = tree(origin=Point(x=1, y=2), comment="hi", tags=[3])
    assert encoded(value, 4) == (
        b"\x01\x01\xff\0"  # no leaves, an empty label, no leaf, last
        b"\x03"  # three tagged fields
        b"\x00\x03\x03hi"
        b"\x05\x09\0\0\0\x01\0\0\0\x02\x00"
        b"\xc8\x01\x02\x02\x03"
    )


def test_a_field_may_be_ordinary_in_one_version_and_tagged_in_the_next() -> None:
    assert encoded(tree(comment="hi"), 3) == b"\x01\x01\x03hi\0\0"
    assert encoded(tree(comment="hi"), 4) == b"\x01\x01\xff\0\x01\x00\x03\x03hi"


def test_a_version_that_does_not_exist_has_no_codec() -> None:
    for version in (-1, 5):
        with pytest.raises(ValueError, match=f"Tree has no version {version}"):
            decoder_for(Tree, version)
        with pytest.raises(ValueError, match=f"Tree has no version {version}"):
            encoder_for(Tree, version)


def test_decoding_compiles_no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the first request of an API would wait for it."""

    @message(versions="0")
    class Number:
        number: Int16

    monkeypatch.setattr("minibroker_protocol.compiler.compile_encoder", None)
    assert decode(Number, memoryview(b"\0\x07"), 0) == (Number(number=7), 2)


def test_fields_next_to_each_other_are_read_and_written_in_one_call() -> None:
    text = generated_source(Numbers, 0)
    assert "unpack_from_?bhiqHd16s(buf, p)" in text.replace("B0", "?")
    assert text.count("unpack_from_") == 1
    assert text.count("pack_") - text.count("unpack_") == 1


@dataclass(slots=True, kw_only=True)
class Plain:
    name: str
    numbers: list[int] = field(default_factory=list[int])
    text: str | None = "t"


@structure
class Declared:
    name: String
    numbers: list[Int16] = field(default_factory=list[int])
    text: NullableString = "t"


def test_a_message_class_does_what_a_dataclass_does() -> None:
    kinds: tuple[Any, ...] = (Plain, Declared)
    for each in kinds:
        made, same = each(name="a"), each(name="a")
        assert made == same
        assert made != each(name="a", text=None)
        assert made != kinds[each is Plain](name="a")
        made.numbers.append(1)
        assert (same.numbers, made != same) == ([], True)
        assert repr(made) == f"{each.__name__}(name='a', numbers=[1], text='t')"
        assert replace(made, text=None) == each(name="a", numbers=[1], text=None)
        with pytest.raises(TypeError, match="unhashable"):
            hash(made)
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
            each()
        with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
            each(name="a", other=1)
        with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
            each("a")


def test_the_first_message_of_a_class_may_be_refused() -> None:
    @structure
    class Fresh:
        name: String

    fresh: Any = Fresh
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        fresh()
    assert fresh(name="a").name == "a"


_DATA = PartitionData(partition_index=3, error_code=0, high_watermark=7, aborted_transactions=None, records=b"r")


@pytest.mark.parametrize(
    "message",
    [
        FetchResponse(throttle_time_ms=5, responses=[FetchableTopicResponse(topic="t", partitions=[_DATA])]),
        FetchPartition(partition=1, fetch_offset=2, partition_max_bytes=3),
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_copy_has_the_same_values_and_is_another_message(message: Any) -> None:
    before = copy.deepcopy(message)
    made = shallow_copy(message)
    assert made == before
    for each in fields_of(type(message)):
        assert getattr(made, each.name) is getattr(message, each.name)
        setattr(made, each.name, None)
    assert message == before
