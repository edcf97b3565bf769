"""The logs of a broker: how they are opened, written and closed, and the chores that are done to them."""
