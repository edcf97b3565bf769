"""Merged responses: results for some elements of a request, and errors for the others."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, cast

from minibroker.requests.pieces import identity
from minibroker.routing.delayed import DelayedResponse
from minibroker.support.slices import Steps, drain


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
    """`served` with the topics, partitions and so on of `refused` in its lists; both answer the same API."""
    return drain(merged_in_slices(served, refused))


def merged_in_slices(served: Any, refused: Any) -> Steps[Any]:
    """`merged`, with steps."""
    for field in dataclasses.fields(served):
        here, there = getattr(served, field.name), getattr(refused, field.name)
        if isinstance(there, list) and there:
            lists = yield from _merged_lists(here or [], cast("Sequence[Any]", there))
            setattr(served, field.name, lists)
    return served


def _merged_lists(here: list[Any], there: Sequence[Any]) -> Steps[list[Any]]:
    known: dict[Any, Any] = {}
    for each in here:
        known[identity(each)] = each
        yield
    for each in there:
        same = known.get(identity(each))
        if same is None or identity(each) is None:
            here.append(each)
        else:
            yield from merged_in_slices(same, each)
        yield
    return here
