"""Chaos from a seed: the broker misbehaves as a real Kafka cluster may.

`rows` has the table of misbehaviours, each legal in Kafka. `points` names the moments at which one can happen. A
schedule (`decisions`) chooses at each point whether one does: from a seed, or from the steps of an earlier run.
`decider` runs the schedule, `engine` with the broker's own faults and with `moves`. `shrinking` reduces the steps of a
failing run, and chooses what to run next.
"""
