"""The HTTP control plane: what `AsyncBroker` offers, for test suites in any language.

It runs on a thread and an event loop of its own, and brings everything that it is asked for to the broker's loop, as
calls of `AsyncBroker`'s methods (`remote`). Only `open_plane` is imported without the extra `control`.
"""

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minibroker.control.plane import ControlPlane


def open_plane(address: tuple[str, int], token: str | None) -> "ControlPlane":
    """Take the address, so that `start` can serve there. ValueError without the extra; OSError if it is in use."""
    try:
        from minibroker.control.plane import ControlPlane  # noqa: PLC0415 - half a second that most brokers can do without
    except ModuleNotFoundError as error:
        from minibroker_storage.extras import pip_install  # noqa: PLC0415 - only messages need it

        raise ValueError(f"control: the package {error.name} is missing: {pip_install('control')}") from None
    return ControlPlane(address, token)


def check_token(address: tuple[str, int], token: str | None) -> None:
    """ValueError for an address that others can reach without a token, and for a token that no header can carry."""
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise ValueError("control_token: a token is one word of ASCII characters")
    if token is None and not is_loopback(address[0]):
        raise ValueError(
            f"control: {address[0]}:{address[1]} can be reached from other machines, so a token is needed: "
            "--control-token, MINIBROKER_CONTROL_TOKEN, or control_token in Python"
        )


def is_loopback(host: str) -> bool:
    """Can only programs on this machine connect there?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
