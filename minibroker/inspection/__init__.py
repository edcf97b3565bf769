"""What looks into requests when someone has asked for it."""
