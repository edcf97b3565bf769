"""Operations on a broker beside Kafka's protocol: look into it, fill it, move its time, reset it.

Functions over a `Services`, called on its event loop. `Broker` and `AsyncBroker` bring them to Python programs, the
control plane to all others. Operations commit the write group first: they see what producers have seen.
"""
