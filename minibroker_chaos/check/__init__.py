"""Judges applications: `facts` notes what the broker sees of them, and the checks compare that with the logs."""
