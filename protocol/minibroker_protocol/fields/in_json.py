"""Trees of fields as JSON, for a page or another program.

A node is `{"name", "type", "start", "end"}`, and of these what it has:

- `value`: numbers beyond 2**53 are texts, since JavaScript has none so large; UUIDs are 22 characters; bytes are a text
  when they are one that can be read, else `{"base64": ...}`. Text and bytes are cut after `most` bytes, and `cut` says
  how many there are. Null has no value, and the note "null".
- `note`: a remark on the value. `fault`: a sentence on what is wrong.
- `about`: the key of its meaning, see `meanings`.
- `children`: one behind the other, they have all bytes of the node.
- `inside`: `{"size", "base64", "cut", "children"}`, what compressed bytes decompress to; positions count from its first
  byte. Of its bytes the first `most_inside` are there.

Names are Kafka's: `topicId`. "[3]" is an element, and names in parentheses are bytes that no declaration names, such as
"(length)".
"""

import base64
import math
from typing import Any, Final, cast

from minibroker_protocol.fields.tree import Node
from minibroker_protocol.json_values import bytes_json, camel_case, number_json
from minibroker_protocol.uuids import uuid_text

MOST: Final = 1024
MOST_INSIDE: Final = 1 << 16


def tree_json(root: Node, *, most: int = MOST, most_inside: int = MOST_INSIDE) -> dict[str, Any]:
    """A tree as `json.dumps` takes it."""
    made = _node_json(root, most, most_inside)
    waiting = [(root, made)]
    while waiting:
        node, shown = waiting.pop()
        for children, holder in (
            (node.children, shown),
            (node.inside.children if node.inside else None, shown.get("inside", {})),
        ):
            if children is None:
                continue
            listed: list[dict[str, Any]] = []
            holder["children"] = listed
            for child in children:
                child_shown = _node_json(child, most, most_inside)
                listed.append(child_shown)
                if child.children is not None or child.inside is not None:
                    waiting.append((child, child_shown))
    return made


def _node_json(node: Node, most: int, most_inside: int) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": node.name if node.name.startswith(("(", "[")) else camel_case(node.name),
        "type": node.type,
        "start": node.start,
        "end": node.end,
    }
    if node.value is not None:
        _add_value(shown, node, most)
    for name in ("note", "fault", "about"):
        text = getattr(node, name)
        if text:
            shown[name] = text
    if node.inside is not None:
        data = node.inside.data
        shown["inside"] = {"size": len(data), "base64": base64.b64encode(data[:most_inside]).decode()}
        if len(data) > most_inside:
            shown["inside"]["cut"] = len(data)
    return shown


def _add_value(shown: dict[str, Any], node: Node, most: int) -> None:
    value = node.value
    if isinstance(value, str):
        encoded = value.encode(errors="surrogatepass")
        if len(encoded) > most:
            shown["cut"] = len(encoded)
            value = encoded[:most].decode(errors="ignore")
    elif node.type == "UUID":
        value = uuid_text(value)
    elif isinstance(value, memoryview):
        view = cast("memoryview", value)
        size = view.nbytes
        if size > most:
            shown["cut"] = size
        value = _beginning(bytes(view[:most]), is_cut=size > most)
    elif isinstance(value, float):
        value = value if math.isfinite(value) else str(value)
    elif not isinstance(value, bool):
        value = number_json(value)
    shown["value"] = value


def _beginning(data: bytes, *, is_cut: bool) -> str | dict[str, str]:
    """Bytes of which the last ones may be half a character."""
    if is_cut:
        text = data.decode(errors="ignore").encode()
        if len(text) > len(data) - 4 and data.startswith(text):
            data = text
    return bytes_json(data)
