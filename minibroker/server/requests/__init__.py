"""The path of requests from their bytes to their handlers, and the declarations of handlers.

- Processing: `dispatch` composes the interceptors (`authentication`, `meter`), then finds the handler, and `guard`
  checks the client's rights. A handler gets its context as `call`.
- Waiting: `fetch`, `share`, `produce` and `held_for_metadata` hold requests whose response is not ready.
  `minibroker.server.connection` parks such requests.
- Declarations of handlers: `declarations` and `requirements`, used by `targets`, `refusals` and `guard`.
"""
