"""The HTTP control plane: the operations of `AsyncBroker` for test suites in any language.

It runs on its own thread and event loop. Every operation runs on the broker's loop, as a call to a method of
`AsyncBroker` (`remote`). Without the extra `control`, only this module can be imported.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_control import plane
    from minibroker_control.vendors import ports
    from minibroker_storage import installation_hints

if TYPE_CHECKING:
    from minibroker_control.plane import ControlPlane
    from minibroker_control.vendors.ports import AdminPorts


def open_plane(address: tuple[str, int], token: str | None) -> "ControlPlane":
    """Bind the control plane's address, so that `start` can serve there.

    Raises:
        ValueError: The extra `control` is not installed.
        OSError: The address is in use.
    """
    try:
        return plane.ControlPlane(address, token)
    except ModuleNotFoundError as error:
        raise ValueError(f"control: {installation_hints.missing(error.name, 'control')}") from None


def admin_ports(texts: Sequence[str]) -> "AdminPorts":
    """Return the ports of `serve --admin-api`, from a list of KIND=HOST:PORT.

    Raises:
        ValueError: A port has another form, or the extra `control` is not installed.
    """
    try:
        return ports.AdminPorts(texts)
    except ModuleNotFoundError as error:
        raise ValueError(f"--admin-api: {installation_hints.missing(error.name, 'control')}") from None
