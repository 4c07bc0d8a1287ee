"""Judges the programs of a training step, each step on its inputs on the server."""
