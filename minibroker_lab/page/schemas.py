"""Keys and values that begin with a schema id, decoded beside their bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from minibroker.operations.waiting import run_in_slices
from minibroker_protocol.fields.record_places import headers_of
from minibroker_protocol.fields.tree import RECORD, Node
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_registry import values as registry_values

if TYPE_CHECKING:
    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker_control.remote import Remote
    from minibroker_registry.values import TopicSource

_MAX_CHARACTERS: Final = 2000


class PageSchemas:
    """The schemas in the topic `_schemas` of a broker, which the page uses on its own thread.

    Attributes:
        source: The schemas as of the last `update`, or None if there was no topic.
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self.source: TopicSource | None = None

    async def update(self) -> None:
        """Read the topic to its end. Without the topic, nothing of the registry is loaded."""
        self.source = await self._remote(self._read)

    async def _read(self, broker: AsyncOperations) -> TopicSource | None:
        services = broker.services
        if self.source is None and services.core.topics.get(SCHEMAS_TOPIC) is None:
            return None
        await run_in_slices(services, services.schemas.update())
        return services.schemas.source

    def add_values(self, tree: Node) -> None:
        """Note what each key and value with a schema id means, or why it cannot be decoded."""
        if self.source is None:
            return
        values = registry_values.Values(self.source)
        # A control record has a note.
        for record in [node for node in tree.all_nodes() if node.type in {RECORD, "MESSAGE"} and not node.note]:
            for node in record.children or ():
                data = bytes(node.value or b"") if node.name in {"key", "value"} else b""
                headers, is_key = headers_of(record), node.name == "key"
                if not data or not values.has_schema(data, headers, is_key=is_key):
                    continue
                try:
                    text = json.dumps(values.decode(data, headers, is_key=is_key), ensure_ascii=False)
                    versions = self.source.versions(values.locate(data, headers, is_key=is_key)[0])
                    names = ", ".join(f"{version.subject} version {version.version}" for version in versions)
                    node.note = f"{names}, id {versions[0].id}: {text}"[:_MAX_CHARACTERS]
                except registry_values.UndecodableError as error:
                    node.fault = str(error)
