"""Judges what training recorded: every call of a dump against float64 and PyTorch on this CPU, without a server."""
