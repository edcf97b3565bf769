"""Operations on a broker outside Kafka's protocol: inspect it, fill it, advance its clock, reset it.

The functions take a `Services` and run on its event loop. Python programs use them through `Broker` and `AsyncBroker`,
other programs through the control plane. Operations commit the write group first, so they include all records that
were produced before.
"""
