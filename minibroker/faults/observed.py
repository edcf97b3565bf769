"""The journal and the faults of a broker, if there are any."""

from typing import TYPE_CHECKING

from minibroker.services import Services

if TYPE_CHECKING:
    from minibroker.faults.registry import FaultRegistry
    from minibroker.inspection.journal import Journal


def journal_of(services: Services) -> "Journal | None":
    """The journal of requests, while one is kept."""
    return None if services.observer is None else services.observer.journal


def installed_faults(services: Services) -> "FaultRegistry | None":
    """The faults that are installed, if any are."""
    return None if services.observer is None else services.observer.faults
