"""The list of all stages, and the selection of checks."""

from typing import Final

from minibroker.config.names import suggestion
from minibroker_grade.check import Check, Stage
from minibroker_grade.stages import (
    clients,
    compaction,
    fetch,
    files,
    flexible,
    groups,
    list_offsets,
    metadata,
    produce,
    topics,
    transactions,
    versions,
)

# fmt: off
STAGES: Final[tuple[Stage, ...]] = (
    versions.STAGE, flexible.STAGE, metadata.STAGE, topics.STAGE, produce.STAGE, fetch.STAGE, list_offsets.STAGE,
    files.STAGE, groups.STAGE, transactions.STAGE, compaction.STAGE, clients.STAGE,
)
# fmt: on


def select_checks(upto: str | None = None, only: str | None = None) -> list[Check]:
    """Return all checks up to and including the stage `upto`, or only the check or stage named `only`.

    Raises:
        ValueError: There is no such check or stage.
    """
    names = [stage.name for stage in STAGES]
    if upto is not None and upto not in names:
        raise ValueError(f"--upto {upto}: the stages are {', '.join(names)}{suggestion(upto, names)}")
    last = names.index(upto) if upto is not None else len(names)
    checks = [check for stage in STAGES[: last + 1] for check in stage.checks]
    if only is None:
        return checks
    selected = [check for check in checks if only in {check.name, check.stage}]
    if not selected:
        check_names = [check.name for check in checks]
        hint = suggestion(only, [*check_names, *names]) or "; --list shows all"
        raise ValueError(f"--only {only}: there is no such check or stage{hint}")
    return selected
