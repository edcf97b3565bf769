"""JSON Schema as typed nodes, loaded and checked as Confluent's registry does.

Confluent reads drafts 4 to 7 with the library everit and later ones with json-sKema, which it turns into everit's
classes. Its verdicts on compatibility follow from these classes, so the nodes here have the same cut: a schema with
keywords for several types becomes an `allOf` of a node for each.

This is one file of more than 500 lines because the nodes of both families refer to each other.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, TypeAlias, TypeVar, cast
from urllib.parse import unquote, urldefrag, urljoin

from minibroker_registry.json_patterns import check_pattern
from minibroker_registry.json_text import Json, digest_of
from minibroker_registry.schema import Deadline, InvalidSchemaError

DRAFT_4: Final = 4
DRAFT_6: Final = 6
DRAFT_7: Final = 7
DRAFT_2019: Final = 2019
DRAFT_2020: Final = 2020
_DRAFTS: Final = {
    "json-schema.org/schema": DRAFT_4,
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020,
}
_INDEX: Final = re.compile("[0-9]{1,9}")


def draft_of(schema: Json) -> int:
    """Return the draft that a document names, or 7."""
    name = schema.get("$schema") if isinstance(schema, dict) else None
    if name is not None and not isinstance(name, str):
        raise InvalidSchemaError("#/$schema is not a string")
    return _DRAFTS.get((name or "").removesuffix("#").removeprefix("http://").removeprefix("https://"), DRAFT_7)


def with_definitions(document: Json) -> Json:
    """Return a document whose `$defs` have its `definitions`, too. Confluent finds either by `#/$defs/...`."""
    if isinstance(document, dict):
        old, new = document.get("definitions"), document.get("$defs", {})
        if old and isinstance(old, dict) and isinstance(new, dict):
            return {**document, "$defs": {**old, **new}}
    return document


class Documents:
    """A schema and its references, in which the URIs of `$ref` are looked up. Nothing else is read or fetched.

    Attributes:
        draft: The draft whose rules apply.
        resources: The documents by URI. The root is also the one without a URI.
    """

    def __init__(self, root: Json, references: Mapping[str, Json], draft: int) -> None:
        self.draft = draft
        self.id_keyword = "id" if draft == DRAFT_4 else "$id"
        self._is_modern = draft >= DRAFT_2019
        self.base = self.base_of(root, "")
        self.resources: dict[str, Json] = {"": root, self.base: root}
        for name, document in references.items():
            for uri in (name.removesuffix("#"), _join(self.base, name)[0], f"./{name}"):
                self.resources.setdefault(uri, document)

    def base_of(self, schema: Json, base: str) -> str:
        """Return the URI against which references within a schema are resolved."""
        own = schema.get(self.id_keyword) if isinstance(schema, dict) else None
        return _join(base, own)[0] if isinstance(own, str) else base

    def find(self, reference: str, base: str, where: str) -> tuple[Json, str]:
        """Return what a reference refers to, and its base URI.

        Raises:
            InvalidSchemaError: It refers to nothing that is known.
        """
        uri, fragment = _join(base, reference)
        full = f"{uri}#{fragment}" if fragment else uri
        if full in self._targets:
            return self._targets[full]
        own_name = reference.partition("#")[0]
        # Drafts to 7 let a schema with an id of its own point into the root, whose name is empty.
        for name in (uri, own_name) if own_name or not self._is_modern else (uri,):
            if name not in self._targets and (document := _meta_schema(name)) is not None:
                self.resources[name] = document
                self._add_targets(self._targets, document, name)
            if name in self._targets:
                document = self._targets[name][0]
                found = self._follow(document, fragment, uri) if fragment else (document, uri)
                if found is not None:
                    return found
        raise InvalidSchemaError(f"{where}: the reference {reference!r} leads nowhere")

    def _follow(self, value: Json, pointer: str, base: str) -> tuple[Json, str] | None:
        """Return what a JSON pointer leads to, and its base URI, or None if it leads nowhere."""
        if not pointer.startswith("/"):
            return None
        for token in pointer.split("/")[1:]:
            base = self.base_of(value, base)
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
                value = value[int(key)]
            else:
                return None
        return value, base

    @functools.cached_property
    def _targets(self) -> dict[str, tuple[Json, str]]:
        """What a `$ref` can lead to: documents, and schemas with an id or an anchor, each with its base URI."""
        targets = {uri: (document, uri) for uri, document in self.resources.items()}
        for uri, document in self.resources.items():
            self._add_targets(targets, document, uri)
        return targets

    def _add_targets(self, targets: dict[str, tuple[Json, str]], document: Json, uri: str) -> None:
        """Note the URIs of a document and of the schemas in it."""
        targets.setdefault(uri, (document, uri))
        waiting = [(document, uri)]
        while waiting:
            value, base = waiting.pop()
            if isinstance(value, list):
                waiting += [(child, base) for child in value]
            elif isinstance(value, dict):
                own = value.get(self.id_keyword)
                if isinstance(own, str):
                    base, fragment = _join(base, own)
                    targets.setdefault(f"{base}#{fragment}" if fragment else base, (value, base))
                for anchor in (value.get("$anchor"), value.get("$dynamicAnchor")):
                    if isinstance(anchor, str):
                        targets.setdefault(f"{base}#{anchor}", (value, base))
                waiting += [(child, base) for key, child in value.items() if key not in {"enum", "const"}]


def _join(base: str, reference: str) -> tuple[str, str]:
    """Return the URI of a reference, and its fragment."""
    try:
        return urldefrag(urljoin(base, reference))
    except ValueError as error:
        raise InvalidSchemaError(f"{reference!r} is not a URI: {error}") from None


def _meta_schema(uri: str) -> Json:
    """Return one of JSON Schema's own schemas, or None."""
    if "json-schema.org/" not in uri:
        return None
    import jsonschema_specifications as own  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] # rarely used, untyped

    secure = uri.replace("http://", "https://", 1)
    for candidate in (uri, f"{uri}#", secure, secure.replace("https://", "http://", 1), f"http{secure[5:]}#"):
        if candidate in own.REGISTRY:
            return cast("Json", own.REGISTRY.contents(candidate))
    return None


Number: TypeAlias = int | Decimal
_Expected = TypeVar("_Expected")
_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "a boolean",
    str: "a string",
    dict: "an object",
    list: "an array",
    type(None): "null",
}

_SUMS: Final = ("allOf", "anyOf", "oneOf")
_ARRAY: Final = ("minItems", "maxItems", "uniqueItems", "contains")
_OBJECT: Final = ("minProperties", "maxProperties", "properties", "required", "patternProperties", "propertyNames")
_NUMBER: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRING: Final = ("minLength", "maxLength", "pattern")
_SINCE_6: Final = {
    "array": (*_ARRAY, "items", "additionalItems"),
    "object": (*_OBJECT, "additionalProperties", "dependencies"),
    "number": _NUMBER,
    "string": (*_STRING, "format"),
}
"""The keywords for each kind of value, in the order in which they are read."""
_IN_4: Final = {
    kind: tuple(word for word in words if word not in {"contains", "propertyNames"}) for kind, words in _SINCE_6.items()
}
_SINCE_2019: Final = {
    "array": (*_ARRAY, "prefixItems", "items", "unevaluatedItems"),
    "object": (*_OBJECT, "additionalProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
    "number": _NUMBER,
    "string": _STRING,
}
_KNOWN_SINCE_2019: Final = frozenset(
    {
        *(word for words in _SINCE_2019.values() for word in words),
        *("type", "enum", "const", "not", "if", "then", "else", "minContains", "maxContains", "format", *_SUMS),
        *("$ref", "$dynamicRef", "$defs", "$id", "$anchor", "$dynamicAnchor", "$schema", "$vocabulary"),
        *("title", "description", "default", "deprecated", "readOnly", "writeOnly"),
    }
)
_KINDS: Final = {name: name for name in ("array", "boolean", "null", "number", "object", "string")} | {
    "integer": "number"
}
"""The kind of node for each type of JSON Schema."""


@dataclass(slots=True, eq=False)
class Node:
    """A part of a schema.

    Attributes:
        kind: A type of JSON, but `number` for integers, too; or `any`, `never`, `enum`, `const`, `not`, `conditional`,
            `reference`, or `combined`.
        has_default: Whether the schema has a default. In the later drafts null is none.
        is_connect_bytes: Whether Kafka Connect calls it bytes.
        target: What a reference refers to, which may be a reference.
        limits: The numbers of keywords such as `maxLength`.
        values: Digests of the values of an enum or a const.
        criterion: `allOf`, `anyOf` or `oneOf`.
        parts: The schemas of a combination, or the one of `not`.
        digests: A digest for each of a combination's parts.
        is_implied: Whether it is an `allOf` that the schema does not name: its keywords are for several kinds of value.
        additional: Whether a property or an item is allowed that the schema does not name, or the schema for it.
        unevaluated: The schema of `unevaluatedProperties` or `unevaluatedItems`.
        items: The schema of all items, if there are no `positions`.
    """

    kind: str
    has_default: bool = False
    is_connect_bytes: bool = False
    target: "Node | None" = None
    limits: dict[str, Number] = field(default_factory=dict[str, Number])
    is_integer: bool = False
    pattern: str | None = None
    values: frozenset[str] = frozenset()
    criterion: str = ""
    parts: "list[Node]" = field(default_factory=list["Node"])
    digests: list[str] = field(default_factory=list[str])
    is_implied: bool = False
    properties: "dict[str, Node]" = field(default_factory=dict[str, "Node"])
    patterns: "dict[str, Node]" = field(default_factory=dict[str, "Node"])
    required: frozenset[str] = frozenset()
    dependencies: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    dependent_schemas: "dict[str, Node]" = field(default_factory=dict[str, "Node"])
    additional: "bool | Node" = True
    unevaluated: "Node | None" = None
    items: "Node | None" = None
    positions: "list[Node]" = field(default_factory=list["Node"])
    is_unique: bool = False

    def resolved(self) -> "Node":
        """Return the node itself, or what it leads to in the end, which is a reference only in a circle."""
        node, passed = self, set[int]()
        while node.target is not None and id(node) not in passed:
            passed.add(id(node))
            node = node.target
        return node


class Loader:
    """Turns JSON into nodes.

    Args:
        documents: Where references are looked up.

    Attributes:
        nodes: The nodes of all objects that were loaded as schemas, by the identities of the objects.
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._draft = draft = documents.draft
        self._is_modern = draft >= DRAFT_2019
        self._keywords = _SINCE_2019 if self._is_modern else _IN_4 if draft == DRAFT_4 else _SINCE_6
        self.nodes: dict[int, Node] = {}
        self._references: list[tuple[Node, Json]] = []
        self._waiting: list[tuple[Json, str, str]] = []
        self._digests: dict[int, str] = {}
        self._pieces: list[Json] = []
        self._deadline = Deadline(error=InvalidSchemaError)

    def load(self, root: Json) -> Node:
        """Load a document, and all that its references lead to.

        Raises:
            InvalidSchemaError: The document is no schema, or a reference leads nowhere.
        """
        if not isinstance(root, dict | bool):
            raise InvalidSchemaError(f"expected an object or boolean at the root, found {_name_of(root)}")
        node = self._load(root, "", "#")
        while self._waiting:
            target, base, where = self._waiting.pop()
            if id(target) not in self.nodes:
                self._load(target, base, where)
        for reference, target in self._references:
            reference.target = self.nodes[id(target)]
        return node

    def _load(self, schema: Json, base: str, where: str) -> Node:
        """Load a schema. What it refers to is loaded later."""
        self._deadline.check()
        known = self.nodes.get(id(schema))
        if known is not None:
            return known
        if isinstance(schema, dict):
            node = self._load_object(schema, self._documents.base_of(schema, base), where)
        elif isinstance(schema, bool):
            node = Node("any" if schema else "never")
        else:
            raise InvalidSchemaError(f"{where}: expected a boolean or an object, found {_name_of(schema)}")
        self.nodes[id(schema)] = node
        return node

    def _load_object(self, schema: dict[str, Json], base: str, where: str) -> Node:
        for keyword in ("title", "description", "format", self._documents.id_keyword, "$ref", "$dynamicRef"):
            if keyword in schema:
                _expect(schema[keyword], str, f"{where}/{keyword}")
        if "$ref" in schema and not self._is_modern:
            node = self._refer(schema["$ref"], base, where)
        else:
            parts = [*self._load_parts(schema, base, where)]
            if len(parts) == 1:
                node = parts[0][0]
                if self._is_modern and (schema.keys() - _KNOWN_SINCE_2019 or schema.get("$defs")):
                    node.unevaluated = None  # Confluent keeps other keywords in its place, such as $defs.
            elif not parts:
                node = Node("any")
            else:
                node = Node("combined", criterion="allOf", parts=[part for part, _ in parts], is_implied=True)
                # Digests are kept by the identity of what they are of, so the pieces stay in memory.
                pieces: list[Json] = [{word: schema[word] for word in words if word in schema} for _, words in parts]
                self._pieces += pieces
                node.digests = [digest_of(piece, self._digests) for piece in pieces]
        node.has_default = "default" in schema and (not self._is_modern or schema["default"] is not None)
        node.is_connect_bytes = schema.get("connect.type") == "bytes"
        return node

    def _load_parts(self, schema: dict[str, Json], base: str, where: str) -> Iterator[tuple[Node, Iterable[str]]]:
        """Yield a node for each kind of constraint of a schema, and the keywords that it has."""
        if self._is_modern:
            for keyword in ("$ref", "$dynamicRef"):
                if keyword in schema:
                    yield self._refer(schema[keyword], base, f"{where}/{keyword}"), [keyword]
            self._load_map(schema.get("$defs", {}), base, f"{where}/$defs")
        if "enum" in schema:
            values = _array(schema["enum"], f"{where}/enum")
            yield Node("enum", values=frozenset(digest_of(value, self._digests) for value in values)), ["enum"]
        for criterion in _SUMS:
            if criterion in schema:
                yield self._load_sum(criterion, schema[criterion], base, f"{where}/{criterion}"), [criterion]
        if "not" in schema:
            yield Node("not", parts=[self._load(schema["not"], base, f"{where}/not")]), ["not"]
        if "const" in schema and self._draft != DRAFT_4:
            yield Node("const", values=frozenset({digest_of(schema["const"], self._digests)})), ["const"]
        yield from self._load_types(schema, base, where)
        conditions = [word for word in ("if", "then", "else") if word in schema]
        if conditions and ("if" in conditions if self._is_modern else self._draft == DRAFT_7):
            for word in conditions:
                self._load(schema[word], base, f"{where}/{word}")
            yield Node("conditional"), conditions

    def _load_sum(self, criterion: str, value: Json, base: str, where: str) -> Node:
        """Load `allOf`, `anyOf` or `oneOf`."""
        node = Node("combined", criterion=criterion)
        for part, member in zip(self._load_list(value, base, where), _array(value, where), strict=True):
            if self._is_modern and part.is_implied:  # Confluent takes its parts for parts of the sum.
                node.parts += part.parts
                node.digests += part.digests
            else:
                node.parts.append(part)
                node.digests.append(digest_of(member, self._digests))
        return node

    def _load_types(self, schema: dict[str, Json], base: str, where: str) -> Iterator[tuple[Node, Iterable[str]]]:
        """Yield a node for `type`, and one for each other type of which there are keywords, and the keywords."""
        given = schema.get("type", [])
        names = given if isinstance(given, list) else [given]
        types = list(dict.fromkeys(_type_name(name, where) for name in names))
        words = ["type", *(word for name in types for word in self._keywords.get(_KINDS[name], ()))]
        if isinstance(given, str):
            yield self._load_type(given, schema, base, where), words
        elif "type" in schema:
            nodes = [self._load_type(name, schema, base, where) for name in types]
            yield Node("combined", criterion="anyOf", parts=nodes, digests=types), words
        kinds = {_KINDS[name] for name in types}
        # json-sKema forgets properties that are none.
        forgotten = {"properties", "patternProperties"} if self._is_modern else ()
        given_keywords = {key for key in schema if key not in forgotten or schema[key]}
        for kind, keywords in self._keywords.items():
            if kind not in kinds and not given_keywords.isdisjoint(keywords):
                yield self._load_type(kind, schema, base, where), keywords

    def _load_type(self, name: str, schema: dict[str, Json], base: str, where: str) -> Node:
        """Load the constraints for the values of one type."""
        kind = _KINDS[name]
        node = Node(kind, is_integer=name == "integer")
        for keyword in self._keywords.get(kind, ()):
            if keyword in schema:
                self._load_keyword(node, keyword, schema[keyword], base, f"{where}/{keyword}")
        if kind == "array" and ("contains" in schema or not self._is_modern):
            counts = {"minContains": 1, **schema} if self._is_modern else schema
            for keyword in ("minContains", "maxContains"):
                count = counts.get(keyword)
                if isinstance(count, int | Decimal) and not isinstance(count, bool):
                    node.limits[keyword] = count
        return node

    def _load_keyword(self, node: Node, keyword: str, value: Json, base: str, where: str) -> None:  # noqa: C901, PLR0912 - a case for each
        match keyword:
            case "properties":
                node.properties = self._load_map(value, base, where)
            case "patternProperties":
                node.patterns = self._load_map(value, base, where)
                for pattern in node.patterns:
                    check_pattern(pattern, where)
            case "dependentSchemas":
                node.dependent_schemas = self._load_map(value, base, where)
            case "dependencies" | "dependentRequired":
                for name, dependency in _object(value, where).items():
                    if isinstance(dependency, list) or keyword == "dependentRequired":
                        node.dependencies[name] = _names(dependency, f"{where}/{name}")
                    else:
                        node.dependent_schemas[name] = self._load(dependency, base, f"{where}/{name}")
            case "required":
                node.required = _names(value, where)
            case "additionalProperties":
                node.additional = self._load_unless_bool(value, base, where)
            case "additionalItems":
                rest = self._load_unless_bool(value, base, where)
                # It means nothing if there is one schema for all items.
                node.additional = True if node.items is not None and rest is False else rest
            case "unevaluatedProperties" | "unevaluatedItems":
                node.unevaluated = self._load(value, base, where)
            case "contains" | "propertyNames":
                self._load(value, base, where)
            case "uniqueItems":
                node.is_unique = _expect(value, bool, where)
            case "items" if self._is_modern and (isinstance(value, bool) or node.positions):
                node.additional = self._load_unless_bool(value, base, where)
            case "items" if self._is_modern or not isinstance(value, list):
                node.items = self._load(value, base, where)
            case "items" | "prefixItems":
                node.positions = self._load_list(value, base, where)
            case "pattern":
                node.pattern = _expect(value, str, where)
                check_pattern(node.pattern, where)
            case "format":
                pass  # It is not compared.
            case _:
                self._add_limit(node, keyword, value, where)

    def _add_limit(self, node: Node, keyword: str, value: Json, where: str) -> None:
        if keyword.startswith("exclusive") and self._draft == DRAFT_4:
            _expect(value, bool, where)  # Confluent does not compare it.
            return
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise InvalidSchemaError(f"{where}: expected a number, found {_name_of(value)}")
        if keyword not in _NUMBER and not self._is_modern and not isinstance(value, int):
            raise InvalidSchemaError(f"{where}: expected an integer, found {value}")
        if keyword == "multipleOf" and not value:
            raise InvalidSchemaError(f"{where}: multipleOf should not be 0")
        node.limits[keyword] = value

    def _load_unless_bool(self, value: Json, base: str, where: str) -> bool | Node:
        return value if isinstance(value, bool) else self._load(value, base, where)

    def _load_map(self, value: Json, base: str, where: str) -> dict[str, Node]:
        """Load the schemas in an object. What has the name of the keyword for ids may be something else."""
        return {
            name: self._load(member, base, f"{where}/{name}")
            for name, member in _object(value, where).items()
            if name != self._documents.id_keyword or isinstance(member, dict)
        }

    def _load_list(self, value: Json, base: str, where: str) -> list[Node]:
        members = _array(value, where)
        return [self._load(member, base, f"{where}/{index}") for index, member in enumerate(members)]

    def _refer(self, reference: Json, base: str, where: str) -> Node:
        node = Node("reference")
        target, target_base = self._documents.find(str(reference), base, where)
        self._references.append((node, target))
        self._waiting.append((target, target_base, str(reference)))
        return node


def _expect(value: Json, kind: type[_Expected], where: str) -> _Expected:
    """Return a value if it is of a type."""
    if not isinstance(value, kind):
        raise InvalidSchemaError(f"{where}: expected {_TYPE_NAMES[kind]}, found {_name_of(value)}")
    return value


def _object(value: Json, where: str) -> dict[str, Json]:
    return cast("dict[str, Json]", _expect(value, dict, where))


def _array(value: Json, where: str) -> list[Json]:
    return cast("list[Json]", _expect(value, list, where))


def _names(value: Json, where: str) -> frozenset[str]:
    names = _array(value, where)
    return frozenset(_expect(name, str, f"{where}/{index}") for index, name in enumerate(names))


def _type_name(name: Json, where: str) -> str:
    if not isinstance(name, str) or name not in _KINDS:
        raise InvalidSchemaError(f"{where}: unknown type: [{name}]")
    return name


def _name_of(value: Json) -> str:
    """Return the name of a value's type in JSON, for a message."""
    return next((name for kind, name in _TYPE_NAMES.items() if isinstance(value, kind)), "a number")
