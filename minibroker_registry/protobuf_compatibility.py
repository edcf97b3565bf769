"""Whether one Protobuf schema can read what another one has written, by the rules of Confluent's registry.

Messages are compared by name and fields by number; groups are not compared. Differences that Confluent's registry
accepts are not noted. A text has the place of the reader's role, `%s`, and then that of the writer's.
"""

from typing import Final

from minibroker_registry.protobuf_elements import Element, join_name, map_types
from minibroker_registry.protobuf_names import SCALARS, Names, Type

_INTEGER: Final = "varint"
_SCALAR_KINDS: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), _INTEGER),
    **dict.fromkeys(("sint32", "sint64"), "zigzag"),
    **dict.fromkeys(("string", "bytes"), "string"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}


_PROBLEMS: Final = {
    "PACKAGE_CHANGED": "The package of the %s schema, {0}, is not that of the %s schema",
    "MESSAGE_REMOVED": "The %s schema lacks the message at {0} of the %s schema",
    "FIELD_KIND_CHANGED": "The type of the field at {0} of the %s schema is of another kind in the %s schema",
    "FIELD_SCALAR_KIND_CHANGED": "The scalar field at {0} of the %s schema is written otherwise in the %s schema",
    "FIELD_NAMED_TYPE_CHANGED": "The message type of the field at {0} of the %s schema is not that of the %s schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The numeric field at {0} of the %s schema has another label in the %s schema",
    "REQUIRED_FIELD_ADDED": "The required field at {0} of the %s schema is missing in the %s schema",
    "REQUIRED_FIELD_REMOVED": "The %s schema lacks the required field at {0} of the %s schema",
    "ONEOF_FIELD_REMOVED": "The %s schema lacks the field of a oneof at {0} of the %s schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Fields of the oneof at {0} of the %s schema are in no oneof in the %s schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field of the oneof at {0} of the %s schema is not in it in the %s schema",
}


def find_incompatibilities(writer: Names, reader: Names) -> list[str]:
    """Return why a reader's schema cannot read what a writer's schema has written, one text for each reason."""
    comparison = _Comparison(writer, reader)
    if writer.own.name != reader.own.name:
        comparison.add("PACKAGE_CHANGED", "")
    comparison.types(writer.own, reader.own, "")
    comparison.imported()
    return comparison.differences


class _Comparison:
    """The state of one comparison. The argument `path` is the name of the message without its package."""

    def __init__(self, writer: Names, reader: Names) -> None:
        self.writer = writer
        self.reader = reader
        self.packages = writer.own.name, reader.own.name
        self.differences: list[str] = []
        self.pairs: dict[tuple[str, str], tuple[Type, Type]] = {}
        """Messages that fields of both schemas have as their types, unless both schemas define them themselves."""

    def add(self, kind: str, path: str) -> None:
        """Note a difference."""
        problem = _PROBLEMS[kind].format(f"'#/{path.replace('.', '/')}'")
        self.differences.append(f'{{errorType:"{kind}", description:"{problem}"}}')

    def types(self, writer: Element, reader: Element, path: str) -> None:
        """Compare the messages in a file or a message."""
        messages = {message.name: message for message in reader.only("message")}
        for old in writer.only("message"):
            new = messages.get(old.name)
            inner = join_name(path, old.name)
            if new is not None:
                self.message(old, new, inner)
            elif old.map_entry() is None:
                self.add("MESSAGE_REMOVED", inner)

    def message(self, writer: Element, reader: Element, path: str) -> None:
        """Compare two messages of one name."""
        old_fields, old_one_ofs = _by_tag(writer)
        new_fields, new_one_ofs = _by_tag(reader)
        one_ofs = reader.only("oneof")
        for one_of in one_ofs:
            self.one_of(one_of, old_fields, old_one_ofs, path)
        remaining = {one_of.name for one_of in one_ofs} | {old_one_ofs.get(tag) for tag in new_fields}
        for tag in sorted(old_fields.keys() | new_fields.keys()):
            old, new = old_fields.get(tag), new_fields.get(tag)
            one_of_name = (old_one_ofs if new is None else new_one_ofs).get(tag)
            inner = f"{path}.{one_of_name}.{tag}" if one_of_name else f"{path}.{tag}"
            if old is not None and new is not None:
                self.field(old, new, path, inner)
            elif old is None:
                if new is not None and new.label == "required":
                    self.add("REQUIRED_FIELD_ADDED", inner)
            elif tag in old_one_ofs:
                if old_one_ofs[tag] in remaining:
                    self.add("ONEOF_FIELD_REMOVED", inner)
            elif old.label == "required":
                self.add("REQUIRED_FIELD_REMOVED", inner)
        self.types(writer, reader, path)

    def one_of(self, one_of: Element, old_fields: dict[int, Element], old_one_ofs: dict[int, str], path: str) -> None:
        """Check that fields in a oneof have not been independent of one another."""
        tags = [field.number for field in one_of.members if field.number in old_fields]
        origins = {old_one_ofs.get(tag, tag) for tag in tags}
        if len(origins) < 2:  # noqa: PLR2004 - more than one
            return
        if sum(tag not in old_one_ofs for tag in tags) > 1:
            self.add("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}.{one_of.name}")
        else:
            self.add("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}.{one_of.name}")

    def field(self, writer: Element, reader: Element, scope: str, path: str) -> None:
        """Compare two fields of one number."""
        if self.field_type(writer.type, reader.type, scope, path):
            labels = {writer.label, reader.label}
            kind = _SCALAR_KINDS.get(writer.type, _INTEGER)
            if len(labels) > 1 and "" not in labels and kind != "string":
                self.add("FIELD_NUMERIC_LABEL_CHANGED", path)

    def field_type(self, writer: str, reader: str, scope: str, path: str, *, in_map: bool = False) -> bool:
        """Compare the types of two fields, and return whether both are scalars of one kind."""
        old = None if writer in SCALARS else self.writer.find(writer, join_name(self.packages[0], scope))
        new = None if reader in SCALARS else self.reader.find(reader, join_name(self.packages[1], scope))
        old_map = None if in_map else (old.element.map_entry() if old else None) or map_types(writer)
        new_map = None if in_map else (new.element.map_entry() if new else None) or map_types(reader)
        old_kind, new_kind = _scalar_kind(writer, old), _scalar_kind(reader, new)
        if old_map and new_map:
            for old_part, new_part in zip(old_map, new_map, strict=True):
                self.field_type(old_part, new_part, scope, path, in_map=True)
        elif old_kind and new_kind:
            if old_kind == new_kind:
                return True
            self.add("FIELD_SCALAR_KIND_CHANGED", path)
        elif old_map or new_map or old_kind or new_kind:
            self.add("FIELD_KIND_CHANGED", path)
        elif old is None or new is None:
            if writer != reader:
                self.add("FIELD_NAMED_TYPE_CHANGED", path)
        elif old.local_name != new.local_name:
            self.add("FIELD_NAMED_TYPE_CHANGED", path)
        elif not (old.is_own and new.is_own):
            self.pairs.setdefault((old.name, new.name), (old, new))
        return False

    def imported(self) -> None:
        """Compare the imported messages that are used, and those that they use, once each."""
        done = 0
        while done < len(self.pairs):
            for old, new in list(self.pairs.values())[done:]:
                done += 1
                self.packages = old.package, new.package
                if old.element.kind == new.element.kind == "message":
                    self.message(old.element, new.element, old.local_name)


def _by_tag(message: Element) -> tuple[dict[int, Element], dict[int, str]]:
    """Return the fields of a message by number, and the names of the oneofs that have some of them."""
    fields = [(field, one_of) for field, one_of in message.fields() if field.kind == "field"]
    return {field.number: field for field, _ in fields}, {field.number: one_of for field, one_of in fields if one_of}


def _scalar_kind(written: str, found: Type | None) -> str | None:
    """Return how values of a type are written, or None for messages and maps."""
    if found is not None:
        return _INTEGER if found.element.kind == "enum" else None
    return _SCALAR_KINDS.get(written)
