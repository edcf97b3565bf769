"""The meaning of each field in one sentence, with the KIP that explains or introduced the field.

Each line of `meanings.tsv` contains a field name, an optional KIP number, and the sentence. `meaning_of` first
looks up the place of a declaration ("fetch.FetchRequest.max_bytes"), then its class and name, and then the name alone:
many names have the same meaning in all messages. A name in parentheses stands for undeclared bytes.

Each line of `kips.tsv` contains an API and the KIPs of its versions. The KIP that introduced a field is the KIP of the
first version with that field. The table is based on the comments in Kafka's message definitions and on the KIPs.
Version 0 of the oldest APIs is older than KIPs, so its fields have none. A few fields came with a
version that has no KIP (`retention_time_ms` in OffsetCommit 2). A KIP in `meanings.tsv` takes precedence, because it
explains the field better. Examples are throttle times, topic ids and leader epochs.

`tree_json` converts trees to JSON. A node is `{"name", "type", "start", "end"}`, plus the keys below that apply:

- `value`: numbers beyond 2**53 are strings, because JavaScript cannot represent them. UUIDs are 22 characters. Bytes
  are a string if they are printable, or else `{"base64": ...}`. Text and bytes are truncated after `max_value_bytes`
  bytes, and `cut` is then their full size. A null field has no `value`, and its note is "null".
- `note`: a remark on the value. `fault`: a sentence about an error.
- `about`: the key of the field's meaning.
- `children`: consecutive nodes that cover all bytes of this node.
- `inside`: `{"size", "base64", "cut", "children"}`, the decompressed content of compressed bytes. Positions count from
  the first decompressed byte. `base64` has at most the first `max_inside_bytes` decompressed bytes.
"""

import base64
import math
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from minibroker_protocol import primitives as p
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.fields.tree import Node
from minibroker_protocol.json_values import bytes_json, camel_case, number_json
from minibroker_protocol.messages import MODULES, messages_of
from minibroker_protocol.primitives import uuid_text
from minibroker_protocol.schema import fields_of

_PLACE: Final = 3
"""The number of parts in a field's place: module, class, name."""
KIP_OF_MODULE: Final[Mapping[str, int]] = {
    "consumer_groups": 848,
    "current_leader": 951,
    "share_groups": 932,
    "streams_groups": 1071,
    "transaction_log": 98,
}
"""The KIPs of structures that several APIs share, and of coordinator records, by module."""


class Meaning(NamedTuple):
    """The meaning of a field: a sentence, and the number of a KIP or None."""

    text: str
    kip: int | None


def _read_rows(file: str) -> list[list[str]]:
    return [line.split("\t") for line in Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()]


MEANINGS: Final = {name: Meaning(text, int(kip) if kip else None) for name, kip, text in _read_rows("meanings.tsv")}
KIPS: Final = {
    api: {int(version): int(kip) for version, kip in (pair.split(":") for pair in kips.split(" "))}
    for api, kips in _read_rows("kips.tsv")
}
"""The KIPs that introduced fields, by API and version."""


@cache
def meaning_of(about: str) -> Meaning | None:
    """Return the meaning of a field, or None if it is not known.

    Args:
        about: a `Node.about`, or a name in parentheses.
    """
    parts = about.split(".")
    for begin in range(len(parts)):
        meaning = MEANINGS.get(".".join(parts[begin:]))
        if meaning is not None:
            return meaning if meaning.kip is not None or len(parts) != _PLACE else meaning._replace(kip=_kip_of(about))
    return None


def meanings_json(root: Node) -> dict[str, dict[str, Any]]:
    """Return the meanings of all fields in a tree as `{"text", "kip"}`.

    The keys are the fields' `about` values, or names in parentheses.
    """
    keys = {node.about or node.name for node in root.all_nodes()}
    return {key: meaning._asdict() for key in sorted(keys) if (meaning := meaning_of(key)) is not None}


def _kip_of(place: str) -> int | None:
    """Return the number of the KIP that introduced a field, or None if no KIP did.

    `place` has the form "fetch.FetchRequest.max_bytes".
    """
    module = place.partition(".")[0]
    for key, name in MODULES.items():
        api = key.name.lower()
        if name == module and place in (versions := first_versions(api)):
            return KIPS[api].get(versions[place])
    return KIP_OF_MODULE.get(module)


@cache
def first_versions(api: str) -> Mapping[str, int]:
    """Return the first version of each field in an API's messages. The keys are the places of the fields."""
    messages = messages_of(ApiKey[api.upper()])
    versions: dict[str, int] = {}
    for cls in (messages.request, messages.response):
        _collect_first_versions(cls, 0, versions)
    return versions


def _collect_first_versions(cls: type[Any], min_version: int, versions: dict[str, int]) -> None:
    for field in fields_of(cls):
        place = f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}.{field.name}"
        first = max(min_version, field.present.first)
        versions[place] = min(first, versions.get(place, first))
        if not isinstance(field.kind, p.WireType):
            _collect_first_versions(field.kind, first, versions)


MAX_VALUE_BYTES: Final = 1024
MAX_INSIDE_BYTES: Final = 1 << 16


def tree_json(
    root: Node, *, max_value_bytes: int = MAX_VALUE_BYTES, max_inside_bytes: int = MAX_INSIDE_BYTES
) -> dict[str, Any]:
    """Return a tree as a JSON object for `json.dumps`."""
    convert = partial(tree_json, max_value_bytes=max_value_bytes, max_inside_bytes=max_inside_bytes)
    root_json = _node_json(root, max_value_bytes, max_inside_bytes)
    if root.children is not None:
        root_json["children"] = [convert(child) for child in root.children]
    if root.inside is not None:
        root_json["inside"]["children"] = [convert(child) for child in root.inside.children]
    return root_json


def _node_json(node: Node, max_value_bytes: int, max_inside_bytes: int) -> dict[str, Any]:
    node_json: dict[str, Any] = {
        "name": node.name if node.name.startswith(("(", "[")) else camel_case(node.name),
        "type": node.type,
        "start": node.start,
        "end": node.end,
    }
    if node.value is not None:
        _add_value(node_json, node, max_value_bytes)
    node_json |= {name: text for name in ("note", "fault", "about") if (text := getattr(node, name))}
    if node.inside is not None:
        data = node.inside.data
        node_json["inside"] = {"size": len(data), "base64": base64.b64encode(data[:max_inside_bytes]).decode()}
        if len(data) > max_inside_bytes:
            node_json["inside"]["cut"] = len(data)
    return node_json


def _add_value(node_json: dict[str, Any], node: Node, max_value_bytes: int) -> None:
    value = node.value
    if isinstance(value, str):
        encoded = value.encode(errors="surrogatepass")
        if len(encoded) > max_value_bytes:
            node_json["cut"] = len(encoded)
            value = encoded[:max_value_bytes].decode(errors="ignore")
    elif node.type == "UUID":
        value = uuid_text(value)
    elif isinstance(value, memoryview):
        view = cast("memoryview", value)
        size = view.nbytes
        if size > max_value_bytes:
            node_json["cut"] = size
        value = _truncated_bytes_json(bytes(view[:max_value_bytes]), is_truncated=size > max_value_bytes)
    elif isinstance(value, float):
        value = value if math.isfinite(value) else str(value)
    elif not isinstance(value, bool):
        value = number_json(value)
    node_json["value"] = value


def _truncated_bytes_json(data: bytes, *, is_truncated: bool) -> str | dict[str, str]:
    """Return the start of a value as JSON, without a character that is truncated at its end."""
    if is_truncated:
        text = data.decode(errors="ignore").encode()
        if len(text) > len(data) - 4 and data.startswith(text):
            data = text
    return bytes_json(data)
