"""The operators: each is a folder with its wire name, or a row of a family; and the modules that they share.

A folder has `spec.py` (what the server checks), `definition.py` (the result in float64, and the forward function of a
gradient) and `samples.py` (legal calls, PyTorch's equivalent). A family has the same modules, with a table of its
operators in each. `parts.py` finds both. `catalogue.py` and everything else that lists operators is generated.
"""
