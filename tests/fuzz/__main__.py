"""Runs the target under the fuzzer: `python -m tests.fuzz FOLDER... -max_total_time=60`.

What is found interesting goes to the first folder; the options are libFuzzer's.
"""

import sys

import atheris

with atheris.instrument_imports(include=["aclgrad", "tests.fuzz"]):
    from . import codec

atheris.Setup(sys.argv, codec.run)
atheris.Fuzz()
