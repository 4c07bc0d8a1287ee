"""Attacks of clients that break rules or manners, beside an honest client, and how a server stands them."""
