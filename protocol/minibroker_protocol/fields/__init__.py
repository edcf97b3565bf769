"""Fields of requests, responses and records, each with its position in the bytes, its type, value and meaning.

These modules read the bytes according to the schema. They do not use the codec, because it records no positions.

- `tree`: a `Node` is a field, and a tree of nodes is a message. The leaves of a tree cover each byte once.
- `frames`: the trees of requests and responses, from their frames (`request_fields`, `response_fields`).
- `batches`: the trees of record batches (v2) and messages (v0, v1), as shown by `minibroker dump --explain`.
- `coordinators`: keys and values of the coordinators' topics, decoded within a tree of batches.
- `meanings`: one sentence per field, and trees as JSON with truncated values.
- `versions`: the same request in another version.

Corrupt bytes never raise an error. The tree covers everything that can be read, and an `ERROR` node holds the
remaining bytes. `Limits` restrict the number of nodes. A `NOT_OPENED` node holds the bytes beyond a limit.
"""
