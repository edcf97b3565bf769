"""Options of a dump."""

from typing import NamedTuple


class DumpOptions(NamedTuple):
    """The options of Kafka's DumpLogSegments that matter here, under its names.

    `deep_iteration` finds records and not only batches; `max_bytes` is the part of each log that is read, None for
    all; `index_sanity_check` judges indexes as a starting broker does and reads no entries; `verify_index_only` checks
    the entries against the log without yielding them; `is_07` says that logs are Kafka 0.7's, whatever they look like.
    """

    deep_iteration: bool = False
    max_bytes: int | None = None
    index_sanity_check: bool = False
    verify_index_only: bool = False
    is_07: bool = False
