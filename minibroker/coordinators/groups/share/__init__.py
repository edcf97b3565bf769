"""Share groups: the coordinator assigns partitions, several members read one, and each record goes to one of them."""
