"""A call's way through the server: plan, admit, inputs, run, reply."""
