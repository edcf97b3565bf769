"""An answer that is there, but may not leave yet."""

from typing import Any

from minibroker.call import Parked


class HeldAnswer(Parked):
    """A response that waits for its `release`."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._is_wanted = True

    def cancel(self) -> None:
        """The client has gone: nobody waits for the response any more."""
        self._is_wanted = False

    def release(self) -> None:
        """Deliver the response."""
        if self._is_wanted:
            self._is_wanted = False
            self.deliver(self._response)
