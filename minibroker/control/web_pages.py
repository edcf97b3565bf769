"""Requests that a web page elsewhere makes a browser on this machine send.

Such a page can send requests here under a name of its own that leads to 127.0.0.1 (DNS rebinding): the Host header has
that name. It can send them to the address itself: the Origin header has the page's. For a GET without an Origin header,
such as that of an image, the browser names the site in Sec-Fetch-Site.
"""

from collections.abc import Callable
from typing import Final

from minibroker.config.addresses import is_loopback

_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for requests of our own pages, and of the user."""


def refusal_of(header: Callable[[str], str | None], own_host: str | None) -> str | None:
    """Return why a request is refused, or None.

    Args:
        header: Returns the value of a header by its lower-case name.
        own_host: The name that was listened on, which the Host header may have, as it may have those of the loopback
            interface. None for any name.
    """
    host = header("host") or ""
    if own_host is not None and not _is_ours(host, own_host):
        return f"the Host header names {host!r}, which is not a name of the loopback interface"
    origin = header("origin")
    if origin is not None and origin.partition("://")[2] != host:
        return f"requests of web pages elsewhere ({origin!r}) are not served"
    site = header("sec-fetch-site") or "none"
    if site not in _OWN_SITES and header("sec-fetch-dest") != "document":  # a link may lead here
        return f"requests of web pages elsewhere (Sec-Fetch-Site: {site}) are not served"
    return None


def _is_ours(host: str, own_host: str) -> bool:
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name.lower()) or name.lower() == own_host.lower()
