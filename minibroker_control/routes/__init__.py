"""The routes, with one module per kind of resource.

Each route lists the Python methods that it calls. A test checks that all methods are listed.
"""

from typing import Any


def calls(*methods: str) -> dict[str, Any]:
    """Return the OpenAPI extension that lists the Python methods, of `Broker` and its handles, called by a route."""
    return {"x-python": list(methods)}
