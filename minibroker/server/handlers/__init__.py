"""The handlers of all APIs: functions of a request and its call. The recipe for a new API is here.

A handler has the semantics; its docstring says which versions are served, and what is ignored. A new API takes four
steps:

1. `minibroker_protocol.api_keys` has its number, as that of all APIs of Kafka.
2. A module of `minibroker_protocol/messages` declares request and response; `messages/__init__.py` names the module.
3. The module of the same name here has the handler, and what it declares (`requests.declarations.handles`).
4. `routing/routes.py` gets a `Route` with the served versions.

The tests then require a sentence for each field (`fields/meanings.tsv`), rows in `docs/behavior.md` and
`docs/security.md`, and an attempt without rights (`tests/broker/security/authorization/attempts.py`).
"""
