"""The outline of a log: where it begins, and its segments."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from minibroker_storage.log import Log


class LogShape(NamedTuple):
    """A log as it was at one moment: its log start offset, and (base offset, bytes) of each segment."""

    start: int
    segments: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(size for _, size in self.segments)


def shape_of(log: "Log") -> LogShape:
    """The outline of a log as it is now."""
    return LogShape(log.log_start_offset, tuple((each.base_offset, each.size) for each in log.segments))
