"""Access to the control plane: the token, the accepted hosts and origins, and the size of bodies.

With a token, only clients that send it have access. Without a token, the control plane must be on a loopback address,
and is open to programs but not to web pages (`web_pages`).
"""

import hmac
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minibroker_control.errors import problem_response
from minibroker_control.web_pages import refusal_of

MAX_BODY_BYTES: Final = 8 << 20
"""The largest body that is accepted. Parsing a larger body would hold the GIL and delay Kafka's clients."""
_OPEN_TO_ALL: Final = frozenset({"/healthz", "/readyz"})
"""Paths that need no token, for the health checks of container runtimes."""


class Guard:
    """ASGI middleware that passes a request on, or answers with 401 or 403.

    Args:
        app: The protected application.
        token: The required token, or None.
        host: The host of `--control`, which clients may use in the `Host` header.
    """

    def __init__(self, app: ASGIApp, token: str | None, host: str) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or reject one request."""
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

        refusal = self._find_refusal(Headers(scope=scope), scope["path"])
        await (refusal or self._app)(scope, receive_limited, send)

    def _find_refusal(self, headers: Headers, path: str) -> Response | None:
        reason = refusal_of(headers.get, self._host if self._expected is None else None)
        if reason is not None:
            return problem_response(403, reason)
        if self._expected is None or path in _OPEN_TO_ALL:
            return None
        authorization = headers.get("authorization", "").encode("latin-1")
        if hmac.compare_digest(authorization, self._expected):
            return None
        hint = "a token is needed: Authorization: Bearer TOKEN"
        return problem_response(
            401, "the token is wrong" if authorization else hint, headers={"WWW-Authenticate": "Bearer"}
        )
