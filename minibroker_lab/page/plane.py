"""The page's server: its application, its access control and its lifecycle, which is a control plane's with a recorder.

The page and the control plane share one server. Each has its own port, and the control plane's port also serves the
page below `/lab`.
"""

import hmac
import mimetypes
import os
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minibroker.config.version import __version__
from minibroker.server.inspection.exchanges import MAX_EXCHANGES, Exchange, Ring
from minibroker.server.inspection.recording import recording_of
from minibroker.server.services import Services
from minibroker_control.errors import handle_errors, problem_response
from minibroker_control.guard import Guard
from minibroker_control.models import refuse_unknown_parameters
from minibroker_control.plane import ControlPlane, make_app
from minibroker_control.remote import Remote
from minibroker_lab.page.fetch_savings import FetchSavings
from minibroker_lab.page.follow.story import Searches
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


_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'self'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_COOKIE: Final = "minibroker-lab"


class PageGuard:
    """ASGI middleware that checks the token, `Host` and `Origin`, and adds security headers.

    The token is accepted from the header or the cookie. `Host` and `Origin` are checked by `Guard`.

    Args:
        app: The protected application.
        token: The required token, or None.
        host: The host that the page listens on.
        port: The port. The cookie's name includes it, because browsers share cookies between the ports of a host.
    """

    def __init__(self, app: ASGIApp, token: str | None, host: str, port: int) -> None:
        self._token = token
        self._cookie = f"{_COOKIE}-{port}"
        self._guard = Guard(app, token, host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        if scope["type"] != "http":
            await self._guard(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        response = self._login(scope)
        if response is not None:
            await response(scope, receive, send_with_headers)
            return
        await self._guard(self._with_token(scope), receive, send_with_headers)

    def _login(self, scope: Scope) -> Response | None:
        """Return the redirect for `?token=TOKEN`, or None for other requests."""
        if self._token is None or scope["method"] != "GET":
            return None
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if tokens is None or not hmac.compare_digest(tokens[0].encode(), self._token.encode()):
            return None
        # Strip leading slashes and backslashes, because `//host` would redirect to another host.
        response = RedirectResponse("/" + scope["path"].lstrip("/\\"), 303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return response

    def _with_token(self, scope: Scope) -> Scope:
        """Copy the cookie's token to the header that `Guard` checks."""
        headers = Headers(scope=scope)
        if self._token is None or "authorization" in headers:
            return scope
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return scope
        if cookie is None:
            return scope
        added = (b"authorization", f"Bearer {cookie.value}".encode("latin-1", "replace"))
        return {**scope, "headers": [*scope["headers"], added]}


PAGE_PATH: Final = "/lab"


class _RecordingPlane(ControlPlane):
    """A page and its recorder. Stopping the page also stops the recorder."""

    purpose = "the page"
    option = "--page"
    recorder: Recorder

    def shut_down(self) -> None:
        """End all streams, and answer the waiting requests."""
        self.recorder.stop()
        super().shut_down()


class PagePlane(_RecordingPlane):
    """The page of a broker. It listens once it is created, and serves from `start` to `stop`."""

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address, token)
        self._control: ControlPlane | None = None

    def adopt(self, control: ControlPlane) -> None:
        """Also serve a control plane at its own address, with the page below it. Call this before `start`.

        The page and the control plane then run on one thread and share fault ids, snapshots and recorded requests.
        """
        control.is_adopted = True
        self._control = control

    def sockets(self) -> list[socket.socket]:
        """Return the sockets of the page and of the control plane."""
        return super().sockets() + ([] if self._control is None else self._control.sockets())

    def watch(self, services: Services) -> None:
        """Record the requests of a broker. Call this before the broker listens."""
        self.recorder = Recorder(recording_of(services).keep_frames(), services.core)

    def make_app(self) -> ASGIApp:
        """Return the application wrapped in its guard."""
        self.recorder.start()
        self._app = make_app(self._remote)
        page = make_page(self._remote, self.recorder, self._app, needs_token=self.token is not None)
        app = PageGuard(page, self.token, self.host, self.port)
        if self._control is None:
            return app
        host, port = self._control.host, self._control.port
        below = PageGuard(page, self.token, host, port)
        return _route_port(app, port, _route_path(Guard(self._app, self.token, host), below))


class TracePlane(_RecordingPlane):
    """The page of `minibroker trace`. It listens once it is created, and serves from `serve` to `stop`.

    Attributes:
        ring: The exchanges that pass through the proxy.
    """

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address, token)
        self.ring: Ring[Exchange] = Ring(MAX_EXCHANGES)
        self.recorder = Recorder(self.ring)
        self._facts: Mapping[str, Any] = {}

    def serve(self, facts: Mapping[str, Any]) -> None:
        """Serve the page on its own thread.

        Args:
            facts: Facts about the proxy, shown in the bar above all views.
        """
        self._facts = facts
        self.begin()

    def make_app(self) -> ASGIApp:
        """Return the application wrapped in its guard."""
        self.recorder.start()
        return PageGuard(make_trace_page(self.recorder, self._facts), self.token, self.host, self.port)


def _route_port(app: ASGIApp, port: int, other: ASGIApp) -> ASGIApp:
    """Return an ASGI application that serves `port` with `other`, and all other ports with `app`."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        server = scope.get("server")
        await (other if server is not None and server[1] == port else app)(scope, receive, send)

    return route


def _route_path(control: ASGIApp, page: ASGIApp) -> ASGIApp:
    """Return an ASGI application that serves the page below `/lab` and the control plane everywhere else."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path == PAGE_PATH and scope["method"] == "GET":
            query = scope["query_string"].decode("latin-1")
            await RedirectResponse(f"{PAGE_PATH}/{'?' if query else ''}{query}", 307)(scope, receive, send)
        elif path.startswith(f"{PAGE_PATH}/"):
            await page({**scope, "root_path": PAGE_PATH}, receive, send)
        else:
            await control(scope, receive, send)

    return route
