"""The page and the control plane on one server: each has its port, and below the control plane's `/lab` is the page."""

from typing import Final

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

BELOW: Final = "/lab"


class ByPort:
    """An ASGI application that serves one port with another application than the others."""

    def __init__(self, app: ASGIApp, port: int, other: ASGIApp) -> None:
        self._app = app
        self._port = port
        self._other = other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        server = scope.get("server")
        app = self._other if server is not None and server[1] == self._port else self._app
        await app(scope, receive, send)


class Beside:
    """An ASGI application that serves `/lab` with the page, and everything else with the control plane."""

    def __init__(self, control: ASGIApp, page: ASGIApp) -> None:
        self._control = control
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path: str = scope.get("path", "")
        if path == BELOW and scope["method"] == "GET":
            query = scope["query_string"].decode("latin-1")
            await RedirectResponse(f"{BELOW}/{'?' if query else ''}{query}", 307)(scope, receive, send)
        elif path.startswith(f"{BELOW}/"):
            await self._page({**scope, "root_path": BELOW}, receive, send)
        else:
            await self._control(scope, receive, send)
