"""A client of a page: what its server answers, as JSON."""

import asyncio
import http.client
import json
from typing import Any, Final
from urllib.parse import urlsplit

_PATIENCE_S: Final = 10


class PageError(Exception):
    """The page has answered with a problem, or not at all."""


class PageClient:
    """A client of the page at a URL. `token` is sent with each request; None for none."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self._address = urlsplit(url)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def get(self, path: str) -> Any:
        """The JSON at `/data` and a path. `PageError` with the page's sentence."""
        return await asyncio.to_thread(self._get, f"{self._address.path.rstrip('/')}/data{path}")

    def _get(self, path: str) -> Any:
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port or 80, timeout=_PATIENCE_S
        )
        try:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
            content: Any = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise PageError("The broker does not answer. It may have stopped.") from error
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise PageError(str(content.get("message", response.status)))
        return content
