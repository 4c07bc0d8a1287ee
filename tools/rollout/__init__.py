"""Plays a rolling update of Kubernetes with processes of this machine, and counts the calls that it loses."""
