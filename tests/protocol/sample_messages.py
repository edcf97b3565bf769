"""Small messages with every type of field in every form, for the tests of the schema and the codec."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.codec import encode
from minibroker_protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableBytes,
    NullableString,
    Records,
    String,
    UInt16,
    Uuid,
    frozen_structure,
    message,
    nullable,
    since,
    structure,
    tagged,
    versions,
)


@message(versions="0-1", flexible="1")
class Numbers:
    """Every type with a fixed size."""

    boolean: Bool
    int8: Int8
    int16: Int16
    int32: Int32
    int64: Int64
    uint16: UInt16
    float64: Float64
    uuid: Uuid


@message(versions="0-1", flexible="1")
class Texts:
    """Every type with a length prefix, nullable and not."""

    string: String
    nullable_string: NullableString
    data: Bytes
    nullable_data: NullableBytes
    records: Records


@message(versions="0-1", flexible="1")
class Arrays:
    """Arrays of fixed-size and sized elements."""

    shorts: Array[Int16]
    names: Array[String]
    ids: Array[Uuid]
    numbers: NullableArray[Int32]


@structure
class Leaf:
    """A nested structure with a field added in a later version."""

    name: String
    weight: Annotated[Int16, since(2)] = -7


@frozen_structure
class Point:
    """An immutable nested structure."""

    x: Int32 = -1
    y: Int32 = -1


@message(versions="0-4", flexible="3+")
class Tree:
    """Fields that are added, removed, become nullable and become tagged."""

    old: Annotated[Int8, versions("0-1")] = 9
    leaves: Annotated[NullableArray[Leaf], nullable("1+")]
    label: Annotated[NullableString, nullable("2+")]
    leaf: Annotated[Leaf | None, since(4), nullable("4+")] = None
    origin: Annotated[Point, tagged(5, "3+"), since(3)] = Point()
    comment: Annotated[String, tagged(0, "4+"), since(3)] = "none"
    tags: Annotated[Array[Int8], tagged(200, "3+"), since(3)] = field(default_factory=list)
    last: Int8


def encoded(value: object, version: int) -> bytes:
    """Return the encoded message."""
    out = bytearray()
    encode(value, version, out, [])
    return bytes(out)
