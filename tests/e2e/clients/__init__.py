"""Clients and real servers: what `tests/client` shows of servers in its own process."""
