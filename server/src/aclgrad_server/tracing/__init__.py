"""Traces: the spans of calls, and their way to a collector. Loaded only with `--tracing`."""
