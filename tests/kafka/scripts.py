"""Scripts that Kafka and this broker go through, by their names."""

from collections.abc import Callable
from typing import Generic, TypeVar

W = TypeVar("W")


class Scripts(dict[str, Callable[[W], None]], Generic[W]):
    """Those for one kind of world."""

    def add(self, run: Callable[[W], None]) -> Callable[[W], None]:
        """Have a script be run."""
        self[run.__name__] = run
        return run
