"""Sockets: the nodes' listeners, the connections they take, and the bytes that leave."""
