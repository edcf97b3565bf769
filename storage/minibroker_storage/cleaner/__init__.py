"""Log compaction in three steps: plan it on the loop's thread, do it in another process, put the result in place.

`plan_cleaning` takes from a log all that there is to know. `clean` reads the closed segments and writes cleaned ones
beside them; it runs in a process of its own and low priority (see `worker`), since its work on each record would hold
the interpreter that serves clients. `finish_cleaning` swaps the segments.
"""

from minibroker_storage.cleaner.manager import (
    Cleanable,
    find_cleanable,
    finish_cleaning,
    plan_cleaning,
)
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
