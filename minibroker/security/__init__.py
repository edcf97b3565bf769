"""Authentication and authorization of clients: `tls`, `sasl`, `delegation_tokens`, and `authorization`.

`listener_security` has what a listener demands, `store` the SCRAM credentials and tokens. `setup` makes both for tests.
"""
