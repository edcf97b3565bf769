"""The way of a request in types: the table of APIs, the interceptors, and the outcomes.

`routes` is the table, `interceptors` has the interfaces that a request passes, `outcomes` its possible ends, and
`delayed` the base of responses that wait.
"""
