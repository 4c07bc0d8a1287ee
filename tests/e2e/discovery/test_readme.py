"""The Python examples of the README and of the pages in docs/ run as they stand, but for the address."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.serving import Server

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
EXAMPLES = {
    f"{page.stem}-{number}": code
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
}
EXTRAS = ("torch", "jax")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, server: Server) -> None:
    code = EXAMPLES[name].replace("127.0.0.1:50051", server.address)
    for extra in EXTRAS:
        if f"import {extra}" in code and find_spec(extra) is None:
            pytest.skip(f"{extra} is not installed")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_every_example_of_the_readme_is_found() -> None:
    assert sum(name.startswith("README") for name in EXAMPLES) >= 4
