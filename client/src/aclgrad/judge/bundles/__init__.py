"""A bug report in one file: one call of one operator, what a server returned for it, and what is expected.

A bundle is a zip file. `call.json` names operator, inputs, attributes, tolerance and origin; `inputs.safetensors`,
`gradients.safetensors` and `expected.safetensors` hold the arrays; `repeat.py` makes the call again, and `README.txt`
is for those who get the file. Writing and reading need safetensors.
"""

from aclgrad.judge.bundles.bundle import MAX_BUNDLE_BYTES, Bundle, BundledCall, write
from aclgrad.judge.bundles.reading import read

__all__ = ["MAX_BUNDLE_BYTES", "Bundle", "BundledCall", "read", "write"]
