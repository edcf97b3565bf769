"""How much clients may send, fetch and have done: quotas by user, client id and address (KIP-13, 55, 124, 546, 599)."""
