"""Traces: the spans of calls, sent to a collector. Loaded only with `--tracing`."""
