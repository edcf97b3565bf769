"""A client of a schema registry: plain HTTP and JSON, without code of the registry."""

import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlsplit

from tests.patience import PATIENCE_S

TYPE = "application/vnd.schemaregistry.v1+json"


class Answer(NamedTuple):
    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def body(self) -> Any:
        return json.loads(self.text)


class Rest:
    """A client of the registry at a URL, with one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.url = url
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request. Bytes are sent unchanged as the body, and anything else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request(method, path, data, {"Content-Type": TYPE} if headers is None else dict(headers))
        response = self._connection.getresponse()
        return Answer(response.status, response.read().decode(), dict(response.headers))

    def get(self, path: str) -> Any:
        return self._expect(self.ask("GET", path))

    def post(self, path: str, body: Any) -> Any:
        return self._expect(self.ask("POST", path, body))

    def put(self, path: str, body: Any) -> Any:
        return self._expect(self.ask("PUT", path, body))

    def delete(self, path: str) -> Any:
        return self._expect(self.ask("DELETE", path))

    def register(self, subject: str, schema: str, **fields: Any) -> int:
        """Register a schema and return its id."""
        id_: int = self.post(f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema, **fields})["id"]
        return id_

    def refusal(self, method: str, path: str, body: Any = None) -> tuple[int, int]:
        """Return the status and the error code of a request that fails."""
        answer = self.ask(method, path, body)
        assert sorted(answer.body) == ["error_code", "message"], answer
        assert isinstance(answer.body["message"], str)
        return answer.status, answer.body["error_code"]

    def _expect(self, answer: Answer) -> Any:
        assert answer.status == 200, answer
        return answer.body
