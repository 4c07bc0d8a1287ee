"""Judges gradients: a server's, by the definitions or another server, and a training's recorded ones."""
