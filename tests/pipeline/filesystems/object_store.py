"""moto's S3 server on the loopback interface, which records its requests."""

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Self

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

_BUCKET: Final = "logs"


class S3Request(NamedTuple):
    """A request: its method, its path and its Range header."""

    method: str
    path: str
    range: str


class ObjectStore:
    """A server with one bucket, `logs`, used as a context manager."""

    def __init__(self) -> None:
        self.requests: list[S3Request] = []
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=MotoRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = S3Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("HTTP_RANGE", ""))
        self.requests.append(request)
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
