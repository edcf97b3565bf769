"""Log compaction in three phases: plan on the event loop, clean in another process, swap in the result.

`plan_cleaning` collects everything the cleaner needs from a log. `clean` reads the closed segments and writes cleaned
segments beside them. It runs in a separate low-priority process (see `worker`) because processing every record would
block the interpreter that serves clients. `finish_cleaning` replaces the old segments with the cleaned ones.
"""

from minibroker_storage.cleaner.manager import Cleanable, find_cleanable, finish_cleaning, plan_cleaning
from minibroker_storage.cleaner.plan import (
    CleanedGroup,
    CleanerStats,
    CleaningAbortedError,
    CleaningFailedError,
    CleaningPlan,
    CleaningResult,
    remove_cleaned_files,
)

__all__ = [
    "Cleanable",
    "CleanedGroup",
    "CleanerStats",
    "CleaningAbortedError",
    "CleaningFailedError",
    "CleaningPlan",
    "CleaningResult",
    "find_cleanable",
    "finish_cleaning",
    "plan_cleaning",
    "remove_cleaned_files",
]
