"""The lab: a web page that shows a running broker.

It has a thread and an event loop of its own, as the control plane. It reads the exchanges that the broker records
(`inspection.recording`); everything else it asks for on the broker's loop. Only `open_page` is imported without the
extra `lab`.
"""

from typing import TYPE_CHECKING

from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.installation_hints import missing

with lazy:
    from minibroker_lab.page import plane

if TYPE_CHECKING:
    from minibroker_lab.page.plane import PagePlane, TracePlane


def open_page(address: tuple[str, int], token: str | None) -> "PagePlane":
    """Take the address, so that `start` can serve there. ValueError without the extra; OSError if it is in use."""
    try:
        return plane.PagePlane(address, token)
    except ModuleNotFoundError as error:
        raise _missing("page", error) from None


def open_trace_page(address: tuple[str, int], token: str | None) -> "TracePlane":
    """The page of `minibroker trace`. ValueError without the extra; OSError if the address is in use."""
    try:
        return plane.TracePlane(address, token)
    except ModuleNotFoundError as error:
        raise _missing("--page", error) from None


def _missing(option: str, error: ModuleNotFoundError) -> ValueError:
    return ValueError(f"{option}: {missing(error.name, 'lab')}")
