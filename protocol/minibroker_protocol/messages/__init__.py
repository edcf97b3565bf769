"""The messages of Kafka's protocol: one module per API, and the structures that several of them share.

A module declares its request and its response.

Modules are imported when an API is first used; nothing is re-exported here, so that start-up pays for none of them.
"""
