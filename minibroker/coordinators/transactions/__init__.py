"""Transactions (Kafka's transaction coordinator), and what becomes of them when a broker dies.

`transaction` has the states and the steps between them, `coordinator` the requests, `markers` the control batches that
end a transaction in its partitions.

After a start (`load_all`), or when the leader of a partition of `__transaction_state` moves (`leader_moved`), the store
reads that partition. Then the coordinator completes each transaction whose end was decided. An open one stays open
until its producer ends it, a new producer with its id fences it, or its timeout aborts it.
"""
