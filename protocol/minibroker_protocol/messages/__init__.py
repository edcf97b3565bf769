"""The messages of Kafka's protocol: one module per API, each declaring its request and its response.

Modules are imported when an API is first used; nothing is re-exported here, so that start-up pays for none of them.
"""
