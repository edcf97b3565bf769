"""The endpoints of the registry's HTTP interface."""

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from minibroker.config.version import __version__
from minibroker_registry import errors, formats, records, subjects
from minibroker_registry.compatibility import LEVELS
from minibroker_registry.records import Content, Version
from minibroker_registry.registry import LATEST, MODES, NewSchema, Registry
from minibroker_registry.schema import InvalidSchemaError

_MAX_VERSION: Final = 2**31 - 1
_CONFIG_FIELDS: Final[Mapping[str, type]] = {
    "alias": str,
    "normalize": bool,
    "validateFields": bool,
    "compatibilityPolicy": str,
    "compatibilityGroup": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
}
"""The settings of PUT /config besides the level, and the type of each."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """A request to an endpoint.

    Attributes:
        path: The parameters in the path, decoded.
        query: The values of each query parameter.
        body: The JSON of the body, or None.
        is_lenient: Whether the client accepts fields that it does not know.
    """

    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Any
    is_lenient: bool

    def text(self, name: str, default: str = "") -> str:
        """Return the value of a query parameter."""
        return self.query.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        """Return whether a query parameter is true."""
        return self.text(name).lower() == "true"

    def page(self, items: Iterable[T]) -> list[T]:
        """Return the items that `offset` and `limit` select. A negative limit means all.

        Raises:
            RegistryError: one of them is not a number.
        """
        try:
            offset, limit = int(self.text("offset", "0")), int(self.text("limit", "-1"))
        except ValueError:
            raise errors.RegistryError(404, "HTTP 404 Not Found") from None
        return list(items)[max(offset, 0) :][: None if limit < 0 else limit]

    def fields(self) -> Mapping[str, Any]:
        """Return the body.

        Raises:
            RegistryError: it is not a JSON object.
        """
        body: object = self.body
        if not isinstance(body, dict):
            raise errors.RegistryError(400, "the body is not a JSON object")
        return cast("Mapping[str, Any]", self.body)

    @property
    def subject(self) -> str:
        """The qualified subject in the path, or an empty string."""
        return subjects.normalize(self.path.get("subject", ""))


class RawText(str):
    """An answer that is sent as it is, not as a JSON string."""

    __slots__ = ()


Handler = Callable[[Registry, Request], Any]
ROUTES: Final[dict[tuple[str, ...], dict[str, Handler]]] = {}
"""The handlers of each path by method. A path is given as its segments, of which `{name}` is a parameter."""


def _serve(method: str, *paths: str) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        for path in paths:
            ROUTES.setdefault(tuple(path.split("/")), {})[method] = handler
        return handler

    return add


def _version_number(request: Request) -> int:
    """Return the version in the path, `LATEST` for `latest`.

    Raises:
        RegistryError: it is not a version.
    """
    text = request.path["version"].strip()
    if text.lower() == "latest":
        return LATEST
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,10}", text, re.ASCII) else 0
    if number != LATEST and not 1 <= number <= _MAX_VERSION:
        raise errors.invalid_version(text)
    return number


def _find_version(registry: Registry, request: Request) -> Version:
    """Return the version in the path.

    Raises:
        RegistryError: there is none.
    """
    number, with_deleted = _version_number(request), request.flag("deleted")
    version = registry.state.version(request.subject, number, with_deleted=with_deleted)
    if version is not None:
        return version
    if not registry.state.versions(request.subject, with_deleted=with_deleted):
        raise errors.subject_not_found(request.subject)
    raise errors.version_not_found(number)


def _new_schema(request: Request) -> NewSchema:
    """Return the schema in the body.

    Raises:
        RegistryError: the body has other types.
    """
    fields = request.fields()
    try:
        kind, text = (records.check_text(fields.get(name) or "") for name in ("schemaType", "schema"))
        id_, version = (records.check_integer(fields.get(name) or 0) for name in ("id", "version"))
        references = records.read_references(fields.get("references") or ())
        metadata = records.sort_metadata(fields.get("metadata") or {})
    except (TypeError, KeyError, AttributeError) as error:
        raise errors.RegistryError(400, f"the body is not a schema with its references and metadata: {error}") from None
    is_given = fields.get("id") is not None and id_ >= 0
    return NewSchema(kind or "AVRO", text, references, metadata, id_ if is_given else None, version)


def _content_view(registry: Registry, version: Version, request: Request) -> dict[str, Any]:
    """Return the fields of a schema in the requested format."""
    content = version.content
    form = request.text("format")
    text = _format(registry, version, form) if form else content.text
    view: dict[str, Any] = {"schemaType": content.kind} if content.kind != "AVRO" or request.is_lenient else {}
    if content.references:
        is_qualified = request.text("referenceFormat").lower() == "qualified"
        view["references"] = [
            {
                **records.reference_fields(reference),
                **({"subject": subjects.qualify(reference.subject, version.subject)} if is_qualified else {}),
            }
            for reference in content.references
        ]
    if content.metadata is not None:
        view["metadata"] = content.metadata
    return {**view, "schema": text}


def _format(registry: Registry, version: Version, form: str) -> str:
    try:
        return registry.parsed(version).formatted(form)
    except ValueError as error:  # Protobuf's descriptors cannot hold a schema that contradicts itself.
        raise InvalidSchemaError(str(error)) from None


def _view(registry: Registry, version: Version, request: Request) -> dict[str, Any]:
    """Return a version as JSON."""
    view = {"subject": version.subject, "version": version.version, "id": version.id}
    extra = {"guid": version.content.guid, "ts": version.timestamp, "deleted": version.is_deleted}
    return {**view, **_content_view(registry, version, request), **(extra if request.is_lenient else {})}


# Schemas


@_serve("POST", "subjects/{subject}/versions")
def _register(registry: Registry, request: Request) -> object:
    version = registry.register(request.subject, _new_schema(request), normalize=request.flag("normalize"))
    # Clients believe that the registry has changed a schema if the answer has its text. The one for Python also expects
    # a descriptor in place of a Protobuf schema's text.
    extra = {"version": version.version, "guid": version.content.guid} if request.is_lenient else {}
    return {"id": version.id, **extra}


@_serve("POST", "subjects/{subject}")
def _look_up(registry: Registry, request: Request) -> object:
    version = registry.look_up(
        request.subject, _new_schema(request), normalize=request.flag("normalize"), with_deleted=request.flag("deleted")
    )
    return _view(registry, version, request)


@_serve("GET", "subjects")
def _list_subjects(registry: Registry, request: Request) -> object:
    only_deleted = request.flag("deletedOnly")
    prefixes = request.query.get("subjectPrefix", [subjects.ALL_CONTEXTS])
    found: dict[str, None] = {}
    for prefix in prefixes:
        with_deleted = only_deleted or request.flag("deleted")
        found |= dict.fromkeys(registry.state.subjects(prefix, with_deleted=with_deleted))
    live = registry.state.subjects(subjects.ALL_CONTEXTS, with_deleted=False) if only_deleted else []
    return request.page(sorted(found.keys() - live))


@_serve("DELETE", "subjects/{subject}")
def _delete_subject(registry: Registry, request: Request) -> object:
    return registry.delete_subject(request.subject, permanent=request.flag("permanent"))


@_serve("GET", "subjects/{subject}/versions")
def _list_versions(registry: Registry, request: Request) -> object:
    only_deleted = request.flag("deletedOnly")
    versions = registry.state.versions(request.subject, with_deleted=only_deleted or request.flag("deleted"))
    numbers = [version.version for version in versions if version.is_deleted or not only_deleted]
    if not numbers:
        raise errors.subject_not_found(request.subject)
    return request.page(numbers)


@_serve("GET", "subjects/{subject}/versions/{version}")
def _get_version(registry: Registry, request: Request) -> object:
    return _view(registry, _find_version(registry, request), request)


@_serve("GET", "subjects/{subject}/versions/{version}/schema")
def _get_version_text(registry: Registry, request: Request) -> object:
    return RawText(_content_view(registry, _find_version(registry, request), request)["schema"])


@_serve("GET", "subjects/{subject}/versions/{version}/referencedby")
def _list_referrers(registry: Registry, request: Request) -> object:
    version = _find_version(registry, request)
    return request.page(sorted({found.id for found in registry.state.referrers(version.subject, version.version)}))


@_serve("DELETE", "subjects/{subject}/versions/{version}")
def _delete_version(registry: Registry, request: Request) -> object:
    return registry.delete_version(request.subject, _version_number(request), permanent=request.flag("permanent"))


@_serve("GET", "subjects/{subject}/metadata")
def _find_by_metadata(registry: Registry, request: Request) -> object:
    wanted = dict(zip(request.query.get("key", []), request.query.get("value", []), strict=False))
    versions = registry.state.versions(request.subject, with_deleted=request.flag("deleted"))
    if not versions:
        raise errors.subject_not_found(request.subject)
    for version in reversed(versions):
        properties: Mapping[str, str] = (version.content.metadata or {}).get("properties", {})
        if wanted.items() <= properties.items():
            return _view(registry, version, request)
    raise errors.schema_not_found()


@_serve("GET", "schemas")
def _list_schemas(registry: Registry, request: Request) -> object:
    with_deleted = request.flag("deleted")
    views: list[Version] = []
    for prefix in request.query.get("subjectPrefix", [subjects.ALL_CONTEXTS]):
        for subject in registry.state.subjects(prefix, with_deleted=with_deleted):
            versions = registry.state.versions(subject, with_deleted=with_deleted)
            views += versions[-1:] if request.flag("latestOnly") else versions
    return [_view(registry, version, request) for version in request.page(views)]


@_serve("GET", "schemas/types")
def _list_types(registry: Registry, request: Request) -> object:
    del registry, request
    return list(formats.KINDS)


def _versions_of_id(registry: Registry, request: Request) -> list[Version]:
    """Return the versions with the id in the path, in the context that the query names.

    Raises:
        RegistryError: there are none.
    """
    text = request.path["id"]
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", text, re.ASCII):
        raise errors.RegistryError(404, "HTTP 404 Not Found")
    versions = registry.state.versions_of_id(subjects.split(request.text("subject"))[0], int(text))
    if not versions:
        raise errors.schema_not_found(int(text))
    # Relative references are those of the subject that the client reads for.
    subject = subjects.normalize(request.text("subject"))
    return sorted(versions, key=lambda version: version.subject != subject)


@_serve("GET", "schemas/ids/{id}")
def _get_by_id(registry: Registry, request: Request) -> object:
    version = _versions_of_id(registry, request)[0]
    view = _content_view(registry, version, request)
    if request.flag("fetchMaxId"):
        view["maxId"] = registry.state.greatest_id(subjects.split(version.subject)[0])
    place = {"subject": version.subject, "version": version.version, "guid": version.content.guid}
    return {**view, **(place if request.is_lenient else {})}


@_serve("GET", "schemas/ids/{id}/schema")
def _get_text_by_id(registry: Registry, request: Request) -> object:
    return RawText(_content_view(registry, _versions_of_id(registry, request)[0], request)["schema"])


def _places_of_id(registry: Registry, request: Request) -> list[Version]:
    """Return the versions with the id in the path, without the softly deleted ones unless they are wanted."""
    versions = sorted(_versions_of_id(registry, request), key=lambda version: (version.subject, version.version))
    return [version for version in versions if request.flag("deleted") or not version.is_deleted]


@_serve("GET", "schemas/ids/{id}/subjects")
def _list_subjects_of_id(registry: Registry, request: Request) -> object:
    return request.page(dict.fromkeys(version.subject for version in _places_of_id(registry, request)))


@_serve("GET", "schemas/ids/{id}/versions")
def _list_versions_of_id(registry: Registry, request: Request) -> object:
    places = _places_of_id(registry, request)
    return request.page({"subject": version.subject, "version": version.version} for version in places)


def _ids_of_guid(registry: Registry, request: Request) -> list[tuple[str, int, Content]]:
    """Return the context, the id and the content for the guid in the path.

    Raises:
        RegistryError: there are none.
    """
    try:
        guid = str(uuid.UUID(request.path["guid"]))
    except ValueError:
        raise errors.RegistryError(404, "HTTP 404 Not Found") from None
    found = list(registry.state.content_of_guid(guid))
    if not found:
        raise errors.schema_not_found(guid)
    return found


@_serve("GET", "schemas/guids/{guid}")
def _get_by_guid(registry: Registry, request: Request) -> object:
    context, id_, content = _ids_of_guid(registry, request)[0]
    version = registry.state.versions_of_id(context, id_)[0]
    return {**_content_view(registry, version, request), "guid": content.guid}


@_serve("GET", "schemas/guids/{guid}/ids")
def _list_ids_of_guid(registry: Registry, request: Request) -> object:
    return [{"context": context, "id": id_} for context, id_, _ in _ids_of_guid(registry, request)]


# Compatibility


@_serve("POST", "compatibility/subjects/{subject}/versions", "compatibility/subjects/{subject}/versions/{version}")
def _check_compatibility(registry: Registry, request: Request) -> object:
    number = _version_number(request) if "version" in request.path else None
    is_verbose = request.flag("verbose")
    try:
        reasons = registry.check(request.subject, number, _new_schema(request), normalize=request.flag("normalize"))
    except errors.RegistryError as error:
        if error.code != errors.INVALID_SCHEMA or not is_verbose:
            raise
        reasons = [error.message]
    return {"is_compatible": not reasons, **({"messages": reasons} if is_verbose else {})}


# Configuration and modes


@_serve("GET", "config", "config/{subject}")
def _get_config(registry: Registry, request: Request) -> object:
    subject = request.subject
    config = registry.config_in_scope(subject) if request.flag("defaultToGlobal") else registry.config(subject)
    if config is None:
        raise errors.not_found(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
    return config


@_serve("PUT", "config", "config/{subject}")
def _put_config(registry: Registry, request: Request) -> object:
    fields = request.fields()
    level = fields.get("compatibility", fields.get("compatibilityLevel"))
    if level is not None and str(level).upper() not in LEVELS:
        raise errors.unprocessable(
            42203,
            "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
            "forward_transitive, and full_transitive",
        )
    changes: dict[str, Any] = {} if level is None else {"compatibilityLevel": str(level).upper()}
    for name, kind in _CONFIG_FIELDS.items():
        if name in fields:
            changes[name] = _checked_setting(name, fields[name], kind)
    registry.update_config(request.subject, changes)
    return {name: value for name, value in fields.items() if name in {*_CONFIG_FIELDS, "compatibility"}}


def _checked_setting(name: str, value: Any, kind: type) -> Any:
    if value is not None and not isinstance(value, kind):
        raise errors.RegistryError(422, f"{name}: {value!r} is not a {kind.__name__}")
    try:
        return value if value is None or kind is not dict else records.sort_metadata(cast("Mapping[str, Any]", value))
    except (TypeError, AttributeError) as error:
        raise errors.RegistryError(422, f"{name}: {error}") from None


@_serve("DELETE", "config", "config/{subject}")
def _delete_config(registry: Registry, request: Request) -> object:
    return registry.delete_config(request.subject)


@_serve("GET", "mode", "mode/{subject}")
def _get_mode(registry: Registry, request: Request) -> object:
    subject = request.subject
    mode = registry.mode_in_scope(subject) if request.flag("defaultToGlobal") else registry.mode(subject)
    if mode is None:
        raise errors.not_found(40409, f"Subject '{subject}' does not have subject-level mode configured")
    return {"mode": mode}


@_serve("PUT", "mode", "mode/{subject}")
def _put_mode(registry: Registry, request: Request) -> object:
    mode = str(request.fields().get("mode")).upper()
    if mode not in MODES:
        raise errors.unprocessable(42204, "Invalid mode. Valid values are READWRITE, READONLY and IMPORT.")
    registry.set_mode(request.subject, mode, force=request.flag("force"))
    return {"mode": mode}


@_serve("DELETE", "mode", "mode/{subject}")
def _delete_mode(registry: Registry, request: Request) -> object:
    return {"mode": registry.delete_mode(request.subject, recursive=request.flag("recursive"))}


# The registry itself


@_serve("GET", "")
@_serve("POST", "")
def _get_root(registry: Registry, request: Request) -> object:
    del registry, request
    return {}


@_serve("GET", "contexts")
def _list_contexts(registry: Registry, request: Request) -> object:
    return request.page(registry.state.contexts())


@_serve("GET", "v1/metadata/id")
def _get_cluster_id(registry: Registry, request: Request) -> object:
    del request
    clusters = {"kafka-cluster": registry.cluster_id, "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": clusters}}


@_serve("GET", "v1/metadata/version")
def _get_server_version(registry: Registry, request: Request) -> object:
    del registry, request
    return {"version": __version__, "commitId": ""}


@_serve("GET", "associations/resources/{namespace}/{resource}")
def _list_associations(registry: Registry, request: Request) -> object:
    """Return no associations. Clients ask for those of a topic before its first message."""
    del registry, request
    return []
