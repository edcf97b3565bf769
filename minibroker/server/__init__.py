"""Sockets: the listeners of nodes, the connections of clients, and the bytes that leave (Kafka's `SocketServer`)."""
