"""Devices that fail or hang."""
