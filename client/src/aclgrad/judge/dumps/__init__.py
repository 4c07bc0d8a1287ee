"""Judges a training's dump: every call against float64 and PyTorch on this CPU, without a server."""
