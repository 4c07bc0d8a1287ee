"""The bindings of the native runtime, on the host library."""
