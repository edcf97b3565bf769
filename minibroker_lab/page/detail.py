"""One exchange as JSON: its row, and the bytes and fields of its request and response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.server.inspection.exchanges import Kind
from minibroker.server.inspection.journal import Entry
from minibroker.server.inspection.message_json import SECRETS, is_password
from minibroker_lab.page.follow.sightings import record_sets
from minibroker_lab.page.rows import fault_text
from minibroker_lab.reading import has_secrets
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.fields.batches import record_set_tree
from minibroker_protocol.fields.coordinators import open_records
from minibroker_protocol.fields.frames import (
    request_fields,
    request_in_version,
    request_versions,
    response_fields,
    response_in_version,
)
from minibroker_protocol.fields.meanings import meanings_json, tree_json
from minibroker_protocol.fields.tree import ERROR, NOT_OPENED, UNKNOWN, Limits, Node
from minibroker_protocol.internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.page.rows import Rows
    from minibroker_lab.page.schemas import PageSchemas

_LIMITS: Final = Limits(fields=10_000, record_fields=10_000)
_UNREAD: Final = frozenset({ERROR, NOT_OPENED, UNKNOWN})
_MAX_TEXT: Final = 400


def exchange_json(rows: Rows, exchange: Exchange, schemas: PageSchemas | None) -> dict[str, Any]:
    """Return an exchange as JSON, with its bytes and their fields. Keys and values are decoded if there are schemas."""
    content = rows.row(exchange)._asdict()
    sets = record_sets(exchange, rows.topics) if exchange.kind is Kind.REQUEST else []
    if any(record_set["topic"] in INTERNAL_TOPICS for record_set in sets):
        schemas = None  # Coordinators' records may begin as schema ids do.
    frame, size = exchange.request_frame, exchange.bytes_in
    content["request"] = _part_json(exchange, "request", exchange.version, frame, size, schemas)
    versions = request_versions(exchange.api_key) if exchange.kind is Kind.REQUEST else range(0)
    content["versions"] = list(versions)
    fault = rows.fault_of(exchange)
    content["fault"] = None if fault is None else fault_text(fault)
    content["chaos"] = str(exchange.chaos) if isinstance(exchange, Entry) and exchange.chaos is not None else None
    content["records"] = sets
    content["response"] = None
    content["replaced"] = exchange.replaced or {}
    if size := exchange.bytes_out:
        frame = exchange.response_frame
        content["response"] = _part_json(exchange, "response", exchange.version, frame, size, schemas)
    return content


def _part_json(
    exchange: Exchange, name: str, version: int, data: bytes | bytearray, size: int, schemas: PageSchemas | None = None
) -> dict[str, Any]:
    frame, is_request = bytearray(data), name == "request"
    tree = request_fields(frame, _LIMITS) if is_request else response_fields(exchange.api_key, version, frame, _LIMITS)
    facts: dict[str, Any] = {"size": size, "kept": len(frame)}
    # An envelope contains another request, which may contain secrets.
    if exchange.kind is Kind.TOKEN or exchange.api_key == ApiKey.ENVELOPE:
        return facts | {"hidden": True}
    if has_secrets(exchange.api_key):
        # A part that was not decoded can contain a secret anywhere, so hide everything.
        if any(node.type in _UNREAD for node in tree.all_nodes()):
            return facts | {"hidden": True}
        facts["masked"] = mask_secrets(tree, frame)
    if schemas is not None:
        schemas.add_values(tree)
    return facts | {"hex": frame.hex(), **_tree_json(tree)}


def version_json(exchange: Exchange, version: int) -> dict[str, Any]:
    """Return a request and its response translated to another version.

    `parts` has the translations of "request" and "response". Each names the values that were lost, or gives the reason
    why the version cannot express the message.
    """
    translations = {"request": request_in_version(exchange.request_frame, version)}
    if exchange.bytes_out:
        original = exchange.api_key, exchange.version, exchange.response_frame
        translations["response"] = response_in_version(*original, version)
    parts: dict[str, Any] = {}
    for name, translation in translations.items():
        parts[name] = {"reason": translation.reason}
        if (frame := translation.frame) is not None:
            parts[name] = _part_json(exchange, name, version, frame, len(frame)) | {"lost": list(translation.lost)}
    return {"version": version, "parts": parts}


def record_set_json(data: bytes, topic: str, schemas: PageSchemas) -> dict[str, Any]:
    """Return the bytes of stored batches and their fields. Keys and values of records are decoded."""
    tree = record_set_tree(memoryview(data), _LIMITS)
    if topic in INTERNAL_TOPICS:
        open_records(tree, memoryview(data), topic, _LIMITS)
    else:
        schemas.add_values(tree)
    return {"hex": data.hex(), **_tree_json(tree)}


def _tree_json(tree: Node) -> dict[str, Any]:
    return {"tree": tree_json(tree, max_value_bytes=_MAX_TEXT), "meanings": meanings_json(tree)}


def mask_secrets(tree: Node, frame: bytearray) -> bool:
    """Mask secrets: set their bytes in the frame to zero and clear their values in the tree.

    Return whether there were any secrets.
    """
    is_masked = False
    for node in tree.all_nodes():
        for child in node.children or ():
            if child.name in SECRETS or (child.name == "value" and is_password(_child_text(node, "name"))):
                frame[child.start : child.end] = bytes(child.end - child.start)
                child.children, child.note = None, "masked"
                child.value = None if child.value is None else ""
                is_masked = True
    return is_masked


def _child_text(node: Node, name: str) -> str:
    return next((str(child.value or "") for child in node.children or () if child.name == name), "")
