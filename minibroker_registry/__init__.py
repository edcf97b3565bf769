"""A schema registry for brokers: subjects, versions and compatibility, over HTTP, stored in the topic `_schemas`."""
