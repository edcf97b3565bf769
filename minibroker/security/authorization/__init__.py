"""Authorization: rules (`acls`), and decisions (`authorizer`, Kafka's `StandardAuthorizer`).

`server/requests/guard.py` checks each request against the rights that its handler declares
(`server/requests/requirements.py`).
"""
