"""Authorization: rules (`acls`), and decisions (`authorizer`, Kafka's `StandardAuthorizer`).

`server/requests/guard.py` checks each request by what its handler declares (`server/requests/requirements.py`).
"""
