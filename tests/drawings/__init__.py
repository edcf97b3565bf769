"""The drawings of the pages about Kafka's bytes, generated from real requests, logs and groups.

`python -m tests.drawings` writes them to docs/images. A test checks that the files are current.

- `svg`: boxes, texts and lines, with the colors of all drawings for light and dark pages.
- `byte_columns`: bytes with their fields, in columns side by side.
- `messages`, `logs`: the requests, batches and index entries that are drawn.
- `lanes`, `lives`: the steps of a transaction and of a rebalance.
"""
