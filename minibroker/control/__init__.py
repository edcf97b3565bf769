"""The HTTP control plane: what `AsyncBroker` offers, for test suites in any language.

It runs on a thread and an event loop of its own, and brings everything that it is asked for to the broker's loop, as
calls of `AsyncBroker`'s methods (`remote`). Only this module is imported without the extra `control`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.installation_hints import missing

with lazy:
    from minibroker.control import plane
    from minibroker.control.vendors import ports

if TYPE_CHECKING:
    from minibroker.control.plane import ControlPlane
    from minibroker.control.vendors.ports import AdminPorts


def open_plane(address: tuple[str, int], token: str | None) -> "ControlPlane":
    """Take the address, so that `start` can serve there. ValueError without the extra; OSError if it is in use."""
    try:
        return plane.ControlPlane(address, token)
    except ModuleNotFoundError as error:
        raise ValueError(f"control: {missing(error.name, 'control')}") from None


def admin_ports(given: Sequence[str]) -> "AdminPorts":
    """The ports of `serve --admin-api`, each KIND=HOST:PORT. ValueError for another form, and without the extra."""
    try:
        return ports.AdminPorts(given)
    except ModuleNotFoundError as error:
        raise ValueError(f"--admin-api: {missing(error.name, 'control')}") from None
