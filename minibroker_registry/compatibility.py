"""Compatibility levels: which schemas of a subject are compared, and in which direction."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from minibroker_registry.records import Config, Content, Metadata, Version
from minibroker_registry.schema import Parsed

LEVELS: Final = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
_MAX_QUOTED_CHARACTERS: Final = 10_240


def compare(
    parsed: Parsed, content: Content, versions: Sequence[Version], config: Config, parse: Callable[[Version], Parsed]
) -> list[str]:
    """Return why a schema cannot follow the versions of a subject, in Confluent's words, or an empty list.

    Args:
        parsed: The schema.
        content: Its content.
        versions: The versions of the subject, in their order.
        config: The configuration that applies to the subject.
        parse: Returns the parsed schema of a version.
    """
    level: str = config["compatibilityLevel"]
    if level == "NONE":
        return []
    group = config.get("compatibilityGroup")
    if group is not None:
        wanted = _property(content.metadata, group)
        versions = [version for version in versions if _property(version.content.metadata, group) == wanted]
    lenient = config.get("compatibilityPolicy") == "LENIENT"
    for version in reversed(versions if level.endswith("_TRANSITIVE") else versions[-1:]):
        if content.kind == version.content.kind:
            reasons = _compare_both(parsed, parse(version), level, lenient=lenient)
        else:
            reasons = ["Incompatible because of different schema type"]
        if reasons:
            text = version.content.text[:_MAX_QUOTED_CHARACTERS]
            old = (f"{{oldSchemaVersion: {version.version}}}", f"{{oldSchema: '{text}'}}")
            return [*reasons, *old, f"{{validateFields: 'false', compatibility: '{level}'}}"]
    return []


def _compare_both(new: Parsed, old: Parsed, level: str, *, lenient: bool) -> list[str]:
    reasons: list[str] = []
    if not level.startswith("BACKWARD"):
        reasons += _name_roles(old.incompatibilities(new, lenient=lenient), "old", "new")
    if not level.startswith("FORWARD"):
        reasons += _name_roles(new.incompatibilities(old, lenient=lenient), "new", "old")
    return reasons


def _name_roles(messages: Iterable[str], reader: str, writer: str) -> list[str]:
    """Return messages of a format, in which `%s` stands for the reader's schema, and then for the writer's."""
    return [message.replace("%s", reader, 1).replace("%s", writer, 1) for message in messages]


def _property(metadata: Metadata | None, name: str) -> str | None:
    value: str | None = (metadata or {}).get("properties", {}).get(name)
    return value
