"""The operators: one folder for each, with the operator's wire name, and the modules that they share.

A folder has `spec.py` (what the server checks), `definition.py` (the result in float64, and the forward function of a
gradient) and `samples.py` (legal calls, PyTorch's equivalent). `catalogue.py` and everything else that lists operators
is generated.
"""
