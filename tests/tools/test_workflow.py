"""The jobs of the workflows are targets of make, and those of a push are what `make ci` runs."""

import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
JOBS = {
    name: yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())["jobs"]["make"]["strategy"]["matrix"]
    for name in ("ci", "weekly")
}


@pytest.mark.parametrize("name", JOBS)
def test_each_job_is_a_target(name: str) -> None:
    targets = {each for rule in re.findall(r"^([a-z0-9 -]+):(?!=)", MAKEFILE, re.MULTILINE) for each in rule.split()}
    assert {*JOBS[name]["target"], *(each["target"] for each in JOBS[name].get("include", ()))} <= targets


def test_each_part_of_make_ci_is_a_job() -> None:
    parts = " ".join(re.findall(r"^CI_\w+ := (.*)", MAKEFILE, re.MULTILINE)).split()
    assert sorted(parts) == sorted(JOBS["ci"]["target"])


def test_make_demo_says_what_it_does_before_each_step_that_takes_long() -> None:
    """As if nothing were there yet. The compiler's own progress is shown as well, by a pip that is not quiet."""
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", "demo"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line for line in told.splitlines() if not line.startswith("touch ")]
    slow = re.compile(
        r"\.venv/bin/(python -m pip install (?!--quiet --upgrade)|cmake --build|python examples)|.* -m venv"
    )
    steps = [(before, line) for before, line in pairwise(lines) if slow.match(line)]
    assert len(steps) == 6
    assert [line for before, line in steps if not before.startswith('echo "=== ')] == []
    assert [line for _, line in steps if "./native" in line and "--quiet" in line] == []
