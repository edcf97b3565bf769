"""One sentence of meaning for each field, with the KIP that explains it, or the one that brought it (`kips`).

`meaning_of` looks for the place of a declaration ("fetch.FetchRequest.max_bytes"), then for its class and name, then
for the name alone: many names mean the same in all messages. The tables are `records` (headers, batches, messages),
`messages` (names in their structures), `names`, and `rare`
(names of APIs that few clients use).
"""

from functools import cache
from typing import Any, Final

from minibroker_protocol.fields.meanings.kips import kip_of
from minibroker_protocol.fields.meanings.messages import MESSAGES
from minibroker_protocol.fields.meanings.names import NAMES
from minibroker_protocol.fields.meanings.rare import RARE
from minibroker_protocol.fields.meanings.records import RECORDS
from minibroker_protocol.fields.meanings.sentences import Meaning
from minibroker_protocol.fields.tree import Node

__all__ = ["MESSAGES", "NAMES", "RARE", "RECORDS", "Meaning", "meaning_of", "meanings_json"]

_PLACE: Final = 3
"""The parts of a field's place: module, class, name."""
_TABLE: Final = {**RARE, **NAMES, **MESSAGES, **RECORDS}


@cache
def meaning_of(about: str) -> Meaning | None:
    """The meaning of a field by `Node.about`, or by a name in parentheses; None for one without a sentence."""
    parts = about.split(".")
    for begin in range(len(parts)):
        found = _TABLE.get(".".join(parts[begin:]))
        if found is not None:
            return found if found.kip is not None or len(parts) != _PLACE else found._replace(kip=kip_of(about))
    return None


def meanings_json(root: Node) -> dict[str, dict[str, Any]]:
    """The meanings of all that is in a tree, by `about`, or by the names in parentheses: `{"text", "kip"}`."""
    keys = {node.about or node.name for node in root.all_nodes()}
    return {key: found._asdict() for key in sorted(keys) if (found := meaning_of(key)) is not None}
