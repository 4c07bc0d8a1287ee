"""A target for a fuzzer: a function that takes any bytes and raises where something is wrong."""
