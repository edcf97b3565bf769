"""The source of the view Requests: a recorder of a broker's connections, or of a proxy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from minibroker.page.recorder import Subscription
    from minibroker.page.rows import Rows
    from minibroker.trace.exchange import Exchange


class Source(Protocol):
    """Exchanges by their numbers. All of it belongs to the page's thread.

    Attributes:
        first, last: the numbers of the oldest and the newest exchange that is kept; `last` is 0 before the first one.
        rows: makes the rows of the list.
    """

    first: int
    last: int
    rows: Rows

    @property
    def left_out(self) -> int:
        """The number of frames that the page could not keep up with."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the page is about to stop."""
        ...

    def find(self, number: int) -> Exchange | None:
        """An exchange by its number; None for one that is not kept."""
        ...

    def known(self, number: int) -> Exchange | None:
        """The same, without a look at what has come since the last one."""
        ...

    def between(self, first: int, last: int) -> list[Exchange]:
        """The exchanges with these numbers, both included, as far as they are kept."""
        ...

    def catch_up(self) -> None:
        """Read all that has come."""
        ...

    def subscribed(self) -> AbstractContextManager[Subscription]:
        """A subscription to the numbers of exchanges that come or change."""
        ...
