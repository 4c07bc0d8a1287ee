"""Measures a card at the ABI, before a server serves it."""
