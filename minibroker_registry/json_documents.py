"""The documents of a JSON Schema, in which references are looked up."""

import functools
import re
from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import unquote, urldefrag, urljoin

from minibroker_registry.json_text import Json
from minibroker_registry.schema import InvalidSchemaError

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
        """The documents, and the schemas with an id or an anchor, each with its base URI."""
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
