"""Schemas of a registry at a URL."""

import base64
import contextlib
import functools
import http.client
import json
import ssl
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from minibroker_registry import records
from minibroker_registry.formats import Formats
from minibroker_registry.records import Version
from minibroker_registry.schema import Parsed
from minibroker_registry.values import UnavailableError

_PATIENCE_S: Final = 10.0
_OK: Final = 200
_SERVER_ERRORS: Final = range(500, 600)
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_FIELDS: Final = ("schema", "schemaType", "references", "metadata")
Answer = TypeVar("Answer")


class HttpSource:
    """A `SchemaSource` that asks a registry. What it has read of ids, guids and versions is kept.

    Args:
        url: The registry's URL. Its user information is sent as Basic authorization, and shown nowhere.
        auth: USER:PASSWORD for Basic authorization, or else a bearer token.
        tls: How the server's certificate is verified, if not by the certificates of the system.

    Attributes:
        url: The URL without user information.

    Raises:
        ValueError: the URL is not one of HTTP.
    """

    def __init__(self, url: str, auth: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        try:
            parts = urlsplit(url)
            self._address = parts.hostname, parts.port
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("The URL of the registry is not http://HOST:PORT or https://HOST:PORT")
        if parts.username is not None:
            auth = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        self.url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": f"{_CONTENT_TYPE}, application/json", "Content-Type": _CONTENT_TYPE}
        if auth is not None:
            basic = base64.b64encode(auth.encode()).decode()
            self._headers["Authorization"] = f"Basic {basic}" if ":" in auth else f"Bearer {auth}"
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._formats = Formats()
        self._version_at = functools.cache(self._ask_version)

    def by_id(self, id_: int | uuid.UUID, /) -> Parsed:
        """Return the schema with an id or a guid."""
        kind = "ids" if isinstance(id_, int) else "guids"
        return self._parse(self._version_at(f"/schemas/{kind}/{id_}?referenceFormat=qualified"))

    def latest(self, subject: str, /) -> tuple[int, Parsed]:
        """Return the id and the schema of the latest version of a subject."""
        version = self._ask_version(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return version.id, self._parse(version)

    def fields(self, id_: int) -> dict[str, Any]:
        """Return the schema with an id as the fields that register() takes."""
        return self._ask(
            f"/schemas/ids/{id_}", lambda answer: {name: answer[name] for name in _FIELDS if name in answer}
        )

    def register(self, subject: str, fields: Mapping[str, Any], *, only_looks_up: bool = False) -> int:
        """Return the id of a schema in a subject.

        Args:
            subject: The subject.
            fields: `schema`, and optionally `schemaType`, `references` and `metadata`, as the registry takes them.
            only_looks_up: Whether a schema that the subject does not have is an error, instead of its new version.

        Raises:
            LookupError: the registry refuses the schema, or does not answer.
        """
        path = f"/subjects/{quote(subject, safe='')}"
        return self._ask(
            path if only_looks_up else f"{path}/versions", lambda answer: records.check_integer(answer["id"]), fields
        )

    def _parse(self, version: Version) -> Parsed:
        return self._formats.parse(version.content, version.subject, self._referenced)

    def _referenced(self, subject: str, number: int) -> Version:
        return self._version_at(f"/subjects/{quote(subject, safe='')}/versions/{number}?deleted=true")

    def _ask_version(self, path: str) -> Version:
        return self._ask(path, _read_version)

    def _ask(
        self, path: str, read: Callable[[dict[str, Any]], Answer], fields: Mapping[str, Any] | None = None
    ) -> Answer:
        """Return what `read` makes of the answer to GET, or with fields to POST.

        Raises:
            LookupError: the registry refuses the request, or answers something else.
            UnavailableError: the registry does not answer, or fails.
        """
        host, port = self._address
        assert host is not None
        connection = (
            http.client.HTTPConnection(host, port, timeout=_PATIENCE_S)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=_PATIENCE_S, context=self._tls)
        )
        status = _OK
        try:
            with contextlib.closing(connection):
                method, body = ("GET", None) if fields is None else ("POST", json.dumps(fields))
                connection.request(method, self._path + path, body, self._headers)
                response = connection.getresponse()
                status = response.status
                answer: dict[str, Any] = json.loads(response.read())
            if status == _OK:
                return read(answer)
            refusal = UnavailableError if status in _SERVER_ERRORS else LookupError
            raise refusal(f"The registry at {self.url} answered {status}: {answer['message']}")
        except UnavailableError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise UnavailableError(f"The registry at {self.url} cannot be asked: {error!r}") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise LookupError(f"The registry at {self.url} answered {status}, and no schema") from None


def _read_version(answer: Mapping[str, Any]) -> Version:
    return records.read_version({"subject": "", "version": 0, "id": 0, **answer}, 0)
