"""The compiler behind `codec`. It generates a flat decoder and a flat encoder per message class and version.

Rules of the generated code:

- A decoder is called as `decode(buffer, position, end, max_elements)` and returns (value, position after it). It
  copies text only. Bytes and records are slices of the given memoryview, and are valid as long as the caller's buffer.
- Every length is checked against the remaining bytes before anything is allocated for it.
- Tagged fields that the class does not declare are skipped (KIP-482).
- A decoder counts the elements of all arrays against a limit, because an element of one byte in a frame can occupy a
  hundred bytes of memory.
- An encoder is called as `encode(value, out, splices)` and appends to `out`. For records that are not in memory
  (`schema.Splice`), it writes the length and appends (position in `out`, splice) to `splices`.
- The *plain shape* of a message has one element in each required array. Optional arrays are empty, the optional
  strings of a response are null, and there are no tagged fields. A request for one partition usually has this shape,
  and so has its response. The values are a flat tuple of all other fields of all versions, in declaration order.
- The encoder of a response is called as `encode(value, correlation_id, out, splices)` and appends a whole frame.

The module is long because both directions and both shapes follow the same declarations, and are read side by side.
"""

import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from minibroker_protocol import primitives as p
from minibroker_protocol.errors import DecodeError, EncodeError, TooManyElementsError
from minibroker_protocol.schema import NEVER, Field, fields_of, plain_fields, schema_of

_TRUNCATED_FIELDS: Final = frozenset(("error_message", "batch_index_error_message"))
"""Fields with text for people. It can repeat a client's input, so text that is too long is truncated, not rejected."""
_LITERALS: Final = (int, float, str, bytes)
"""Types of defaults that the generated code contains as literals."""
_NULL_STRUCTURE: Final = 255
_NULL_LENGTH: Final = {"h": b"\xff\xff", "i": b"\xff\xff\xff\xff"}


def compile_decoder(cls: type[Any], version: int) -> Callable[..., Any]:
    """Compile the decoder of a message class for one version."""
    return _Decoder(cls, version).compile_function("decode")


def compile_encoder(cls: type[Any], version: int, *, flexible_header: bool | None = None) -> Callable[..., Any]:
    """Compile the encoder of a message class for one version.

    If `flexible_header` is not None, the encoder writes whole response frames: the length, the header and the message.
    """
    return _Encoder(cls, version, flexible_header=flexible_header).compile_function("encode")


def compile_plain_codec(
    request: type[Any], response: type[Any], version: int, *, flexible_header: bool
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compile a decoder of plain-shape requests, and an encoder of plain-shape response frames."""
    encoder = _PlainEncoder(response, version, flexible_header=flexible_header)
    return _PlainDecoder(request, version).compile_function("decode"), encoder.compile_function("encode")


def generated_source(cls: type[Any], version: int) -> str:
    """Return the Python source of a decoder and its encoder, for people and for tests."""
    return _Decoder(cls, version).text + "\n\n" + _Encoder(cls, version).text


class _Generator:
    """The base of all generators. It handles indentation, unique names and runs of fixed-size values."""

    def __init__(self, cls: type[Any], version: int) -> None:
        if version not in schema_of(cls).versions:
            raise ValueError(f"{cls.__name__} has no version {version}")
        self.cls = cls
        self.version = version
        self.flexible = version in schema_of(cls).flexible
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, object] = {}
        self.run: list[tuple[str, str]] = []
        self.counter = 0

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def compile_function(self, name: str) -> Callable[..., Any]:
        namespace: dict[str, Any] = dict(self.names)
        code = compile(self.text, f"<{self.cls.__name__} v{self.version} {name}>", "exec")
        exec(code, namespace)  # noqa: S102 - our own text
        function: Callable[..., Any] = namespace[name]
        return function

    def emit_line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Emit the head of a compound statement, and indent its body."""
        self.emit_line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def new_name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def bind(self, prefix: str, value: object) -> str:
        """Return the global name of `value` in the generated function. The same value always gets the same name."""
        for name, bound in self.names.items():
            if bound is value:
                return name
        name = self.new_name(prefix)
        self.names[name] = value
        return name

    def emit_fixed(self, fmt: str, expression: str) -> None:
        """Add a fixed-size value to the current run. A run becomes one `struct` call."""
        self.run.append((fmt, expression))

    def bind_struct(self, formats: str, method: str) -> str:
        name = f"{method}_{formats.replace('?', 'B0')}"
        self.names.setdefault(name, getattr(struct.Struct(">" + formats), method))
        return name

    def is_ordinary(self, field: Field) -> bool:
        """Return whether this version has the field as an ordinary (untagged) field."""
        return self.version in field.present and not self.is_tagged(field)

    def is_tagged(self, field: Field) -> bool:
        return self.flexible and self.version in field.tagged_in


class _Decoder(_Generator):
    """Generates code that reads each value directly into its target: a variable or an attribute of the message."""

    def __init__(self, cls: type[Any], version: int) -> None:
        super().__init__(cls, version)
        self.names.update(
            DecodeError=DecodeError,
            TooManyElementsError=TooManyElementsError,
            new=object.__new__,
            read_uvarint=p.read_uvarint,
            skip_tagged_fields=p.skip_tagged_fields,
            too_many_tagged_fields=p.too_many_tagged_fields,
        )
        self.lines.append("def decode(buf, p, end, left):")
        self.emit_structure(cls, "m")
        self.flush()
        self.emit_line("return m, p")

    def flush(self) -> None:
        if not self.run:
            return
        if self.run[0][0] == "B" and len(self.run) == 1:
            self.emit_line(f"{self.run[0][1]} = buf[p]; p += 1")
            self.run.clear()
            return
        formats = "".join(fmt for fmt, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        comma = "," if len(self.run) == 1 else ""
        self.emit_line(f"{targets}{comma} = {self.bind_struct(formats, 'unpack_from')}(buf, p)")
        self.emit_line(f"p += {struct.calcsize('>' + formats)}")
        self.run.clear()

    def emit_structure(self, cls: type[Any], target: str) -> None:
        """Emit code that reads a structure into a variable."""
        bound, fields = self.bind("C", cls), fields_of(cls)
        if cls.__dataclass_params__.frozen:
            values = {field.name: self.new_name("v") for field in fields}
        else:
            values = {field.name: f"{target}.{field.name}" for field in fields}
            self.emit_line(f"{target} = new({bound})")
        for field in fields:
            if self.is_ordinary(field):
                self.emit_field(field, values[field.name])
            else:
                self.emit_line(f"{values[field.name]} = {self.format_default(field)}")
        if self.flexible:
            self.emit_tagged_section(cls, values)
        if cls.__dataclass_params__.frozen:
            self.flush()
            arguments = ", ".join(f"{name}={value}" for name, value in values.items())
            self.emit_line(f"{target} = {bound}({arguments})")

    def format_default(self, field: Field) -> str:
        """Return an expression for a field's default. It creates a new list or structure each time it is evaluated."""
        value = field.default()
        if value is None or isinstance(value, _LITERALS):
            return repr(value)
        return f"{self.bind('default', field.default)}()"

    def emit_field(self, field: Field, target: str) -> None:
        kind = field.kind
        null = self.version in field.nullable
        if field.is_array:
            self.emit_array(field, target, null=null)
        elif not isinstance(kind, p.WireType):
            self.emit_nested(field, kind, target, null=null)
        elif kind.fmt:
            self.emit_fixed(kind.fmt, target)
        else:
            self.emit_sized(field.name, kind, target, null=null)

    def emit_nested(self, field: Field, cls: type[Any], target: str, *, null: bool) -> None:
        """Emit code that reads a nested structure.

        A nullable structure starts with an int8: -1 is null and 1 is present. In a tagged field, 0 is null.
        """
        if null:
            flag = self.new_name("n")
            self.emit_fixed("b", flag)
            self.flush()
            self.emit_line(f"{target} = None")
            with self.block(f"if {flag} {'>' if self.is_tagged(field) else '>='} 0:"):
                self.emit_nested(field, cls, target, null=False)
                self.flush()
            return
        name = target if target.isidentifier() else self.new_name("s")
        self.emit_structure(cls, name)
        if name != target:
            self.emit_line(f"{target} = {name}")

    def emit_length(self, prefix: str) -> str:
        """Emit code that reads a length or a count, with -1 for null. Flexible versions encode the value plus one."""
        length = self.new_name("n")
        self.emit_fixed("B" if self.flexible else prefix, length)
        self.flush()
        if self.flexible:
            two = f"({length} - 128 + (buf[p] << 7), p + 1) if buf[p] < 128"
            self.emit_line(f"if {length} > 127: {length}, p = {two} else read_uvarint(buf, p - 1)")
        return length

    def emit_sized(self, name: str, kind: p.WireType, target: str, *, null: bool) -> None:
        length = self.emit_length(kind.prefix)
        if self.flexible:
            self.emit_line(f"{length} -= 1")
        self.emit_line(f"q = p + {length}")
        fits = "p <= q <= end"
        if kind is p.STRING and self.flexible:
            # The compact form allows longer strings, but Kafka limits them to the maximum of the plain form.
            fits += f" and {length} <= {p.MAX_STRING_BYTES}"
        value = "str(buf[p:q], 'utf-8')" if kind is p.STRING else "buf[p:q]"
        self.emit_line(f"if {fits}: {target} = {value}; p = q")
        if null:
            self.emit_line(f"elif {length} == -1: {target} = None")
        self.emit_line(f"else: raise DecodeError(f'{name}: length {{{length}}} with {{end - p}} bytes left')")

    def emit_array(self, field: Field, target: str, *, null: bool) -> None:
        count, values, element = self.emit_length("i"), self.new_name("a"), self.new_name("e")
        if self.flexible:
            self.emit_line(f"{count} -= 1")
        # Every element takes at least one byte, so a count above the number of remaining bytes is invalid.
        self.emit_line(f"if 0 <= {count} <= end - p: {target} = {values} = []")
        if null:
            self.emit_line(f"elif {count} == -1: {target} = None; {count} = 0")
        self.emit_line(f"else: raise DecodeError(f'{field.name}: count {{{count}}} with {{end - p}} bytes left')")
        self.emit_line(f"left -= {count}")
        self.emit_line(f"if left < 0: raise TooManyElementsError(f'{field.name}: {{{count}}} elements are too many')")
        kind = field.kind
        if isinstance(kind, p.WireType) and kind.fmt and kind.fmt != "16s":
            width = struct.calcsize(">" + kind.fmt)
            unpack = self.bind("unpack", struct.unpack_from)
            with self.block(f"if {count}:"):
                too_large = f"raise DecodeError(f'{field.name}: count {{{count}}} too large')"
                self.emit_line(f"if {count} * {width} > end - p: {too_large}")
                self.emit_line(f"{target} = list({unpack}(f'>{{{count}}}{kind.fmt}', buf, p))")
                self.emit_line(f"p += {count} * {width}")
            return
        with self.block(f"for {self.new_name('i')} in range({count}):"):
            self.emit_field(field._replace(is_array=False, nullable=NEVER), element)
            self.flush()
            self.emit_line(f"{values}.append({element})")

    def emit_tagged_section(self, cls: type[Any], values: dict[str, str]) -> None:
        declared = [field for field in fields_of(cls) if self.is_tagged(field)]
        count = self.new_name("t")
        self.emit_fixed("B", count)
        self.flush()
        if not declared:
            self.emit_line(f"if {count}: p = skip_tagged_fields(buf, p - 1)")
            return
        tag, size, after = (self.new_name("t") for _ in range(3))
        with self.block(f"if {count}:"):
            self.emit_line(f"if {count} > {p.MAX_TAGGED_FIELDS}: raise DecodeError(too_many_tagged_fields(buf, p - 1))")
            with self.block(f"for {self.new_name('i')} in range({count}):"):
                self.emit_line(f"{tag}, p = read_uvarint(buf, p)")
                self.emit_line(f"{size}, p = read_uvarint(buf, p)")
                self.emit_line(f"{after} = p + {size}")
                problem = f"f'tag {{{tag}}}: size {{{size}}} with {{end - p}} bytes left'"
                self.emit_line(f"if {after} > end: raise DecodeError({problem})")
                for field in declared:
                    with self.block(f"if {tag} == {field.tag}:"):
                        self.emit_field(field, values[field.name])
                        self.flush()
                        problem = f"'tag {field.name}: its size is not what its content takes'"
                        self.emit_line(f"if p != {after}: raise DecodeError({problem})")
                self.emit_line(f"p = {after}")


class _Encoder(_Generator):
    def __init__(self, cls: type[Any], version: int, *, flexible_header: bool | None = None) -> None:
        super().__init__(cls, version)
        self.is_framed = flexible_header is not None
        self.names.update(EncodeError=EncodeError, write_uvarint=p.write_uvarint)
        self.lines.append(f"def encode(m, {'correlation_id, ' if self.is_framed else ''}out, splices):")
        if self.is_framed:
            self.emit_line("start = len(out); spliced = 0")
            self.emit_fixed("i", "0")
            self.emit_fixed("i", "correlation_id")
        if flexible_header:
            self.emit_fixed("x", "")
        self.emit_message(cls)
        self.flush()
        if self.is_framed:
            self.emit_line(f"{self.bind_struct('i', 'pack_into')}(out, start, len(out) - start - 4 + spliced)")
        self.emit_line("return")

    def emit_message(self, cls: type[Any]) -> None:
        self.emit_structure(cls, "m")

    def flush(self) -> None:
        if not self.run:
            return
        self.emit_line(self.format_append())
        self.run.clear()

    def format_append(self, *more: tuple[str, str]) -> str:
        """Return a statement that appends the values of the current run and the values in `more`."""
        run = (*self.run, *more)
        if {fmt for fmt, _ in run} == {"x"}:
            return f"out += {bytes(len(run))!r}"
        formats = "".join(fmt for fmt, _ in run)
        return f"out += {self.bind_struct(formats, 'pack')}({', '.join(value for fmt, value in run if fmt != 'x')})"

    def emit_structure(self, cls: type[Any], owner: str) -> None:
        for field in fields_of(cls):
            if self.is_ordinary(field):
                self.emit_field(field, f"{owner}.{field.name}")
        if self.flexible:
            self.emit_tagged_section(cls, owner)

    def emit_field(self, field: Field, expression: str) -> None:
        kind = field.kind
        null = self.version in field.nullable
        if field.is_array:
            self.emit_array(field, expression, null=null)
        elif not isinstance(kind, p.WireType):
            self.emit_nested(kind, expression, null=(0 if self.is_tagged(field) else _NULL_STRUCTURE) if null else None)
        elif kind.fmt:
            self.emit_fixed(kind.fmt, expression)
        else:
            self.emit_sized(field.name, kind, expression, null=null)

    def emit_nested(self, cls: type[Any], expression: str, *, null: int | None) -> None:
        owner = expression
        if not owner.isidentifier():
            owner = self.new_name("s")
            self.emit_line(f"{owner} = {expression}")
        if null is None:
            self.emit_structure(cls, owner)
            return
        self.flush()
        self.emit_line(f"if {owner} is None: out.append({null})")
        with self.block("else:"):
            self.emit_line("out.append(1)")
            self.emit_structure(cls, owner)
            self.flush()

    def emit_length(self, prefix: str, expression: str) -> None:
        """Emit code that writes a length or count that is not null."""
        if self.flexible:
            short = self.format_append(("B", f"{expression} + 1")) if self.run else f"out.append({expression} + 1)"
            self.emit_line(f"if {expression} < 127: {short}")
            self.emit_line(
                f"else: {self.format_append() + '; ' if self.run else ''}write_uvarint(out, {expression} + 1)"
            )
            self.run.clear()
        else:
            self.emit_fixed(prefix, expression)

    def emit_null_branch(self, name: str, value: str, prefix: str, *, null: bool) -> None:
        """Emit a branch that writes null for None, or raises EncodeError, and open a branch for any other value."""
        self.flush()
        action = f"raise EncodeError('{name} must not be null')"
        if null:
            action = "out.append(0)" if self.flexible else f"out += {_NULL_LENGTH[prefix]!r}"
        self.emit_line(f"if {value} is None: {action}")
        self.emit_line("else:")
        self.depth += 1

    def emit_sized(self, name: str, kind: p.WireType, expression: str, *, null: bool) -> None:
        value = self.new_name("v")
        self.emit_line(f"{value} = {expression}")
        # A string field that is not nullable needs no check, because .encode() fails for None anyway.
        guarded = null or kind is not p.STRING
        if guarded:
            self.emit_null_branch(name, value, kind.prefix, null=null)
        if kind is p.STRING:
            self.emit_line(f"{value} = {value}.encode()")
            if name in _TRUNCATED_FIELDS:
                shortened = self.bind("shortened", p.shorten_text)
                self.emit_line(f"if len({value}) > {p.MAX_STRING_BYTES}: {value} = {shortened}({value})")
        if kind is p.RECORDS:
            self.emit_records(value, kind)
        else:
            length = self.new_name("n")
            self.emit_line(f"{length} = len({value})")
            self.emit_length(kind.prefix, length)
            self.flush()
            self.emit_line(f"out += {value}")
        if guarded:
            self.depth -= 1

    def emit_records(self, value: str, kind: p.WireType) -> None:
        length = self.new_name("n")
        in_memory = self.bind("in_memory", (bytes, bytearray, memoryview))
        self.emit_line(f"{length} = len({value}) if isinstance({value}, {in_memory}) else {value}.size")
        self.emit_length(kind.prefix, length)
        self.flush()
        self.emit_line(f"if isinstance({value}, {in_memory}): out += {value}")
        counted = f"; spliced += {length}" if self.is_framed else ""
        self.emit_line(f"elif {length}: splices.append((len(out), {value})){counted}")

    def emit_array(self, field: Field, expression: str, *, null: bool) -> None:
        values, count, element = self.new_name("a"), self.new_name("n"), self.new_name("e")
        self.emit_line(f"{values} = {expression}")
        if null:
            self.emit_null_branch(field.name, values, "i", null=null)
        self.emit_line(f"{count} = len({values})")
        self.emit_length("i", count)
        self.flush()
        with self.block(f"for {element} in {values}:"):
            self.emit_field(field._replace(is_array=False, nullable=NEVER), element)
            self.flush()
        if null:
            self.depth -= 1

    def emit_tagged_section(self, cls: type[Any], owner: str) -> None:
        tagged = sorted((field for field in fields_of(cls) if self.is_tagged(field)), key=lambda field: field.tag)
        if not tagged:
            self.emit_fixed("x", "")
            return
        self.flush()
        # Tagged fields are encoded separately, because the size of each field precedes it. Most messages have only
        # default values in their tagged fields, so check for that first.
        values = [(field, f"{owner}.{field.name}", self.bind("default", field.default())) for field in tagged]
        absent = " and ".join(f"({value} is {default} or {value} == {default})" for _, value, default in values)
        self.emit_line(f"if {absent}: out.append(0)")
        parts, outer = self.new_name("t"), self.new_name("o")
        with self.block("else:"):
            self.emit_line(f"{parts} = []")
            self.emit_line(f"{outer} = out")
            for field, value, default in values:
                with self.block(f"if {value} is not {default} and {value} != {default}:"):
                    self.emit_line("out = bytearray()")
                    self.emit_field(field, value)
                    self.flush()
                    self.emit_line(f"{parts}.append(({field.tag}, out))")
            self.emit_line(f"out = {outer}")
            self.emit_line(f"write_uvarint(out, len({parts}))")
            tag, content = self.new_name("k"), self.new_name("c")
            with self.block(f"for {tag}, {content} in {parts}:"):
                self.emit_line(f"write_uvarint(out, {tag}); write_uvarint(out, len({content})); out += {content}")


class _PlainDecoder(_Decoder):
    """Generates a decoder that returns the values of a plain-shape message, or None for any other message."""

    def __init__(self, cls: type[Any], version: int) -> None:
        super().__init__(cls, version)
        self.lines = ["def decode(buf, p, end):"]
        self.values: list[str] = []
        self.emit_plain(cls)
        self.emit_line(f"return {', '.join(self.values)}")

    def emit_plain(self, cls: type[Any]) -> None:
        for field in plain_fields(cls):
            kind = field.kind
            if field.is_array and self.is_ordinary(field):
                count = self.emit_length("i")
                self.emit_line(f"if {count} != {int(field.required) + int(self.flexible)}: return None")
            if field.is_array:
                if field.required:
                    assert not isinstance(kind, p.WireType)
                    self.emit_plain(kind)
            elif self.is_ordinary(field):
                self.values.append(self.new_name("v"))
                self.emit_field(field, self.values[-1])
            else:
                self.values.append(self.format_default(field))
        if self.flexible:
            count = self.new_name("t")
            self.emit_fixed("B", count)
            self.flush()
            self.emit_line(f"if {count}: return None")
        self.flush()


class _PlainEncoder(_Encoder):
    """Generates an encoder that builds a plain-shape response from its values."""

    def emit_message(self, cls: type[Any]) -> None:
        self.values: list[str] = []
        unpacked = len(self.lines)
        self.emit_plain(cls)
        self.lines.insert(unpacked, f"    {', '.join(self.values)}, = m")

    def emit_plain(self, cls: type[Any]) -> None:
        for field in plain_fields(cls):
            kind = field.kind
            if field.is_array or (not field.required and kind is p.STRING and field.default() is None):
                if self.is_ordinary(field):
                    length = int(field.required) if field.required or field.default() is not None else -1
                    prefix = "i" if field.is_array else "h"
                    self.emit_fixed("B" if self.flexible else prefix, str(length + int(self.flexible)))
                if field.required:
                    assert not isinstance(kind, p.WireType)
                    self.emit_plain(kind)
                continue
            self.values.append(self.new_name("v"))
            if self.is_ordinary(field):
                self.emit_field(field, self.values[-1])
        if self.flexible:
            self.emit_fixed("x", "")
