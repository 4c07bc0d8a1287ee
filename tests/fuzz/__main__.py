"""Runs one target under the fuzzer: `python -m tests.fuzz codec FOLDER... -max_total_time=60`.

What is found interesting goes to the first folder; the options are libFuzzer's.
"""

import importlib
import sys

import atheris

with atheris.instrument_imports(include=["aclgrad", "aclgrad_server", "tests.fuzz"]):
    target = importlib.import_module(f"tests.fuzz.{sys.argv[1]}")

atheris.Setup(sys.argv[1:], target.run)
atheris.Fuzz()
