"""Access to the control plane: the token, and the hosts and origins that are let in.

With a token: its holders. Without one, which is on the loopback interface alone: programs, but not web pages. A page in
a browser on this machine can send requests there, too: under a name of its own that leads to 127.0.0.1 (DNS rebinding),
as the Host header says, or to the address itself, as the Origin header says.
"""

import hmac
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from minibroker.control.errors import problem
from minibroker.support.addresses import is_loopback

_OPEN_TO_ALL: Final = frozenset({"/healthz", "/readyz"})
"""Paths without a token, for the health checks of container runtimes."""


class Guard:
    """ASGI middleware that lets a request pass, or answers 401 or 403.

    Args:
        token: None for none.
        host: the one in `--control`; clients may use this name.
    """

    def __init__(self, app: ASGIApp, token: str | None, host: str) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse to."""
        refusal = self._refusal(Headers(scope=scope), scope["path"]) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        host = headers.get("host", "")
        if self._expected is None and not self._is_ours(host):
            return problem(403, f"the Host header names {host!r}, which is not a name of the loopback interface")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return problem(403, f"requests of web pages elsewhere ({origin!r}) are not served")
        if self._expected is None or path in _OPEN_TO_ALL:
            return None
        given = headers.get("authorization", "").encode("latin-1")
        if hmac.compare_digest(given, self._expected):
            return None
        hint = "a token is needed: Authorization: Bearer TOKEN"
        return problem(401, "the token is wrong" if given else hint, headers={"WWW-Authenticate": "Bearer"})

    def _is_ours(self, host: str) -> bool:
        name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
        return is_loopback(name.lower()) or name.lower() == self._host.lower()
