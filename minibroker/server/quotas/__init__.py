"""Quotas by user, client id and address: bytes, request time and mutations (KIP-13, 55, 124, 546, 599).

`manager` measures clients with the help of `rates`, and computes throttle times. `entities` has the limits.
"""
