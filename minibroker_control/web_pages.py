"""Protection from foreign web pages that make a browser on this machine send requests.

A page can use its own host name that resolves to 127.0.0.1 (DNS rebinding). The Host header then contains that name.
A page can also use the address itself. The Origin header then contains the page's origin. For a GET request without
an Origin header, such as an image request, the Sec-Fetch-Site header tells how the two sites are related.
"""

from collections.abc import Callable
from typing import Final

from minibroker.config.addresses import is_loopback

_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for requests by this server's own pages, and for requests that the user starts."""


def refusal_of(header: Callable[[str], str | None], own_host: str | None) -> str | None:
    """Return the reason for refusing a request, or None if the request is allowed.

    Args:
        header: Returns the value of a header by its lower-case name.
        own_host: The listening host. The Host header must name this host or the loopback interface. None accepts
            any host.
    """
    host = header("host") or ""
    if own_host is not None and not _is_ours(host, own_host):
        return f"the Host header names {host!r}, which is not a name of the loopback interface"
    origin = header("origin")
    if origin is not None and origin.partition("://")[2] != host:
        return f"requests of web pages elsewhere ({origin!r}) are not served"
    site = header("sec-fetch-site") or "none"
    # Following a link from another site is allowed.
    if site not in _OWN_SITES and header("sec-fetch-dest") != "document":
        return f"requests of web pages elsewhere (Sec-Fetch-Site: {site}) are not served"
    return None


def _is_ours(host: str, own_host: str) -> bool:
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name.lower()) or name.lower() == own_host.lower()
