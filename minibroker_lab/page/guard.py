"""Access to the page: the control plane's rules, plus a cookie, because browsers do not send a token on their own.

`/?token=TOKEN` sets the cookie and redirects to the same page without the token.
"""

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minibroker_control.guard import Guard

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
