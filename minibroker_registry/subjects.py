"""Names of subjects and their contexts.

A subject of the default context is named `S`, and one of another context `:.ctx:S`. The name `:.ctx:` stands for the
context itself.
"""

import re
from typing import Final

DEFAULT_CONTEXT: Final = "."
ALL_CONTEXTS: Final = ":*:"
"""A prefix that matches the subjects of all contexts."""
GLOBAL: Final = ":.__GLOBAL:"
"""The context whose configuration and mode apply where a context has none."""
_INVALID: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters and halves of surrogate pairs."""
_RESERVED: Final = frozenset({"__GLOBAL", "__EMPTY"})


def split(subject: str) -> tuple[str, str]:
    """Return the context of a subject, and its name within the context."""
    if subject.startswith(":."):
        context, _, name = subject[1:].partition(":")
        return context, name
    return DEFAULT_CONTEXT, subject


def join(context: str, name: str) -> str:
    """Return the qualified name of a subject."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def normalize(subject: str) -> str:
    """Return the qualified name of a subject, in which the default context is left out."""
    return join(*split(subject))


def qualify(subject: str, parent: str) -> str:
    """Return the qualified name of a subject. Without a context of its own, it is in the context of `parent`."""
    return normalize(subject) if subject.startswith(":.") else join(split(parent)[0], subject)


def context_name(text: str) -> str:
    """Return the name of a context, which may be written as `.ctx`, `ctx` or `:.ctx:`."""
    name = text.strip(":")
    return name if name.startswith(".") else f".{name}"


def matches(subject: str, prefix: str) -> bool:
    """Return whether a subject matches a prefix. A prefix without a context matches in the default context."""
    context, name = split(subject)
    if prefix.startswith(ALL_CONTEXTS):
        return name.startswith(prefix.removeprefix(ALL_CONTEXTS))
    wanted_context, wanted = split(prefix)
    return context == wanted_context and name.startswith(wanted)


def is_valid(subject: str, *, allows_context: bool = False) -> bool:
    """Return whether a schema can be registered under a subject, or settings be kept for it or for a context."""
    context, name = split(subject)
    is_allowed = allows_context or (bool(subject) and context != GLOBAL.strip(":"))
    return is_allowed and name not in _RESERVED and not _INVALID.search(subject)
