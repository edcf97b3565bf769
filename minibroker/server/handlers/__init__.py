"""The handlers of all APIs. A handler is a function that takes a request and its call.

A handler implements the semantics of one API. Its docstring names the served versions and the ignored fields. To
refuse a whole request, it raises `RefusedRequestError`. To add an API:

1. Add its number to `minibroker_protocol.api_keys`, which lists all APIs of Kafka.
2. Declare the request and the response in a module of `minibroker_protocol/messages`, and name the module in
   `messages/__init__.py`.
3. Write the handler in the module of the same name here, with its declarations
   (`requests.declarations.handles`).
4. Add a `Route` with the served versions to `routing/routes.py`.

The tests then require a sentence for each field (`fields/meanings.tsv`), rows in `docs/behavior.md` and
`docs/security.md`, and a request without rights (`tests/broker/security/authorization/attempts.py`).
"""
