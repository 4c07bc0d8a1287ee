"""A bug report in one file: a call or a program, a server's results, and the expected ones.

A bundle is a zip file. `program.json` has the steps, as `aclgrad call --program` reads them, tolerance and origin;
`inputs.safetensors`, `gradients.safetensors` and `expected.safetensors` hold the arrays; `repeat.py` makes the call
again, and `README.txt` is for those who get the file. Writing and reading need safetensors.
"""

from aclgrad.judge.bundles.bundle import MAX_BUNDLE_BYTES, Bundle, JudgedProgram, write
from aclgrad.judge.bundles.reading import read

__all__ = ["MAX_BUNDLE_BYTES", "Bundle", "JudgedProgram", "read", "write"]
