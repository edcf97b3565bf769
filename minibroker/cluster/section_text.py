"""Sections of the cluster's metadata as JSON text, made in slices.

An entry of a section is an element of a list, or a value of one of its objects' objects. Its text is kept while the
same entry is in the section: a change costs what has changed, and a look at each of the others.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from minibroker.support.slices import Steps

_BY_STEP: Final = 100
_DEPTH: Final = 2
_MANY: Final = 1000
"""An entry with more elements than this is taken apart."""


class SectionText:
    """The text of one section.

    Attributes:
        value: the section that `text` is of.
    """

    __slots__ = ("_known", "text", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.text = "null"
        self._known: dict[int, tuple[Any, str]] = {}  # by identity, which an entry keeps as long as it is in here

    def encode(self, value: Any) -> Steps[None]:
        """Take in another value, which stays as it is from now on. Nothing has changed if the steps do not end."""
        if value is self.value:
            return
        known: dict[int, tuple[Any, str]] = {}
        parts: list[str] = []
        for number, part in enumerate(self._parts(value, _DEPTH, known)):
            parts.append(part)
            if not number % _BY_STEP:
                yield
        self.value, self.text, self._known = value, "".join(parts), known

    def _parts(self, value: Any, depth: int, known: dict[int, tuple[Any, str]]) -> Iterator[str]:
        if isinstance(value, dict) and depth:
            yield "{"
            for number, (name, each) in enumerate(cast("dict[str, Any]", value).items()):
                yield f"{', ' if number else ''}{json.dumps(name)}: "
                yield from self._parts(each, depth - 1, known)
            yield "}"
        elif isinstance(value, list | tuple) and depth:
            yield "["
            for number, each in enumerate(cast("Sequence[Any]", value)):
                if number:
                    yield ", "
                yield from self._parts(each, 0, known)
            yield "]"
        elif isinstance(value, dict | list | tuple):
            yield from self._entry(cast("dict[str, Any] | Sequence[Any]", value), known)
        else:
            yield json.dumps(value)

    def _entry(self, entry: dict[str, Any] | Sequence[Any], known: dict[int, tuple[Any, str]]) -> Iterator[str]:
        kept = self._known.get(id(entry))
        if kept is None:
            elements = entry.values() if isinstance(entry, dict) else entry
            if len(entry) > _MANY or any(
                isinstance(each, list | tuple) and len(cast("Sequence[Any]", each)) > _MANY for each in elements
            ):
                parts: list[str] = []
                for part in self._parts(entry, _DEPTH, known):
                    parts.append(part)
                    yield ""  # a step, and none of its text yet
                kept = entry, "".join(parts)
            else:
                kept = entry, json.dumps(entry)
        known[id(entry)] = kept
        yield kept[1]
