"""A control plane client like those in other languages: plain HTTP and JSON, without code of the broker."""

import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.patience import PATIENCE_S


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def problem(self) -> tuple[int, str, str]:
        """Return the status, the code and the sentence of a failure.

        Raises:
            AssertionError: The body has other fields.
        """
        assert sorted(self.body) == ["error", "message"], self
        return self.status, self.body["error"], self.body["message"]


class Control:
    """A client of the control plane at a URL. Each request uses a new connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.host, self.port = urlsplit(url).hostname, urlsplit(url).port

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request. Bytes are sent unchanged as the body, and anything else as JSON."""
        assert self.host is not None
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        sent = {} if body is None or isinstance(body, bytes) else {"Content-Type": "application/json"}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {**sent, **(headers or {})})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        return Answer(
            response.status, json.loads(content) if is_json and content else content.decode(), dict(response.headers)
        )

    def get(self, path: str, status: int = 200) -> Any:
        return self._expect(self.ask("GET", path), status)

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return self._expect(self.ask("POST", path, body), status)

    def put(self, path: str, body: Any = None, status: int = 200) -> Any:
        return self._expect(self.ask("PUT", path, body), status)

    def delete(self, path: str, status: int = 204) -> Any:
        return self._expect(self.ask("DELETE", path), status)

    @staticmethod
    def _expect(answer: Answer, status: int) -> Any:
        assert answer.status == status, answer
        return answer.body
