"""The endpoints of the registry's HTTP interface."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from minibroker.config.version import __version__
from minibroker_registry import errors, formats, records, subjects
from minibroker_registry.formats import LEVELS
from minibroker_registry.records import Version
from minibroker_registry.registry import LATEST, MODES, NewSchema, Registry
from minibroker_registry.schema import InvalidSchemaError
from minibroker_registry.state import State

_MAX_INTEGER: Final = 2**31 - 1
_RULE_NAME: Final = re.compile(r"[^\W\d][\w-]{0,255}")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """A request to an endpoint.

    Attributes:
        registry: The registry.
        path: The parameters in the path, decoded.
        query: The values of each query parameter.
        body: The JSON of the body, or None.
        is_lenient: Whether the client accepts fields that it does not know.
        context: The context at the beginning of the path, as `:.ctx:` or an empty string for the default one, or None.
            It holds for subjects and prefixes without a context of their own.
    """

    registry: Registry
    path: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: Any
    is_lenient: bool
    context: str | None = None

    @property
    def state(self) -> State:
        """The state of the registry."""
        return self.registry.state

    def text(self, name: str, default: str = "") -> str:
        """Return the value of a query parameter."""
        return self.query.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        """Return whether a query parameter is true."""
        return self.text(name).lower() == "true"

    def page(self, items: Iterable[T]) -> list[T]:
        """Return the items that `offset` and `limit` select. Without a positive limit all are taken.

        Raises:
            RegistryError: one of them is not a number.
        """
        try:
            offset, limit = (records.check_integer(self.text(name) or "0") for name in ("offset", "limit"))
        except (TypeError, ValueError):
            raise errors.refusal(404) from None
        return list(items)[max(offset, 0) :][: limit if limit > 0 else None]

    def fields(self) -> Mapping[str, Any]:
        """Return the body.

        Raises:
            RegistryError: it is not a JSON object.
        """
        body: object = self.body
        if body is None:
            raise errors.RegistryError(422, "the body must not be null")
        if not isinstance(body, dict):
            raise errors.RegistryError(400, "the body is not a JSON object")
        return cast("Mapping[str, Any]", self.body)

    def _qualify(self, name: str) -> str:
        """Return a subject or a prefix, with the context of the path if it has none."""
        return name if name.startswith((":.", subjects.ALL_CONTEXTS)) else (self.context or "") + name

    @property
    def scope(self) -> str:
        """What settings in the path are for: a qualified subject, a context, or an empty string."""
        return subjects.normalize(self._qualify(self.path.get("subject", "")))

    @property
    def subject(self) -> str:
        """The qualified subject in the path, or the one that its alias names."""
        return subjects.normalize(self.state.target_of(self.scope))

    def prefix(self, default: str = "") -> str:
        """Return the prefix of the wanted subjects. The default is for paths without a context."""
        return self._qualify(self.text("subjectPrefix", default if self.context is None else ""))

    def version_number(self) -> int:
        """Return the version in the path, `LATEST` for `latest`.

        Raises:
            RegistryError: it is not a version.
        """
        text = self.path["version"].strip()
        if text.lower() == "latest":
            return LATEST
        number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,10}", text, re.ASCII) else 0
        if number != LATEST and not 1 <= number <= _MAX_INTEGER:
            raise errors.refusal(42202, text)
        return number

    def version(self, *, with_deleted: bool = False) -> Version:
        """Return the version in the path.

        Raises:
            RegistryError: there is none.
        """
        number, with_deleted = self.version_number(), with_deleted or self.flag("deleted")
        for subject in self.state.namesakes(self.subject):
            version = self.state.version(subject, number, with_deleted=with_deleted)
            if version is not None:
                return version
        self.registry.versions(self.subject, with_deleted=with_deleted)  # The subject may be unknown.
        raise errors.refusal(40402, number)

    def versions_of_id(self) -> list[Version]:
        """Return the versions with the id in the path, that of the subject in the query first.

        Raises:
            RegistryError: there are none.
        """
        text = self.path["id"]
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", text, re.ASCII) or abs(int(text)) > _MAX_INTEGER:
            raise errors.refusal(404)
        wanted = subjects.normalize(self.state.target_of(self._qualify(self.text("subject"))))
        for subject in self.state.namesakes(wanted):
            versions = self.state.versions_of_id(subjects.split(subject)[0], int(text))
            if any(version.subject == subject for version in versions):
                # Relative references are those of the subject that the client reads for.
                return sorted(versions, key=lambda version: version.subject != subject)
        context, name = subjects.split(wanted)
        versions = self.state.versions_of_id(context, int(text))
        if not versions or (name and context != subjects.DEFAULT_CONTEXT):
            raise errors.refusal(40403, int(text))
        return versions

    def places_of_id(self) -> list[Version]:
        """Return the versions with the id in the path, without the softly deleted ones unless they are wanted."""
        versions = sorted(self.versions_of_id(), key=lambda version: (version.subject, version.version))
        return [version for version in versions if self.flag("deleted") or not version.is_deleted]

    def new_schema(self) -> NewSchema:
        """Return the schema in the body.

        Raises:
            RegistryError: the body has other types.
        """
        fields = self.fields()
        try:
            id_, version = (records.check_integer(fields.get(name) or 0) for name in ("id", "version"))
            content = records.read_content({**fields, "schema": fields.get("schema") or ""})
        except (TypeError, ValueError, AttributeError) as error:
            message = f"the body is not a schema with its references and metadata: {error}"
            raise errors.RegistryError(400, message) from None
        _check_rule_set(content.rule_set or {})
        is_given = fields.get("id") is not None and id_ >= 0
        return NewSchema(content, id_ if is_given else None, version)

    def content(self, version: Version) -> dict[str, Any]:
        """Return the fields of a schema in the requested format."""
        content, form = version.content, self.text("format")
        view = records.content_fields(content)
        try:
            view["schema"] = self.registry.parsed(version).formatted(form) if form else content.text
        except ValueError as error:  # Protobuf's descriptors cannot hold a schema that contradicts itself.
            raise InvalidSchemaError(str(error)) from None
        if self.text("referenceFormat").lower() == "qualified":
            for reference in view.get("references", ()):
                reference["subject"] = subjects.qualify(reference["subject"], version.subject)
        if self.is_lenient:
            view |= {"schemaType": content.kind, "guid": content.guid}
            view |= {"ts": version.timestamp, "deleted": version.is_deleted}
        return view

    def view(self, version: Version) -> dict[str, Any]:
        """Return a version as JSON."""
        return {**records.version_fields(version), **self.content(version)}


class RawText(str):
    """An answer that is sent as it is, not as a JSON string."""

    __slots__ = ()


def _register(request: Request) -> object:
    options = {name: request.flag(name) for name in ("normalize", "force")}
    version = request.registry.register(request.subject, request.new_schema(), **options)
    if version.content.metadata or version.content.rule_set:  # Configuration and earlier versions may have added some.
        return request.view(version)
    # Clients believe that the registry has changed a schema if the answer has its text. The one for Python also expects
    # a descriptor in place of a Protobuf schema's text.
    extra = {"version": version.version, "guid": version.content.guid} if request.is_lenient else {}
    return {"id": version.id, **extra}


def _look_up(request: Request) -> object:
    normalize, with_deleted = request.flag("normalize"), request.flag("deleted")
    new = request.new_schema()
    return request.view(request.registry.look_up(request.subject, new, normalize=normalize, with_deleted=with_deleted))


def _list_subjects(request: Request) -> object:
    only_deleted, prefix = request.flag("deletedOnly"), request.prefix(subjects.ALL_CONTEXTS)
    found = request.state.subjects(prefix, with_deleted=only_deleted or request.flag("deleted"))
    live = set(request.state.subjects(prefix, with_deleted=False)) if only_deleted else ()
    return request.page(subject for subject in found if subject not in live)


def _list_versions(request: Request) -> object:
    only_deleted = request.flag("deletedOnly")
    versions = request.registry.versions(request.subject, with_deleted=only_deleted or request.flag("deleted"))
    return request.page(version.version for version in versions if version.is_deleted or not only_deleted)


def _list_referrers(request: Request) -> object:
    version = request.version(with_deleted=True)
    referrers = request.state.referrers(version.subject, version.version, with_deleted=request.flag("deleted"))
    return request.page(sorted({referrer.id for referrer in referrers}))


def _find_by_metadata(request: Request) -> object:
    wanted = dict(zip(request.query.get("key", []), request.query.get("value", []), strict=False))
    versions = request.registry.versions(request.subject, with_deleted=request.flag("deleted"))
    for version in reversed(versions):
        properties: Mapping[str, str] | None = (version.content.metadata or {}).get("properties")
        if properties is not None and wanted.items() <= properties.items():
            return request.view(version)
    raise errors.RegistryError(40403, "Schema not found")


def _list_schemas(request: Request) -> object:
    prefix, rule_type = request.prefix(), request.text("ruleType")
    with_deleted, only_latest = request.flag("deleted"), request.flag("latestOnly")
    aliases = request.state.aliases(prefix) if request.flag("aliases") else {}
    found: list[Version] = []
    for subject in sorted({*request.state.subjects(prefix, with_deleted=with_deleted), *aliases}):
        versions = request.state.versions(subject, with_deleted=with_deleted)
        found += versions[-1:] if only_latest else versions
    if rule_type:
        found = [version for version in found if rule_type in records.rule_types(version.content.rule_set)]
    return [
        {**request.view(version), **({"aliases": aliases[version.subject]} if version.subject in aliases else {})}
        for version in request.page(found)
    ]


def _get_by_id(request: Request) -> object:
    version = request.versions_of_id()[0]
    view = request.content(version)
    if request.flag("fetchMaxId"):
        view["maxId"] = request.state.greatest_ids[subjects.split(version.subject)[0]]
    return {**view, **({"subject": version.subject, "version": version.version} if request.is_lenient else {})}


def _list_versions_of_id(request: Request) -> object:
    places = request.places_of_id()
    return request.page({"subject": version.subject, "version": version.version} for version in places)


def _get_by_guid(request: Request) -> object:
    versions = request.state.versions_of_guid(request.path["guid"])
    if not versions:
        raise errors.refusal(40403, request.path["guid"])
    return {**request.content(versions[0]), "guid": versions[0].content.guid}


def _list_ids_of_guid(request: Request) -> object:
    versions = request.state.versions_of_guid(request.path["guid"])
    return [{"context": subjects.split(version.subject)[0], "id": version.id} for version in versions]


def _check_compatibility(request: Request) -> object:
    number = request.version_number() if "version" in request.path else None
    is_verbose, normalize = request.flag("verbose"), request.flag("normalize")
    try:
        reasons = request.registry.check(request.subject, number, request.new_schema(), normalize=normalize)
    except errors.RegistryError as error:
        if error.code != errors.INVALID_SCHEMA or not is_verbose:
            raise
        reasons = [error.message]
    return {"is_compatible": not reasons, **({"messages": reasons} if is_verbose else {})}


def _get_settings(request: Request, kind: str, code_of_none: int) -> object:
    find = request.registry.settings_in_scope if request.flag("defaultToGlobal") else request.registry.settings
    found = find(kind, request.scope)
    if found is None:
        raise errors.refusal(code_of_none, request.scope)
    return found


def _put_config(request: Request) -> object:
    fields = request.fields()
    try:
        changes = {
            name: None if fields[given] is None else convert(fields[given])
            for name, (given, convert) in _SETTINGS.items()
            if given in fields
        }
    except (TypeError, ValueError, AttributeError) as error:
        raise errors.RegistryError(400, f"the body is not a configuration: {error}") from None
    if changes.get("compatibilityLevel") not in {None, *LEVELS}:
        raise errors.refusal(42203)
    config = request.registry.update_config(request.scope, changes)
    return {_SETTINGS[name][0]: value for name, value in config.items() if name in _SETTINGS}


def _to_boolean(value: object) -> bool:
    if not isinstance(value, bool | int) and value not in {"true", "false"}:
        raise TypeError(f"{value!r} is not a boolean")
    return value != "false" and bool(value)


def _check_rule_set(rule_set: records.RuleSet) -> records.RuleSet:
    """Check that clients can apply a rule set, and return it.

    Raises:
        RegistryError: a rule lacks a name or type, has the name of another one, or a mode that is not allowed there.
    """
    names = set[str]()
    for phase, modes in records.RULE_MODES.items():
        for rule in rule_set.get(phase, ()):
            name, actions = rule.get("name", ""), rule.get("onSuccess", "") + rule.get("onFailure", "")
            flaws = {
                "it must be a letter or _, and then letters, digits, _ and -": not _RULE_NAME.fullmatch(name),
                "another rule has this name": name in names,
                "the type is missing": "type" not in rule,
                f"the mode in {phase} must be one of {', '.join(modes)}": rule["mode"] not in modes,
                "its mode takes one action, not two": "," in actions and rule["mode"] not in {"WRITEREAD", "UPDOWN"},
            }
            names.add(name)
            if any(flaws.values()):
                flaw = next(flaw for flaw in flaws if flaws[flaw])
                raise errors.RegistryError(42210, f"Invalid rule {name!r}: {flaw}")
    return rule_set


def _to_upper(value: object) -> str:
    return records.check_text(value).upper()


_SETTINGS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "alias": ("alias", lambda value: records.check_text(value) or None),
    "aliasForDeks": ("aliasForDeks", records.check_text),
    "normalize": ("normalize", _to_boolean),
    "validateFields": ("validateFields", _to_boolean),
    "validateNewSchemas": ("validateNewSchemas", _to_boolean),
    "validateRules": ("validateRules", _to_boolean),
    "compatibilityLevel": ("compatibility", _to_upper),
    "compatibilityPolicy": (
        "compatibilityPolicy",
        lambda value: policy if (policy := _to_upper(value)) in {"STRICT", "LENIENT"} else None,
    ),
    "compatibilityGroup": ("compatibilityGroup", records.check_text),
    "defaultMetadata": ("defaultMetadata", records.sort_metadata),
    "overrideMetadata": ("overrideMetadata", records.sort_metadata),
    "defaultRuleSet": ("defaultRuleSet", lambda value: _check_rule_set(records.read_rule_set(value))),
    "overrideRuleSet": ("overrideRuleSet", lambda value: _check_rule_set(records.read_rule_set(value))),
}
"""The settings by their names in records: the names in PUT /config, and functions that check and convert values."""


def _put_mode(request: Request) -> object:
    sent = request.fields().get("mode")
    mode = None if sent is None else str(sent).upper()
    if mode is not None and mode not in MODES:
        raise errors.RegistryError(42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.")
    if mode == "FORWARD" and request.scope != subjects.GLOBAL:
        raise errors.RegistryError(42204, "Forward mode only supported on global level")
    request.registry.set_mode(request.scope, mode, force=request.flag("force"))
    return {"mode": sent}


def _list_contexts(request: Request) -> object:
    prefix = request.text("contextPrefix")
    return request.page(context for context in request.state.contexts() if context.startswith(prefix))


def _get_cluster_id(request: Request) -> object:
    clusters = {"kafka-cluster": request.registry.log.cluster_id, "schema-registry-cluster": "schema-registry"}
    return {"scope": {"path": [], "clusters": clusters}}


Handler = Callable[[Request], Any]
_CONFIG: Final[Mapping[str, Handler]] = {
    "GET": lambda request: _get_settings(request, "CONFIG", 40408),
    "PUT": _put_config,
    "DELETE": lambda request: request.registry.delete_settings("CONFIG", request.scope),
}
_MODE: Final[Mapping[str, Handler]] = {
    "GET": lambda request: _get_settings(request, "MODE", 40409),
    "PUT": _put_mode,
    "DELETE": lambda request: (
        request.registry.delete_settings("MODE", request.scope, recursive=request.flag("recursive")) or {}
    ),
}
ROUTES: Final[Mapping[str, Mapping[str, Handler]]] = {
    "": {"GET": lambda _: {}, "POST": lambda _: {}},
    "subjects": {"GET": _list_subjects},
    "subjects/{subject}": {
        "POST": _look_up,
        "DELETE": lambda request: request.registry.delete_subject(request.subject, permanent=request.flag("permanent")),
    },
    "subjects/{subject}/metadata": {"GET": _find_by_metadata},
    "subjects/{subject}/versions": {"GET": _list_versions, "POST": _register},
    "subjects/{subject}/versions/{version}": {
        "GET": lambda request: request.view(request.version()),
        "DELETE": lambda request: request.registry.delete_version(
            request.subject, request.version_number(), permanent=request.flag("permanent")
        ),
    },
    "subjects/{subject}/versions/{version}/schema": {
        "GET": lambda request: RawText(request.content(request.version())["schema"])
    },
    "subjects/{subject}/versions/{version}/referencedby": {"GET": _list_referrers},
    "schemas": {"GET": _list_schemas},
    "schemas/types": {"GET": lambda _: [*formats.KINDS]},
    "schemas/ids/{id}": {"GET": _get_by_id},
    "schemas/ids/{id}/schema": {"GET": lambda request: RawText(request.content(request.versions_of_id()[0])["schema"])},
    "schemas/ids/{id}/subjects": {
        "GET": lambda request: request.page(dict.fromkeys(version.subject for version in request.places_of_id()))
    },
    "schemas/ids/{id}/versions": {"GET": _list_versions_of_id},
    "schemas/guids/{guid}": {"GET": _get_by_guid},
    "schemas/guids/{guid}/ids": {"GET": _list_ids_of_guid},
    "compatibility/subjects/{subject}/versions": {"POST": _check_compatibility},
    "compatibility/subjects/{subject}/versions/{version}": {"POST": _check_compatibility},
    "config": _CONFIG,
    "config/{subject}": _CONFIG,
    "mode": _MODE,
    "mode/{subject}": _MODE,
    "contexts": {"GET": _list_contexts},
    "contexts/{context}": {
        "DELETE": lambda request: request.registry.delete_context(
            subjects.join(subjects.context_name(request.path["context"]), "")
        )
    },
    "v1/metadata/id": {"GET": _get_cluster_id},
    "v1/metadata/version": {"GET": lambda _: {"version": __version__, "commitId": ""}},
    "v1/metadata/deployment": {"GET": lambda _: {"attributes": []}},
    # Clients ask for the associations of a topic before its first message. There are none.
    "associations/resources/{namespace}/{resource}": {"GET": lambda _: []},
    "associations/subjects/{subject}": {"GET": lambda _: []},
}
"""The handlers of each path by method. A part `{name}` of a path is a parameter."""
