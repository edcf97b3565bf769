"""Kafka's own log cleaner, asked from Python: CleanerOracle.java in a JVM that lives as long as the tests need it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from minibroker_storage.cleaner.plan import ActiveProducer
from tests.kafka.line_oracle import LineOracle

_SOURCE: Final = Path(__file__).with_name("CleanerOracle.java")


class Cleaned(NamedTuple):
    """Kafka's verdict on a log, and its cleaning: `next_dirty_offset` is None without one."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    must_clean: bool
    next_dirty_offset: int | None
    producers: tuple[ActiveProducer, ...]


class CleanerOracle(LineOracle):
    """See `LineOracle`."""

    def __init__(self, libs: Path) -> None:
        super().__init__(_SOURCE, libs, heap="512m")

    def clean(
        self,
        directory: Path,
        *,
        first_dirty_offset: int | None,
        now_ms: int,
        map_bytes: int,
        force: bool,
        configs: Mapping[str, object],
    ) -> Cleaned:
        """Let Kafka open the log as after a crash, clean it when that is due, or at all possible, and close it."""
        dirty = -1 if first_dirty_offset is None else first_dirty_offset
        fields = [str(directory), str(dirty), str(now_ms), str(map_bytes), str(force).lower()]
        fields += (f"{name}={value}" for name, value in configs.items())
        answer = self.ask(*fields)
        if not answer or answer.startswith("!"):
            raise AssertionError(f"{answer}\n{self.complaints()}")
        *numbers, must, following, producers = answer.split("\t")
        first_dirty, first_uncleanable, clean_bytes, cleanable_bytes = map(int, numbers)
        return Cleaned(
            first_dirty,
            first_uncleanable,
            clean_bytes,
            cleanable_bytes,
            must == "true",
            None if following == "-1" else int(following),
            tuple(ActiveProducer(*map(int, one.split(":"))) for one in producers.split(",") if one),
        )
