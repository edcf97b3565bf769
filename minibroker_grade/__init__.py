"""`minibroker grade`: checks of any broker, from the outside.

A stage is a module of `stages`, a check a function there. The expectations are Kafka's, written down by hand: nothing
here imports the broker, only the codec of the protocol.
"""
