"""Chaos: workers of a host are killed, stopped and hung under load, and what clients saw is judged."""
