"""The jobs of the workflow are targets of make, and all that `make ci` runs is a job."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
MATRIX = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["make"]["strategy"]["matrix"]


def test_each_job_is_a_target() -> None:
    targets = set(re.search(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)[1].split())
    assert {*MATRIX["target"], *(each["target"] for each in MATRIX["include"])} <= targets


def test_each_part_of_make_ci_is_a_job() -> None:
    parts = " ".join(re.findall(r"^CI_\w+ := (.*)", MAKEFILE, re.MULTILINE)).split()
    assert len(parts) > 10
    assert set(parts) <= set(MATRIX["target"])
