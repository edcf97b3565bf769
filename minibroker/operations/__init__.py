"""The methods of `Broker`, one module for each kind: records, groups, time, snapshots, reset and others.

Functions over a `Services`, called on its event loop. `Broker` and `AsyncBroker` bring them to Python programs, the
control plane to all others. Operations commit the write group first: they see what producers have been told.
"""
