"""Invalid requests neither crash nor block the control plane."""

import random
import re
from typing import Any

import pytest

from minibroker.control.app import make_app
from tests.broker.control.http import Control
from tests.sweeps import one_in

SLOW = {"/compact", "/snapshots"}
"""Paths that take milliseconds even for accepted nonsense."""

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**400,
    0.5,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    "given",
    "\u00e9\0\n",
    "\ud800",
    "x" * 10_000,
    [],
    [None],
    [["a", "b"]],
    {},
    {"base64": "?"},
    {"base64": "YQ=="},
    {"json": None},
    {"a": {"b": [1]}},
    "2023-01-01",
    "..",
    "*",
]
PARTS = ["given", "nope", "..", "%00", "%2F", "%ff", "a%20b", "-1", "0", "1", "99999999999999999999", "%F0%9F%92%A9"]


def fields_of(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """Return the names of the fields that the body can have."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for each in [schema, *schema.get("anyOf", [])]:
        if "$ref" in each:
            each = document["components"]["schemas"][each["$ref"].rpartition("/")[2]]  # noqa: PLW2901 - what it means
        if "properties" in each:
            return list(each["properties"])
    return []


@pytest.mark.slow
@pytest.mark.parametrize("seed", one_in(8, range(16)))
def test_nonsense_is_refused_or_done_and_never_an_error_of_ours(control: Control, seed: int) -> None:
    document = make_app(None).openapi()
    chance = random.Random(seed)
    operations = [
        (method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if path not in SLOW
    ]
    for method, path, operation in operations:
        for _ in range(3):
            filled = re.sub(r"\{\w+\}", lambda _: chance.choice(PARTS), path)
            queried = [
                f"{parameter['name']}={chance.choice(PARTS)}"
                for parameter in operation.get("parameters", [])
                if parameter["in"] == "query" and chance.random() < 0.5
            ]
            fields = fields_of(document, operation)
            body: Any = {name: chance.choice(VALUES) for name in fields if chance.random() < 0.5}
            if "timeout" in fields:
                body["timeout"] = 0
            if chance.random() < 0.1:
                body = chance.choice(VALUES)
            sent = None if method in {"get", "delete"} else body
            answer = control.ask(method.upper(), "?".join(filter(None, (filled, "&".join(queried)))), sent)
            assert answer.status < 500, (method, filled, queried, body, answer)
            if answer.status >= 400:
                _ = answer.problem
    assert control.get("/healthz") == {"status": "ok"}
