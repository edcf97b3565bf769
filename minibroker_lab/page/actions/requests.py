"""Converts a filled form to a control plane request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from minibroker.cluster.errors import OperationError
from minibroker.config.names import suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from minibroker_lab.page.actions.forms import Field, Form


class ControlRequest(NamedTuple):
    """A control plane request and the form values it was made from.

    Attributes:
        path: The path with its query.
        body: The JSON object of the body, or None.
        values: The values by field name. Empty fields and default values are left out.
    """

    method: str
    path: str
    body: dict[str, Any] | None
    values: dict[str, Any]


def control_request(form: Form, texts: Mapping[str, str]) -> ControlRequest:
    """Return the request for a user's input.

    Invalid numbers are sent as text, and the control plane reports the error.

    Raises:
        OperationError: A required field is empty, a field does not exist, or a line is not a pair.
    """
    names = [form_field.name for form_field in form.fields]
    for name in texts:
        if name not in names:
            raise OperationError(f"{name}: there is no such field{suggestion(name, names)}")
    values: dict[str, Any] = {}
    path = form.path
    for field in form.fields:
        text = texts.get(field.name, "")
        if field.is_needed and not text:
            raise OperationError(f"{field.name}: a value is needed")
        if text and text != field.default and (field.kind != "switch" or text == "true"):
            values[field.name] = _parse_value(field, text)
        if field.place == "path":
            safe = "/" if field.name in {"group_id", "name"} else ""
            path = path.replace(f"{{{field.name}}}", quote(text, safe=safe))
    query = _values_in(form, values, "query")
    return ControlRequest(
        form.method, f"{path}?{urlencode(query)}" if query else path, _build_body(form, values), values
    )


def _build_body(form: Form, values: Mapping[str, Any]) -> dict[str, Any] | None:
    if not form.has_body:
        return None
    body = _values_in(form, values, "body")
    if any(field.place == "record" for field in form.fields):
        return {"records": [_values_in(form, values, "record")], **body}
    return body


def _values_in(form: Form, values: Mapping[str, Any], place: str) -> dict[str, Any]:
    return {field.name: values[field.name] for field in form.fields if field.place == place and field.name in values}


def _parse_value(field: Field, text: str) -> Any:
    if field.kind == "switch":
        return True
    if field.kind == "pairs":
        return _parse_pairs(field.name, text)
    kind = {"integer": int, "name": int, "number": float}.get(field.kind, str)
    try:
        return kind(text)
    except ValueError:
        return text


def _parse_pairs(name: str, text: str) -> dict[str, str] | list[list[str]]:
    """Return the pairs as an object, or as a list of pairs if a name occurs twice."""
    pairs: list[list[str]] = []
    for line in filter(str.strip, text.splitlines()):
        name_part, equals, value_part = line.partition("=")
        if not equals or not name_part.strip():
            raise OperationError(f"{name}: {line!r} is not NAME=VALUE")
        pairs.append([name_part.strip(), value_part.strip()])
    pairs_by_name = {pair[0]: pair[1] for pair in pairs}
    return pairs_by_name if len(pairs_by_name) == len(pairs) else pairs
