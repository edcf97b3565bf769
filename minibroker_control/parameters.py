"""Parameters in paths and queries: names that contain slashes, and status 400 for unknown query parameters."""

from collections.abc import MutableMapping
from typing import Any, Final, cast
from urllib.parse import unquote

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from minibroker.config.names import suggestion
from minibroker_control.models import Body

_FOR_MACHINES: Final = frozenset({"/healthz", "/readyz", "/metrics"})


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not have.

    FastAPI ignores such parameters, so a misspelled filter or limit would silently have no effect. Probes and scrapers
    may add parameters of their own.

    Raises:
        HTTPException: A parameter is unknown. The status is 400.
    """
    route = cast("APIRoute", request.scope["route"])
    if not request.query_params or route.path in _FOR_MACHINES:
        return
    known = [parameter.alias for parameter in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise HTTPException(400, f"{name}: unknown query parameter{_suggest_parameter(name, known, route)}")


def _suggest_parameter(name: str, known: list[str], route: APIRoute) -> str:
    if name in _fields_of(route):
        return "; it is a field of the JSON body of this request"
    if not known:
        return "; this request has none"
    return suggestion(name, known) or f"; this request has {', '.join(known)}"


def _fields_of(route: APIRoute) -> set[str]:
    """Return the names of the fields of the body, or an empty set if the route has no model for it."""
    if route.body_field is None:
        return set()
    body: Any = route.body_field.field_info.annotation
    models = (body, *getattr(body, "__args__", ()))
    return {
        field
        for model in models
        if isinstance(model, type) and issubclass(model, Body)
        for field in model.field_names()
    }


_SLASH: Final = "\ud82f"
"""A placeholder for a slash sent as %2F. It cannot occur in a path, since a lone surrogate has no UTF-8 encoding."""


class NamesRoute(APIRoute):
    """A route whose `{name:path}` can contain slashes. A slash sent as `%2F` is part of the name, not a separator.

    Servers decode a path before they choose a route, so `/groups/a%2Flag` would be the lag of the group `a` instead of
    the group `a/lag`. A slash sent unencoded can also be part of the name, if no longer path matches.
    """

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        """Match the path of a request as it was sent."""
        sent = scope.get("raw_path", b"").decode("ascii", "replace")
        if scope["type"] != "http" or "%2f" not in sent.lower():
            return super().matches(scope)
        path = unquote(sent.replace("%2f", "%2F").replace("%2F", _SLASH))
        match, child_scope = super().matches({**scope, "path": path})
        if match is not Match.NONE:
            child_scope["path_params"] = {
                name: value.replace(_SLASH, "/") if isinstance(value, str) else value
                for name, value in child_scope["path_params"].items()
            }
        return match, child_scope
