"""Authentication and authorization of clients: `tls`, `sasl`, `delegation_tokens`, and `authorization`.

`listener_security` has the security settings of a listener, and `store` the SCRAM credentials and delegation tokens.
`setup` configures TLS and passwords for tests.
"""
