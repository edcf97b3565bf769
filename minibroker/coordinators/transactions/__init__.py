"""Transactional ids and their transactions (Kafka's transaction coordinator).

`transaction` has the states and the steps between them, `coordinator` the requests, `markers` the control batches that
end a transaction in its partitions. After the broker has died, `load_all` reads `__transaction_state` and completes
each transaction whose end was decided. An open one stays open until its producer ends it, a new producer with its id
fences it, or its timeout aborts it.
"""
