"""Helpers for tests of field trees: the values of a tree, and a check that it covers all bytes."""

from typing import Any

from minibroker_protocol import primitives as p
from minibroker_protocol.fields.tree import NOT_OPENED, Node
from minibroker_protocol.schema import fields_of


def check_leaves(root: Node, size: int) -> None:
    """Check that each byte is in exactly one leaf, and that each node has the bytes of its children."""
    at = 0
    for leaf in root.leaves():
        assert leaf.start == at, leaf
        assert leaf.end >= at, leaf
        at = leaf.end
    assert at == size
    check_ranges(root)


def check_ranges(node: Node) -> None:
    if node.children is not None:
        assert (node.start, node.end) == (node.children[0].start, node.children[-1].end), node
        for child in node.children:
            check_ranges(child)
    if node.inside is not None:
        inner = Node("inside", "STRUCT", 0, len(node.inside.data))
        for child in node.inside.children:
            inner.add(child)
        check_leaves(inner, len(node.inside.data))


def plain(message: Any, version: int, *, flexible: bool) -> Any:
    """Return a decoded message in the form of `values`, without tagged fields that have their default."""
    found: dict[str, Any] = {}
    for field in fields_of(type(message)):
        is_tagged = flexible and version in field.tagged_in
        value = getattr(message, field.name)
        if version not in field.present or (is_tagged and value == field.default()):
            continue
        found[field.name] = _plain_value(field.kind, value, version, flexible=flexible)
    return found


def _plain_value(kind: Any, value: Any, version: int, *, flexible: bool) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_plain_value(kind, each, version, flexible=flexible) for each in value]
    if not isinstance(kind, p.WireType):
        return plain(value, version, flexible=flexible)
    if kind is p.RECORDS:
        return len(value)
    return bytes(value) if isinstance(value, memoryview) else value


def values(node: Node) -> Any:
    """Return the values of a tree of a message's body."""
    if node.note == "null" and node.value is None:
        return None
    children = [child for child in node.children or () if child.name[0] != "("]
    if node.type == "STRUCT":
        found: dict[str, Any] = {}
        for child in children:
            if child.type != "TAGGED_FIELDS":
                found[child.name] = values(child)
                continue
            for tagged in child.children or ():
                if tagged.type == "TAGGED_FIELD" and not tagged.name.startswith("tag "):
                    found[tagged.name] = values(tagged.find(tagged.name))
        return found
    if node.type.endswith("ARRAY"):
        return [values(child) for child in children]
    if node.type.endswith("RECORDS"):
        return node.end - node.start - (node.children[0].end - node.children[0].start if node.children else 0)
    return bytes(node.value) if isinstance(node.value, memoryview) else node.value


def is_complete(root: Node) -> bool:
    """Return whether the tree has a node for each field."""
    return not any(node.type in {"ERROR", "UNKNOWN", NOT_OPENED} for node in root.leaves())
