"""Access to the control plane: the token, the hosts and origins that are let in, and the size of bodies.

With a token: its holders. Without one, which is on the loopback interface alone: programs, but not web pages
(`web_pages`).
"""

import hmac
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minibroker.control.errors import problem
from minibroker.control.web_pages import refusal_of

MAX_BODY_BYTES: Final = 8 << 20
"""A larger body is refused: whoever parses it keeps the interpreter, and Kafka's clients wait."""
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
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size = 0

        async def receive_limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BODY_BYTES:
                raise HTTPException(413, f"the body has more than {MAX_BODY_BYTES} bytes; send several requests")
            return message

        refusal = self._refusal(Headers(scope=scope), scope["path"])
        await (refusal or self._app)(scope, receive_limited, send)

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        reason = refusal_of(headers.get, self._host if self._expected is None else None)
        if reason is not None:
            return problem(403, reason)
        if self._expected is None or path in _OPEN_TO_ALL:
            return None
        given = headers.get("authorization", "").encode("latin-1")
        if hmac.compare_digest(given, self._expected):
            return None
        hint = "a token is needed: Authorization: Bearer TOKEN"
        return problem(401, "the token is wrong" if given else hint, headers={"WWW-Authenticate": "Bearer"})
