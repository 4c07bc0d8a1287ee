"""Calls through shared memory."""
