"""Authorization: rules (`acls`), and decisions (`authorizer`, Kafka's `StandardAuthorizer`).

`minibroker.requests.guard` checks each request by what its handler declares (`minibroker.requests.requirements`).
"""
