"""Requests from their bytes to their handlers, and the declarations of handlers."""
