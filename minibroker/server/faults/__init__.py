"""Fault injection: faults as data, the requests that they match and their limits. See `docs/faults.md`."""
