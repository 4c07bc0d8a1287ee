"""Callers without pauses drive a server and a bare echo through scenarios, and objectives say whether it did well."""
