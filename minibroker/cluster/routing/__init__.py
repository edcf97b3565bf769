"""Requests as types: `routes` is the table of APIs, `outcomes` has what a request becomes."""
