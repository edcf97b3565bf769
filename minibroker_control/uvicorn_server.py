"""uvicorn as the HTTP servers beside the broker use it."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_KEEP_ALIVE_S: Final = 600
"""The keep-alive timeout, longer than the clients' own.

If the server closed a connection first, the client's next request could fail.
"""
_PATIENCE_S: Final = 2


class _Protocol(H11Protocol):
    """HTTP/1.1 without warnings about upgrades: Java's HttpClient offers HTTP/2 in its first request."""

    def _unsupported_upgrade_warning(self) -> None:
        pass


class Server(uvicorn.Server):
    """A uvicorn server that stops immediately instead of at its next periodic check."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._end = asyncio.Event()

    async def main_loop(self) -> None:
        """Wait until `end` is called."""
        await self._end.wait()

    def end(self) -> None:
        """Stop serving. Runs on the server's loop."""
        self._end.set()


def make_server(app: Callable[..., Awaitable[None]], tls: ssl.SSLContext | None) -> Server:
    """Return a server of an application, for the running event loop."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    if tls is not None:

        def get_context(config: uvicorn.Config, make_default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
            del config, make_default
            return tls

        config.ssl_context_factory = get_context
    return Server(config)
