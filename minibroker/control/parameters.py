"""Query parameters that a route does not have: 400, with the name that was probably meant."""

from typing import Any, Final, cast

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException

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
