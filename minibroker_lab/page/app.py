"""The page as an ASGI application: static files, JSON data, and the control plane that runs the page's actions.

For `minibroker trace`, which can observe any Kafka broker, the page has only the requests and their time line.
"""

import mimetypes
import os
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import Response

from minibroker.config.version import __version__
from minibroker_control.errors import handle_errors, problem_response
from minibroker_control.parameters import refuse_unknown_parameters
from minibroker_control.remote import Remote
from minibroker_lab.page.fetch_savings import FetchSavings
from minibroker_lab.page.follow.search import Searches
from minibroker_lab.page.recorder import Recorder
from minibroker_lab.page.routes import actions, history, lessons, logs, requests, state
from minibroker_lab.page.schemas import PageSchemas
from minibroker_lab.page.time_line import TimeLine

STATIC: Final = os.path.join(os.path.dirname(__file__), "static")
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_DATA: Final = "/data"


def make_page(remote: Remote | None, recorder: Recorder, control: FastAPI, *, needs_token: bool) -> FastAPI:
    """Return the application of a broker's page.

    A path that is neither a file nor data returns the page itself, whose JavaScript interprets the path.
    """
    app = _new_app()
    app.state.remote = remote
    app.state.recorder = recorder
    app.state.schemas = None if remote is None else PageSchemas(remote)
    app.state.searches = Searches(recorder)
    app.state.time_line = TimeLine(recorder, recorder.events)
    app.state.fetch_savings = FetchSavings(recorder)
    app.state.control = control
    app.state.needs_token = needs_token
    app.mount("/control", control)
    routers = [module.router for module in (actions, lessons, logs, requests, state)]
    _add_routes(app, _load_files(), *routers, history.broker, history.time_line, history.following)
    return app


def make_trace_page(recorder: Recorder, facts: Mapping[str, Any]) -> FastAPI:
    """Return the application of `minibroker trace`.

    Args:
        recorder: The source of the exchanges.
        facts: Facts about the proxy. The page shows them in the bar above all views.
    """
    app = _new_app()
    app.state.recorder = recorder
    app.state.remote = app.state.schemas = None
    app.state.time_line = TimeLine(recorder, None)
    app.state.facts = {"version": __version__, **facts}
    files = _load_files()
    start = bytes(files["index.html"].body)
    files["index.html"] = Response(start.replace(b"<html ", b'<html data-mode="trace" ', 1), media_type="text/html")
    _add_routes(app, files, history.proxy, requests.router, history.time_line)
    return app


def _new_app() -> FastAPI:
    return FastAPI(title="minibroker lab", version=__version__, openapi_url=None, redirect_slashes=False)


def _add_routes(app: FastAPI, files: Mapping[str, Response], *views: APIRouter) -> None:
    """Add the routes of the views' data and of the files. Every other path returns the page."""
    handle_errors(app)
    for view in views:
        app.include_router(view, prefix=_DATA, dependencies=[Depends(refuse_unknown_parameters)])

    @app.get("/files/{path:path}")
    def file(path: str) -> Response:
        return files.get(path) or problem_response(404, f"there is no file {path!r}")

    @app.get("/data/{path:path}")
    def unknown(path: str) -> Response:
        return problem_response(404, f"there is no {_DATA}/{path}")

    @app.get("/{path:path}")
    def page(request: Request, path: str) -> Response:  # noqa: ARG001 - the page reads it
        root: str = request.scope["root_path"]
        return rebase_page(files["index.html"], root) if root else files["index.html"]


def rebase_page(index: Response, root: str) -> Response:
    """Return the page with `root` prefixed to the paths of its files."""
    return Response(bytes(index.body).replace(b'"/files/', f'"{root}/files/'.encode()), media_type="text/html")


def _load_files() -> dict[str, Response]:
    """Return a response for each static file, keyed by its path below `static`."""
    responses: dict[str, Response] = {}
    for folder, _, names in os.walk(STATIC):
        for name in names:
            path = os.path.join(folder, name)
            kind = _TYPES.get(os.path.splitext(name)[1]) or mimetypes.guess_type(name)[0] or "text/plain"
            with open(path, "rb") as file:
                responses[os.path.relpath(path, STATIC).replace(os.sep, "/")] = Response(file.read(), media_type=kind)
    return responses
