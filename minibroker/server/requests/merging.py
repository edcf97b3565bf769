"""Merged responses: results for some elements of a request, and errors for the others."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker_protocol.primitives import ZERO_UUID

_IDENTITIES: Final = ("topic_id", "name", "topic", "topic_name", "transactional_id", "group_id", "producer_id")


class MergedAnswer(DelayedResponse):
    """The answer of a handler that takes its time, with errors to be added."""

    def __init__(self, inner: DelayedResponse, change: Callable[[Any], Any]) -> None:
        self._inner = inner
        inner.deliver = lambda response: self.deliver(change(response))

    def cancel(self) -> None:
        """The client has gone."""
        self._inner.cancel()

    def waits_for(self) -> str:
        """See `DelayedResponse`."""
        return self._inner.waits_for()


def merged(served: Any, refused: Any) -> Any:
    """Return `served` with the topics, partitions and so on of `refused` in its lists; both answer the same API."""
    for field in dataclasses.fields(served):
        here, there = getattr(served, field.name), getattr(refused, field.name)
        if isinstance(there, list) and there:
            setattr(served, field.name, _merged_lists(here or [], cast("Sequence[Any]", there)))
    return served


def _merged_lists(here: list[Any], there: Sequence[Any]) -> list[Any]:
    served = {_identity(element): element for element in here}
    for element in there:
        name = _identity(element)
        same = None if name is None else served.get(name)
        if same is None:
            here.append(element)
        else:
            merged(same, element)
    return here


def _identity(element: Any) -> Any:
    """Return the name or id of an element such as a topic, or None where it has none."""
    return next((named for name in _IDENTITIES if (named := getattr(element, name, ZERO_UUID)) != ZERO_UUID), None)
