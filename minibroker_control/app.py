"""The control plane as an ASGI application: its routes and their OpenAPI document."""

from typing import Any, Final

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from minibroker.config.version import __version__
from minibroker_control.errors import Problem, handle_errors
from minibroker_control.parameters import refuse_unknown_parameters
from minibroker_control.remote import Remote
from minibroker_control.routes import (
    brokers,
    chaos,
    checks,
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
from minibroker_control.routes.faults import FaultIds
from minibroker_control.routes.snapshots import SnapshotShelf

_DESCRIPTION: Final = (
    "Operations on a broker for tests, besides those of Kafka clients. They have the names of the Python methods of "
    "minibroker.Broker. x-python lists the methods that a request calls."
)
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": Problem, "description": "The request failed. 409 also means that a wait timed out"},
    "5XX": {"model": Problem, "description": "The broker failed or is not running"},
}


def make_app(remote: Remote | None) -> FastAPI:
    """Return the application. Without a broker, it only serves the OpenAPI document."""
    app = FastAPI(
        title="minibroker",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # Both pages are disabled, because they load scripts from another host.
        redoc_url=None,
        # By default curl does not follow redirects, so a redirected request would have no effect.
        redirect_slashes=False,
        responses=_PROBLEMS,
        # HTTPBearer only documents the token in the schema. `Guard` checks the token.
        dependencies=[
            Depends(HTTPBearer(auto_error=False, description="Required if the broker was started with a token.")),
            Depends(refuse_unknown_parameters),
        ],
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.remote = remote
    app.state.faults = FaultIds()
    app.state.snapshots = SnapshotShelf()
    handle_errors(app)
    modules = (topics, records, groups, settings, time, snapshots, brokers, requests, faults, chaos, checks, health)
    for module in modules:
        app.include_router(module.router)
    return app
