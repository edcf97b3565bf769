"""The network side of the broker: listeners, connections of clients, and outgoing bytes (Kafka's `SocketServer`).

`server` starts and stops all nodes. `node_listener` and `acceptor` accept connections. A `connection` serves one
client: it splits the received bytes into frames, keeps responses in order and parks delayed requests. `outbox` sends.
`connection_quotas` limits connections and closes idle ones.

Requests pass through `requests` (decoding, rights), `faults` (injected errors) and `handlers` (the semantics of each
API). `inspection` records them. `services` has what handlers share, and `remote` joins brokers of several processes.
"""
