"""The control plane as an ASGI application: its routes, and the OpenAPI document about them."""

from typing import Any, Final

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from minibroker.config.version import __version__
from minibroker.control.errors import Problem, handle_errors
from minibroker.control.parameters import refuse_unknown_parameters
from minibroker.control.remote import Remote
from minibroker.control.routes import (
    brokers,
    faults,
    groups,
    health,
    records,
    requests,
    settings,
    snapshots,
    time,
    topics,
)
from minibroker.control.routes.faults import FaultIds
from minibroker.control.routes.snapshots import SnapshotShelf

_DESCRIPTION: Final = (
    "Everything that a test may do to a broker beside being its client. Names are those of the Python methods of "
    "minibroker.Broker; x-python says which of them a request calls."
)
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {
        "model": Problem,
        "description": "The request cannot be done; 409 also when what it waits for did not come",
    },
    "5XX": {"model": Problem, "description": "The broker has failed, or is not running"},
}


def make_app(remote: Remote | None) -> FastAPI:
    """The application; without a broker it only has its OpenAPI document."""
    app = FastAPI(
        title="minibroker",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # these pages load their scripts from a foreign host
        redoc_url=None,
        redirect_slashes=False,  # curl does not follow, and nothing would have been done
        responses=_PROBLEMS,
        # Documents the token; `Guard` requires it.
        dependencies=[
            Depends(HTTPBearer(auto_error=False, description="Where the broker was given a token.")),
            Depends(refuse_unknown_parameters),
        ],
        generate_unique_id_function=_operation_id,
    )
    app.state.remote = remote
    app.state.faults = FaultIds()
    app.state.snapshots = SnapshotShelf()
    handle_errors(app)
    for each in (topics, records, groups, settings, time, snapshots, brokers, requests, faults, health):
        app.include_router(each.router)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
