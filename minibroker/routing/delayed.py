"""The base of delayed responses, which follow later, as those of Kafka's `DelayedOperation`.

`DelayedFetch` is in `requests.fetch.delayed`, `DelayedProduce` in `requests.produce.delayed`. `server.connection` parks
a delayed response, and the requests behind it wait.
"""

from collections.abc import Callable
from typing import Any


class DelayedResponse:
    """A response that waits for something; the connection serves no further request until then, as Kafka's does.

    A handler returns one and calls `deliver` with the response later, once. `cancel` is called when the client has
    gone.
    """

    deliver: Callable[[Any], None]

    def cancel(self) -> None:
        """Forget the request."""

    def hasten(self) -> None:
        """Answer early if the request allows it, because another request of the connection waits for the answer."""

    def waits_for(self) -> str:
        """The thing that it waits for, for people: "appends to orders-0"."""
        return "work that goes on"
