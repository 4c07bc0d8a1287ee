"""Attacks of clients that break rules or manners, and how a server stands them."""
