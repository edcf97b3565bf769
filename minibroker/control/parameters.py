"""Parameters in paths and queries: names that hold slashes of their own; 400 for what a route does not have."""

from collections.abc import MutableMapping
from typing import Any, Final, cast
from urllib.parse import unquote

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from minibroker.config.names import suggestion

_FOR_MACHINES: Final = frozenset({"/healthz", "/readyz", "/metrics"})


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a query parameter that the route does not have. HTTPException 400.

    FastAPI ignores such parameters, so a misspelt filter or limit would have no effect and give no error. Probes and
    scrapers may add parameters of their own.
    """
    route = cast("APIRoute", request.scope["route"])
    if not request.query_params or route.path in _FOR_MACHINES:
        return
    known = [each.alias for each in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise HTTPException(400, f"{name}: unknown query parameter{_hint(name, known, route)}")


def _hint(name: str, known: list[str], route: APIRoute) -> str:
    if name in _fields_of(route):
        return "; it is a field of the JSON body of this request"
    if not known:
        return "; this request has none"
    return suggestion(name, known) or f"; this request has {', '.join(known)}"


def _fields_of(route: APIRoute) -> set[str]:
    """The names of the fields of the body; empty without a model of its own."""
    if route.body_field is None:
        return set()
    body: Any = route.body_field.field_info.annotation
    models = (body, *getattr(body, "__args__", ()))
    return {
        field
        for model in models
        if isinstance(model, type) and issubclass(model, BaseModel)
        for field in model.model_fields
    }


_SLASH: Final = "\ud82f"
"""Stands for a slash that came as %2F. No path holds it otherwise: a lone surrogate has no UTF-8."""


class NamesRoute(APIRoute):
    """A route whose `{name:path}` may hold slashes. One that came as `%2F` is of the name, and parts nothing.

    Servers decode a path before they choose a route. So `/groups/a%2Flag` would be the lag of the group `a`, and not
    the group `a/lag`. A slash that came as it is may be of the name as well, where no longer path fits.
    """

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        """Match a request's path as it was sent."""
        sent = scope.get("raw_path", b"").decode("ascii", "replace")
        if scope["type"] != "http" or "%2f" not in sent.lower():
            return super().matches(scope)
        path = unquote(sent.replace("%2f", "%2F").replace("%2F", _SLASH))
        match, found = super().matches({**scope, "path": path})
        if match is not Match.NONE:
            found["path_params"] = {
                name: value.replace(_SLASH, "/") if isinstance(value, str) else value
                for name, value in found["path_params"].items()
            }
        return match, found
