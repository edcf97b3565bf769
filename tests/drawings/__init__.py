"""The drawings of the pages on Kafka's bytes: made of real requests, logs and groups, never by hand.

`python -m tests.drawings` writes them into docs/images; a test holds the files.

- `svg`: boxes, texts and lines, with the colors of all drawings, light and dark.
- `byte_columns`: bytes with their fields, one column beside another.
- `messages`, `logs`: the requests, batches and index entries that are drawn.
- `lanes`, `lives`: the steps of a transaction and of a rebalance.
"""
