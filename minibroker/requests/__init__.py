"""Requests from their bytes to their handlers, and the declarations of handlers.

`dispatch` is the way of a request. Responses that wait are in `fetch.delayed`, `produce.delayed` and
`held_for_metadata`.
"""
