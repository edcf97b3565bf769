"""`minibroker`, whose control plane notes each operation that it has done, with the parameters and fields of requests.

A line of JSON for each request goes to the file that the environment variable MINIBROKER_CALLS names.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minibroker.cli.main import main
from minibroker_control import plane
from minibroker_control.plane import make_app
from minibroker_control.remote import Remote

CALLS = "MINIBROKER_CALLS"


class Recorder:
    """ASGI middleware: it notes the requests that were answered, but for those that were badly made."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._calls = Path(os.environ[CALLS]).open("a", buffering=1)  # noqa: SIM115 - as long as the process

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = bytearray()
        statuses: list[int] = []

        async def reading() -> Message:
            message = await receive()
            content.extend(message.get("body", b""))
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            await send(message)

        await self._app(scope, reading, sending)
        if statuses[0] != 400 and "route" in scope:
            query = [each.partition("=")[0] for each in scope["query_string"].decode().split("&") if each]
            call = {"operation": scope["route"].name, "names": [*query, *fields(bytes(content))]}
            self._calls.write(json.dumps(call) + "\n")


def fields(content: bytes) -> list[str]:
    """The names of the fields of a body, and of the objects in its `records` and `matching`."""
    body: Any = json.loads(content) if content else {}
    inner = [body.get("matching") or {}, *body.get("records", [])]
    return [name for each in (body, *inner) for name in each]


def recorded(remote: Remote | None) -> FastAPI:
    """Return the control plane's application, recorded."""
    app = make_app(remote)
    app.add_middleware(Recorder)
    return app


if __name__ == "__main__":
    with patch.object(plane, "make_app", recorded):
        sys.exit(main())
