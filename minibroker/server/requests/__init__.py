"""Requests from their bytes to their handlers, and the declarations of handlers.

- The way of a request: `request_path` composes the interceptors (`authentication`, `meter`),
  then `dispatch` finds the handler, and `guard` checks rights. A handler gets its surroundings as `call`.
- Responses that wait: `fetch.delayed`, `share.delayed`, `produce.delayed` and `held_for_metadata`. Until one is there,
  `minibroker.server.connection` parks it.
- What a handler declares: `declarations` and `requirements`. `targets`, `refusals` and `merging` read this.
"""
