"""The way of a request in types: the route of its API, the interceptors that it passes, and its outcomes."""
