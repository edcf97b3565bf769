"""Declares messages as typed classes. Each field declares the versions that contain it.

    @structure
    class PartitionProduceData:
        index: Int32
        records: Records = None

    @message(versions="0-9", flexible="9+")
    class ProduceRequest:
        transactional_id: Annotated[NullableString, since(3)] = None
        acks: Int16
        ...

Fields are declared in wire order, which is the same in every version. Constructors take keyword arguments only. The
type of a field declares its values, and its `Annotated` metadata declares its versions: `since(3)`, `versions("0-7")`,
`nullable("7+")`, `tagged(0, "12+")`. In a version without the field, decoding sets the field's default, and encoding
omits the field. Annotations must not be strings, so a module with messages cannot import `annotations` from
`__future__`. `codec` compiles the code for a (class, version) pair on first use.

The declarations correspond to Kafka's own definitions (the JSON files of its `clients` module), in our own notation.
"""

import dataclasses
import types
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeVar, cast, dataclass_transform, get_args, get_origin

from minibroker_protocol import primitives as p

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_NO_UPPER_BOUND: Final = 32767


class Splice(Protocol):
    """Records that are not in memory. The encoder writes only their length and leaves a gap for the records.

    When the connection sends the response, it fills the gap from the file (`os.sendfile`).
    """

    @property
    def size(self) -> int:
        """Length in bytes."""
        ...


# The types of fields. The aliases keep declarations short; type checkers see the Python type.
Bool = Annotated[bool, p.BOOLEAN]
Int8 = Annotated[int, p.INT8]
Int16 = Annotated[int, p.INT16]
Int32 = Annotated[int, p.INT32]
Int64 = Annotated[int, p.INT64]
UInt16 = Annotated[int, p.UINT16]
Float64 = Annotated[float, p.FLOAT64]
Uuid = Annotated[bytes, p.UUID]
String = Annotated[str, p.STRING]
NullableString = Annotated[str | None, p.STRING]
Bytes = Annotated[bytes | bytearray | memoryview, p.BYTES]
NullableBytes = Annotated[bytes | bytearray | memoryview | None, p.BYTES]
Records = Annotated[bytes | bytearray | memoryview | Splice | None, p.RECORDS]
NonNullRecords = Annotated[bytes | bytearray | memoryview | Splice, p.RECORDS]
Array = list
NullableArray = list[T] | None


class VersionRange(NamedTuple):
    """An inclusive range of versions, written as "3", "0-7" or "3+"."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        """Parse "3", "0-7" or "3+"."""
        if text.endswith("+"):
            return cls(int(text[:-1]), _NO_UPPER_BOUND)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


ALWAYS: Final = VersionRange(0, _NO_UPPER_BOUND)
NEVER: Final = VersionRange(1, 0)


class _Annotation:
    """The base of a field's annotations.

    Annotations are compared by identity. Older Pythons cache `Annotated` forms by equality, and would merge equal
    annotations of two kinds.
    """

    def __init__(self, version_range: VersionRange, tag: int = -1) -> None:
        self.range = version_range
        self.tag = tag


class _Presence(_Annotation):
    pass


class _Nullable(_Annotation):
    pass


class _Tagged(_Annotation):
    pass


def since(version: int) -> _Presence:
    """Declare that a field exists from `version` on."""
    return _Presence(VersionRange(version, _NO_UPPER_BOUND))


def versions(text: str) -> _Presence:
    """Declare that a field exists in these versions only ("0-7", "3+")."""
    return _Presence(VersionRange.parse(text))


def nullable(text: str) -> _Nullable:
    """Declare that null is allowed in these versions only.

    Without this declaration, a type that includes None allows null in all versions.
    """
    return _Nullable(VersionRange.parse(text))


def tagged(tag: int, text: str) -> _Tagged:
    """Declare that a field is tagged (KIP-482) in these versions.

    A tagged field is written only if its value is not the default.
    """
    return _Tagged(VersionRange.parse(text), tag)


def empty() -> Any:
    """Declare that an array without a value is an empty list."""
    return dataclasses.field(default_factory=list[Any])


class Field(NamedTuple):
    """A declared field, as used by the compiler.

    Attributes:
        kind: a `WireType`, or the class of a nested structure.
        is_array: whether the field is an array of `kind`.
        tag: the field's tag in the versions `tagged_in`; in other versions it is an ordinary field.
        default: returns the value for messages that lack the field.
        required: whether the constructor requires a value.
    """

    name: str
    kind: p.WireType | type[Any]
    is_array: bool
    present: VersionRange
    nullable: VersionRange
    tag: int
    tagged_in: VersionRange
    default: Callable[[], Any]
    required: bool


class Schema(NamedTuple):
    """The versions of a message class, and the flexible ones among them."""

    versions: VersionRange
    flexible: VersionRange


_SCHEMAS: dict[type[Any], Schema] = {}


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
def structure(cls: type[T]) -> type[T]:
    """Declare a nested structure. It inherits the versions and flexible versions of its message.

    The result is a dataclass with slots, created in a third of the usual time. `__init__` is compiled when the first
    instance is created. `__eq__` and `__repr__` are not compiled.
    """
    message_class: Any = dataclasses.dataclass(slots=True, kw_only=True, init=False, eq=False, repr=False)(cls)
    values: Callable[[Any], Any] = attrgetter(*message_class.__dataclass_fields__)

    def equals(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def compile_and_init(self: object, **values: object) -> None:
        message_class.__init__ = _compile_constructor(message_class)
        message_class.__init__(self, **values)

    message_class.__init__ = compile_and_init
    message_class.__eq__ = equals
    message_class.__hash__ = None
    message_class.__repr__ = _repr_of
    return cast("type[T]", message_class)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen_structure(cls: type[T]) -> type[T]:
    """Declare an immutable nested structure. One instance can be a field's default in every message."""
    return dataclasses.dataclass(slots=True, kw_only=True, frozen=True)(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
def message(*, versions: str, flexible: str | None = None) -> Callable[[type[T]], type[T]]:
    """Declare a request, response or stored record, with all its versions and the flexible ones among them."""
    all_versions = VersionRange.parse(versions)
    first_flexible = VersionRange.parse(flexible).first if flexible else all_versions.last + 1
    schema = Schema(all_versions, all_versions._replace(first=max(first_flexible, all_versions.first)))

    def declare(cls: type[T]) -> type[T]:
        message_class = structure(cls)
        _SCHEMAS[message_class] = schema
        return message_class

    return declare


def _compile_constructor(cls: type[Any]) -> Callable[..., None]:
    """Compile the same `__init__` as `dataclasses`."""
    parameters, lines = "", list[str]()
    namespace: dict[str, Any] = {"NEW": dataclasses.MISSING}
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            namespace[f"make_{name}"] = field.default_factory
            parameters += f", {name}=NEW"
            value = f"make_{name}() if {name} is NEW else {name}"
        elif field.default is not dataclasses.MISSING:
            namespace[f"default_{name}"] = field.default
            parameters += f", {name}=default_{name}"
        else:
            parameters += f", {name}"
        lines.append(f"  self.{name} = {value}")
    text = "\n".join([f"def __init__(self, *{parameters}):", *lines])
    exec(text, namespace)  # noqa: S102 - our own text
    constructor: Callable[..., None] = namespace["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def _repr_of(self: Any) -> str:
    """Return the same text as `__repr__` of a dataclass."""
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{self.__class__.__qualname__}({values})"


def schema_of(cls: type[Any]) -> Schema:
    """Return the versions of a message class.

    Raises:
        KeyError: the class was not declared with `message`.
    """
    return _SCHEMAS[cls]


def cached(function: F) -> F:
    """Cache the results of a function like `functools.cache`, but keep the function's type."""
    return cast("F", cache(function))


@cached
def fields_of(cls: type[Any]) -> tuple[Field, ...]:
    """Return the declared fields of a message or structure class, in wire order."""
    return tuple(_build_field(field) for field in dataclasses.fields(cls))


def plain_fields(cls: type[Any]) -> list[Field]:
    """Return the fields of a message that are part of its plain shape (see `compiler`).

    Messages that have a plain shape contain nested structures only in tagged fields.
    """
    return [
        field for field in fields_of(cls) if field.tag < 0 and (field.is_array or isinstance(field.kind, p.WireType))
    ]


def first_version(cls: type[Any], field: str) -> int:
    """Return the first version of a message or structure class that has this field.

    Raises:
        KeyError: no version has this field.
    """
    return {declared.name: declared.present.first for declared in fields_of(cls)}[field]


def _build_field(dataclass_field: "dataclasses.Field[Any]") -> Field:
    hint: Any = dataclass_field.type
    present, null_in, tag, tagged_in = ALWAYS, None, -1, NEVER
    annotations: tuple[Any, ...] = getattr(hint, "__metadata__", ())
    wire_type: p.WireType | None = None
    for annotation in annotations:
        match annotation:
            case p.WireType():
                wire_type = annotation
            case _Presence():
                present = annotation.range
            case _Nullable():
                null_in = annotation.range
            case _Tagged():
                tag, tagged_in = annotation.tag, annotation.range
            case _:
                raise TypeError(f"{dataclass_field.name}: {annotation!r} means nothing in a message")
    plain, admits_none = _remove_none(get_args(hint)[0] if get_origin(hint) is Annotated else hint)
    is_array = get_origin(plain) is list
    if is_array:
        plain = get_args(plain)[0]
        wire_type = next((item for item in getattr(plain, "__metadata__", ()) if isinstance(item, p.WireType)), None)
    if null_in is None:
        null_in = ALWAYS if admits_none else NEVER
    kind = wire_type or plain
    default = _make_default(dataclass_field, kind, is_array=is_array)
    required = dataclass_field.default is dataclasses.MISSING and dataclass_field.default_factory is dataclasses.MISSING
    return Field(dataclass_field.name, kind, is_array, present, null_in, tag, tagged_in, default, required)


def _remove_none(hint: Any) -> tuple[Any, bool]:
    """Return the type without None, and whether it allowed None.

    A union of byte types stays a union: the `WireType` already determines how it is encoded.
    """
    if get_origin(hint) is not types.UnionType:
        return hint, False
    arms = [arm for arm in get_args(hint) if arm is not types.NoneType]
    return (arms[0] if len(arms) == 1 else hint), len(arms) < len(get_args(hint))


def _make_default(dataclass_field: "dataclasses.Field[Any]", kind: Any, *, is_array: bool) -> Callable[[], Any]:
    if dataclass_field.default_factory is not dataclasses.MISSING:
        return dataclass_field.default_factory
    if dataclass_field.default is not dataclasses.MISSING:
        return lambda: dataclass_field.default
    if is_array:
        return list
    if isinstance(kind, p.WireType):
        return lambda: kind.default
    return lambda: kind(**{field.name: field.default() for field in fields_of(kind)})
