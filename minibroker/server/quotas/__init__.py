"""Quotas by user, client id and address: bytes, request time and mutations (KIP-13, 55, 124, 546, 599).

`manager` measures clients and says how long they wait, by `rates`. `entities` has the limits.
"""
