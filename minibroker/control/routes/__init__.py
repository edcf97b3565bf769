"""One module per kind of resource. Each route names the Python methods that it calls; a test wants them all."""

from typing import Any


def calls(*methods: str) -> dict[str, Any]:
    """The extra of a route for the OpenAPI document: the methods of a `Broker` and its handles that it stands for."""
    return {"x-python": list(methods)}
