"""Targets for a fuzzer, each a function that takes any bytes and raises where something is wrong."""
