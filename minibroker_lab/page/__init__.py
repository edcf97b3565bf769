"""The lab's web page, which shows a running broker.

Like the control plane, the page has its own thread and event loop. It reads the exchanges that the broker records
(`inspection.recording`) and fetches everything else on the broker's loop. This module can also be imported if the extra
`lab` is not installed.
"""

from typing import TYPE_CHECKING

from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.installation_hints import missing

with lazy:
    from minibroker_lab.page import plane

if TYPE_CHECKING:
    from minibroker_lab.page.plane import PagePlane, TracePlane


def open_page(address: tuple[str, int], token: str | None) -> "PagePlane":
    """Bind the page's address, so that `start` can serve the page there.

    Raises:
        ValueError: The extra `lab` is not installed.
        OSError: The address is in use.
    """
    try:
        return plane.PagePlane(address, token)
    except ModuleNotFoundError as error:
        raise _missing("page", error) from None


def open_trace_page(address: tuple[str, int], token: str | None) -> "TracePlane":
    """Bind the address for the page of `minibroker trace`.

    Raises:
        ValueError: The extra `lab` is not installed.
        OSError: The address is in use.
    """
    try:
        return plane.TracePlane(address, token)
    except ModuleNotFoundError as error:
        raise _missing("--page", error) from None


def _missing(option: str, error: ModuleNotFoundError) -> ValueError:
    return ValueError(f"{option}: {missing(error.name, 'lab')}")
