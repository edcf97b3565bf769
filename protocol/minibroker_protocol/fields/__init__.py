"""Fields of requests, responses and records: each with its place in the bytes, its type, value and meaning.

This is a walk of its own over the schema. The codec, which serves requests, keeps no positions and knows nothing of it.

- `tree`: `Node`, a field; a tree of them stands for a message. Its leaves cover each byte once.
- `frames`: the tree of a request or a response, from its frame (`request_fields`, `response_fields`).
- `batches`: the trees of record batches (v2) and of messages (v0, v1). `minibroker dump --explain` shows
  the same.
- `coordinators`: keys and values of the coordinators' topics, opened in a tree of batches.
- `meanings`: a sentence for each field, and a tree as JSON, with long values cut.
- `versions`: the same request in another version.

Damaged bytes never raise: the tree goes as far as it can, and an `ERROR` node has the rest. `Limits` bound the number
of nodes; a `NOT_OPENED` node has the bytes that were left.
"""
