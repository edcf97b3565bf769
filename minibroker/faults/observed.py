"""The journal and the faults of a broker, if there are any."""

from typing import TYPE_CHECKING

from minibroker.services import Services

if TYPE_CHECKING:
    from minibroker.faults.registry import FaultRegistry
    from minibroker.inspection.journal import Journal


def journal_of(services: Services) -> "Journal | None":
    """The journal of requests, while one is kept."""
    journal: Journal | None = None if services.observer is None else services.observer.journal
    return journal


def installed_faults(services: Services) -> "FaultRegistry | None":
    """The faults that are installed, if any are."""
    faults: FaultRegistry | None = None if services.observer is None else services.observer.faults
    return faults
