"""Faults as data: wrong answers on purpose, with the requests that they hit and their limits. See `docs/faults.md`."""
