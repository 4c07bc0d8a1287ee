"""The examples of the README run as they stand, but for the address."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import Server

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=["gradient", "asyncio", "by_name", "batch"])
def test_an_example_runs(example: str, server: Server) -> None:
    assert "127.0.0.1:50051" in example
    code = example.replace("127.0.0.1:50051", server.address)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
