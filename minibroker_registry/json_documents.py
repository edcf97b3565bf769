"""The documents of a JSON Schema, in which references are looked up."""

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
        self._anchors: dict[str, tuple[Json, str]] | None = None

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
        if full in self.resources:
            return self.resources[full], full
        if fragment.startswith("/"):
            for document in (self._find_document(uri, reference), self._root_for(reference)):
                found = None if document is None else self._follow(document, fragment, uri)
                if found is not None:
                    return found
            raise InvalidSchemaError(f"{where}: the reference {reference!r} leads nowhere")
        anchored = self._anchor(full)
        if anchored is not None:
            return anchored
        document = None if fragment else self._find_document(uri, reference)
        if document is None:
            raise InvalidSchemaError(f"{where}: the reference {reference!r} leads nowhere")
        return document, uri

    def _find_document(self, uri: str, reference: str) -> Json:
        """Return the document with this URI, or else the one whose name a reference begins with, or None."""
        name = reference.partition("#")[0]
        for candidate in (uri, name) if name else (uri,):
            if candidate in self.resources:
                return self.resources[candidate]
        anchored = self._anchor(uri)
        if anchored:
            return anchored[0]
        document = _meta_schema(uri)
        if document is not None:
            self.resources[uri] = document
            self._anchors = None
        return document

    def _root_for(self, reference: str) -> Json:
        """Return the root for a pointer into it from a schema with an id of its own, which drafts to 7 allow."""
        return self.resources[""] if reference.startswith("#") and not self._is_modern else None

    def _follow(self, value: Json, pointer: str, base: str) -> tuple[Json, str] | None:
        """Return what a JSON pointer leads to, and its base URI, or None if it leads nowhere."""
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

    def _anchor(self, uri: str) -> tuple[Json, str] | None:
        """Return the schema with an id or an anchor, and its base URI."""
        if self._anchors is None:
            self._anchors = {}
            waiting = [(document, base) for base, document in self.resources.items()]
            while waiting:
                value, base = waiting.pop()
                if isinstance(value, dict):
                    base = self._add_anchors(value, base, self._anchors)
                    waiting += [(child, base) for key, child in value.items() if key not in {"enum", "const"}]
                elif isinstance(value, list):
                    waiting += [(child, base) for child in value]
        return self._anchors.get(uri)

    def _add_anchors(self, schema: dict[str, Json], base: str, anchors: dict[str, tuple[Json, str]]) -> str:
        """Note the ids and anchors of a schema, and return its base URI."""
        own = schema.get(self.id_keyword)
        if isinstance(own, str):
            base, fragment = _join(base, own)
            anchors.setdefault(f"{base}#{fragment}" if fragment else base, (schema, base))
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                anchors.setdefault(f"{base}#{anchor}", (schema, base))
        return base


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
