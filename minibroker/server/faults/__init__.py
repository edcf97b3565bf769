"""Fault injection: faults as data, with the requests that they match and their limits. See `docs/faults.md`."""
