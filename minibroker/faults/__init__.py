"""Faults as data: what a broker does wrong on purpose, for whom and how often. `docs/faults.md` tells users."""
