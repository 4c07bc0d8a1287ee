"""Calls in chunks."""
