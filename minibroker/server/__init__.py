"""Sockets: the listeners of nodes, the connections of clients, and the bytes that leave (Kafka's `SocketServer`).

`server` starts and stops all nodes, `node_listener` and `acceptor` take connections, `connection` serves one: it cuts
frames, keeps the order of responses, parks a delayed one. `outbox` sends. `connection_quotas` and `idle` close.
"""
