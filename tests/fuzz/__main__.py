"""Runs one target under the fuzzer: `python -m tests.fuzz codec FOLDER -max_total_time=60`.

The folder begins with the target's seeds and gains every input that reached new code; the options are libFuzzer's.
"""

import importlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["aclgrad", "aclgrad_server", "tests.fuzz"]):
    target = importlib.import_module(f"tests.fuzz.{sys.argv[1]}")

folder = Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for index, seed in enumerate(target.SEEDS):
    (folder / f"seed{index}").write_bytes(seed)

atheris.Setup(sys.argv[1:], target.run)
atheris.Fuzz()
