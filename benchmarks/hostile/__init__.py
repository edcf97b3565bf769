"""Hostile or merely large requests, which the measure `fairness` sends. One module for each kind."""

from benchmarks.hostile import (
    administration,
    control_plane,
    groups,
    look_ups,
    records,
    security,
    shares,
    streams,
    transactions,
)
from benchmarks.hostile.case import Case

CASES: tuple[Case, ...] = (
    *look_ups.CASES,
    *administration.CASES,
    *records.CASES,
    *groups.CASES,
    *shares.CASES,
    *streams.CASES,
    *transactions.CASES,
    *security.CASES,
    *control_plane.CASES,
)
BY_NAME: dict[str, Case] = {case.name: case for case in CASES}
