"""Kafka's transaction coordinator, and the recovery of its transactions after a crash.

`transaction` has the states and their transitions, `coordinator` the requests, and `markers` the control batches that
end a transaction in its partitions.

On startup (`load_all`), the store reads all partitions of `__transaction_state`. When the leader of a partition moves
(`leader_moved`), the store reads that partition again. Then the coordinator completes each transaction whose end was
decided. An open transaction stays open until its producer ends it, a new producer with the same transactional id fences
it, or it times out.
"""
