"""Fields of requests, responses and records, each with its position in the bytes, its type, value and meaning.

These modules walk the schema independently of the codec, which serves requests and records no positions.

- `tree`: `Node` is a field, and a tree of nodes is a message. Its leaves cover each byte once.
- `frames`: the tree of a request or a response, from its frame (`request_fields`, `response_fields`).
- `batches`: the trees of record batches (v2) and messages (v0, v1), as shown by `minibroker dump --explain`.
- `coordinators`: keys and values of the coordinators' topics, decoded in a tree of batches.
- `meanings`: one sentence per field, and trees as JSON with truncated values.
- `versions`: the same request in another version.

Corrupt bytes never raise an error: the tree extends as far as possible, and an `ERROR` node has the remaining bytes.
`Limits` restrict the number of nodes; a `NOT_OPENED` node has the bytes that exceed them.
"""
