"""Invalid requests neither crash nor block the control plane."""

import random
import re
from typing import Any

import pytest

from minibroker_control.plane import make_app
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

_RECORDS = "/topics/given/records"
_NO_ERROR = "is neither the name nor the number of one of Kafka's errors"
BAD_REQUESTS: list[tuple[str, str, Any, str]] = [
    ("POST", "/topics", {"name": "a/b"}, "a/b"),
    ("POST", "/topics", {"name": "a", "prefix": "b"}, "a topic needs either a name or a prefix"),
    ("GET", f"{_RECORDS}?limit=100001", None, "limit: "),
    ("GET", f"{_RECORDS}?limit=0", None, "limit: "),
    ("GET", f"{_RECORDS}?format=jsn", None, "format: Input should be 'text', 'base64' or 'json', not 'jsn'"),
    ("POST", _RECORDS, {}, "records: Field required"),
    ("POST", _RECORDS, {"records": [{"valu": 1}]}, "records.0.valu: there is no such field; did you mean value?"),
    ("POST", _RECORDS, {"recrods": []}, "recrods: there is no such field; did you mean records?"),
    ("POST", _RECORDS, {"records": [], "codec": "brotli"}, "'snappy', 'lz4' or 'zstd', not 'brotli'"),
    ("POST", _RECORDS, {"records": [{"value": {"base64": "?"}}]}, "value: '?' is not valid base64: "),
    ("POST", _RECORDS, {"records": [{"value": {"base64": 1}}]}, "value: 1 is not valid base64: "),
    ("POST", _RECORDS, {"records": [{"value": "\ud800"}]}, "the text is not valid Unicode: "),
    ("POST", _RECORDS, {"records": [{"headers": {"\ud800": "1"}}]}, ""),
    ("POST", _RECORDS, {"records": [{"value": "a", "timestamp": 2**70}]}, ""),
    ("POST", _RECORDS, {"records": [{"value": "a", "timestamp": -5}]}, "timestamp: -5 is negative"),
    ("POST", _RECORDS, {"records": [{"value": "a", "partition": 9}]}, "topic 'given' has no partition 9"),
    ("POST", _RECORDS, {"records": [{"headers": {"h": "1"}}], "message_format": "v0"}, "headers: format v0"),
    ("POST", _RECORDS, {"records": [{"value": "x"}] * 20_001}, "at most 20000 items"),
    ("POST", _RECORDS, b'{"records": [', "the body: JSON is needed"),
    *[("POST", f"{_RECORDS}/wait", {"timeout": each}, "timeout: ") for each in (-1, 601, float("nan"), "1")],
    ("GET", "/topics?limt=3", None, "limt: unknown query parameter; did you mean limit?"),
    ("GET", "/topics?limit=3&x=", None, "x: unknown query parameter; this request has after, limit"),
    ("GET", f"{_RECORDS}?fromat=json", None, "fromat: unknown query parameter; did you mean format?"),
    ("GET", "/requests?client-id=a", None, "client-id: unknown query parameter; did you mean client_id?"),
    ("GET", "/faults?api=Produce", None, "api: unknown query parameter; this request has none"),
    ("POST", "/reset?keep_topics=true", None, "unknown query parameter; it is a field of the JSON body"),
    ("DELETE", "/topics/given?force=1", None, "force: unknown query parameter; this request has none"),
    *[("POST", "/clock/advance", {"seconds": each}, "seconds: ") for each in (-1, float("inf"), "1", None)],
    *[
        ("POST", "/snapshots", {"name": name}, f"no part . or .. between slashes, not {name!r}")
        for name in (".", "..", "a/../b", "./a")
    ],
    ("POST", "/faults", {"api": "Produce"}, "the fault has no effect; give one of "),
    ("POST", "/faults", {"api": "Prod", "delay_ms": 1}, "api: 'Prod' is not an API of Kafka"),
    ("POST", "/faults", {"api": "Produce", "eror": 1}, "eror: there is no such field; did you mean error?"),
    ("POST", "/faults", {"api": "Produce", "error": "OOPS"}, f"error: 'OOPS' {_NO_ERROR}"),
    ("POST", "/faults", [], "body: Input should be a valid dictionary"),
    *[("GET", f"/requests?error={error}", None, _NO_ERROR) for error in ("OOPS", "9999")],
    *[("POST", "/requests/wait", {"error": error}, _NO_ERROR) for error in ("OOPS", "9999")],
]
OTHER_REFUSALS: list[tuple[str, str, Any, tuple[int, str], str]] = [
    ("POST", "/topics", {"name": "given"}, (409, "conflict"), "topic 'given': Topic 'given' already exists."),
    *[
        (method, f"/topics/nope{path}", None, (404, "not_found"), "there is no topic 'nope'; topics: given")
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/records"), ("GET", "/partitions/0/leader"))
    ],
    (
        "GET",
        f"{_RECORDS}?partition=7",
        None,
        (404, "not_found"),
        "topic 'given' has no partition 7; it has 2 partitions, ",
    ),
    ("POST", "/topics/", {"name": "orders"}, (404, "not_found"), "there is no POST /topics/"),
    ("POST", "/topics", {"name": "a" * (9 << 20)}, (413, "too_large"), ""),
    (
        *("POST", "/groups/g/wait-until-stable", {"members": 2, "timeout": 0}, (409, "timeout")),
        "group 'g' was not stable with 2 members within 0 s: Dead",
    ),
    (
        *("POST", "/requests/wait", {"api": "Produce", "error": "CORRUPT_MESSAGE", "timeout": 0}, (409, "timeout")),
        "expected 1 request (api='Produce', error='CORRUPT_MESSAGE')",
    ),
]


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


@pytest.mark.parametrize(
    ("method", "path", "body", "problem", "reason"),
    [
        *((method, path, body, (400, "bad_request"), reason) for method, path, body, reason in BAD_REQUESTS),
        *OTHER_REFUSALS,
    ],
)
def test_a_request_that_cannot_be_done_is_refused_with_the_reason(
    control: Control, method: str, path: str, body: Any, problem: tuple[int, str], reason: str
) -> None:
    control.post(_RECORDS, {"records": [{"value": "kept"}]})
    status, word, message = control.ask(method, path, body).problem
    assert ((status, word), reason in message) == (problem, True), message
    assert [record["value"] for record in control.get(_RECORDS)["records"]] == ["kept"]
    assert control.get("/snapshots") == {"snapshots": []}


def test_a_body_that_is_no_json_is_refused_with_the_place(control: Control) -> None:
    answer = control.ask("POST", "/topics", b'{"name": ', {"Content-Type": "application/json"})
    assert answer.problem[:2] == (400, "bad_request")
    assert "the body is not valid JSON" in answer.problem[2]
