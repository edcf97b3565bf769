"""Avro schemas for tests of the registry: each evolves the one before."""

import json
from collections.abc import Mapping
from typing import Any


def record(*fields: Mapping[str, Any], name: str = "Order", **properties: Any) -> str:
    """Return the text of a record as the registry stores it."""
    return json.dumps({"type": "record", "name": name, **properties, "fields": list(fields)}, separators=(",", ":"))


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string", "default": ""}
V1 = record(ID)
V2 = record(ID, NOTE)
INCOMPATIBLE = record(ID, {"name": "customer", "type": "string"})
OTHER = record(ID, name="Customer")
