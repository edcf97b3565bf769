"""Write the tables of docs/control-plane.md and docs/faults.md: `python -m minibroker_control.reference docs`.

They stand between two marks. The text around them is written by hand.
"""

import json
import os
import sys
from inspect import getattr_static
from typing import Any, Final

from minibroker.operations import asynchronous_handles as handles
from minibroker.operations import asynchronous_trials as trials
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.server.faults.fields import HOW_OFTEN, MATCH, WHAT
from minibroker_control.plane import make_app

_BEGIN: Final = "<!-- Made by `python -m minibroker_control.reference docs`: change the code. -->"
_END: Final = "<!-- The end of what was made. -->"
_OWNERS: Final = {
    "": (AsyncOperations,),
    "brokers": (handles.AsyncBrokers, handles.AsyncBrokerNode),
    "chaos": (trials.AsyncChaos,),
    "check": (trials.AsyncCheck,),
    "clock": (handles.AsyncBrokerClock,),
    "faults": (handles.AsyncFaults,),
    "group": (handles.AsyncConsumerGroup,),
    "retention": (handles.AsyncRetention,),
}
_QUOTE: Final = '"'
_REF: Final = "#/components/schemas/"


def replace_tables(page: str, tables: str) -> str:
    """Return a page with the tables between its marks replaced.

    Raises:
        ValueError: The page lacks one of the marks.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError("there is no place for the tables")
    return f"{before}{_BEGIN}\n\n{tables}\n{_END}{after}"


def render_faults() -> str:
    """Return the fields of faults in Markdown."""
    return "\n".join(
        f"| {title} | Type | Meaning |\n| --- | --- | --- |\n"
        + "".join(f"| `{row.name}` | {row.kind} | {row.meaning} |\n" for row in rows)
        for title, rows in (("Which requests", MATCH), ("How often", HOW_OFTEN), ("What happens", WHAT))
    )


def render_requests() -> str:
    """Return the requests of the OpenAPI document by kind, followed by their objects, in Markdown."""
    document = make_app(None).openapi()
    kinds: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            kinds.setdefault(operation["tags"][0], []).append(_format_operation(f"{method.upper()} {path}", operation))
    sections = [f"### {kind}\n\n" + "\n".join(operations) for kind, operations in kinds.items()]
    schemas: dict[str, Any] = document["components"]["schemas"]
    objects = [_format_object(name, schema) for name, schema in sorted(schemas.items()) if schema.get("properties")]
    return "\n".join([*sections, "### Objects\n", *objects])


def _format_operation(title: str, operation: dict[str, Any]) -> str:
    description = " ".join(operation["description"].split())
    first, *words = operation["operationId"].split("_")
    method = first + "".join(map(str.capitalize, words))
    python = ", ".join(f"`{_call_text(member)}`" for member in operation["x-python"])
    lines = [f"#### `{title}`", "", description, ""]
    rows = [
        _format_row(f"`{query['name']}`", query["schema"], query.get("description"), required=query["required"])
        for query in operation.get("parameters", [])
        if query["in"] == "query"
    ]
    if rows:
        lines += ["| Parameter | Type | Meaning |", "| --- | --- | --- |", *rows, ""]
    if "requestBody" in operation:
        body = operation["requestBody"]
        body_type = _format_type(body["content"]["application/json"]["schema"]).removesuffix(" or null")
        lines.append(f"Body: {body_type}{'' if body.get('required') else '; may be left out'}.")
    responses: dict[str, Any] = operation["responses"]
    answers = [_format_response(status, response) for status, response in responses.items() if status.startswith("2")]
    lines.append(f"Answer: {'; '.join(answers)}. Clients: `{method}`." + (f" Python: {python}." if python else ""))
    return "\n".join([*lines, ""])


def _call_text(name: str) -> str:
    """Return a method as Python programs call it, `clock.now_ms()`, or the name of a property."""
    handle, _, member = name.rpartition(".")
    owner = next(owner_type for owner_type in _OWNERS[handle] if hasattr(owner_type, member))
    return name if isinstance(getattr_static(owner, member), property) else f"{name}()"


def _format_response(status: str, response: dict[str, Any]) -> str:
    content = response.get("content", {})
    schema = content.get("application/json", {}).get("schema")
    return f"{status}, {'nothing' if not content else _format_type(schema) if schema else 'text'}"


def _format_object(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        _format_row(f"`{name}`", field, field.get("description"), required=name in required or "default" not in field)
        for name, field in schema["properties"].items()
    ]
    description = " ".join(schema.get("description", "").split())
    return "\n".join(
        [f"#### {name}", "", description, "", "| Field | Type | Meaning |", "| --- | --- | --- |", *rows, ""]
    )


def _format_row(name: str, schema: dict[str, Any], meaning: str | None, *, required: bool) -> str:
    default = (
        ""
        if required or schema.get("default") in (None, {})
        else f"Default `{json.dumps(schema['default']).strip(_QUOTE)}`."
    )
    description = " ".join(filter(None, (meaning, default)))
    return f"| {name} | {_format_type(schema)} | {' '.join(description.split())} |"


def _format_type(schema: dict[str, Any]) -> str:  # noqa: PLR0911 - one for each kind of schema
    """Return a short description of a schema's type."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(map(_format_type, schema["anyOf"]))
    if "prefixItems" in schema:
        return f"[{', '.join(map(_format_type, schema['prefixItems']))}]"
    if schema.get("type") == "array":
        return f"list of {_format_type(schema['items'])}"
    if schema.get("title") == "Fault":
        return "[the fields of a fault](faults.md#the-fields)"
    if schema.get("type") == "object":
        return "object"
    kind: str = schema.get("type", "any")
    return kind


if __name__ == "__main__":
    for name, tables in (("control-plane.md", render_requests()), ("faults.md", render_faults())):
        path = os.path.join(sys.argv[1], name)
        with open(path, "r+", encoding="utf-8") as file:
            page = replace_tables(file.read(), tables)
            file.seek(0)
            file.write(page)
            file.truncate()
