"""Each line of SECURITY.md that says what somebody can or cannot do names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_named_tests_exist() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    section = page[page.index("## Who can do what") : page.index("## For those who run a server")]
    lines = re.findall(r"^\* (.+(?:\n  .+)*)", section, re.MULTILINE)
    assert len(lines) > 20
    for line in lines:
        named = re.findall(r"`(make [^`]+|[\w/]+\.py)`", line)
        # What is not kept from somebody needs no test.
        assert named or line.startswith("can "), line
        for each in named:
            assert each.startswith("make ") or (ROOT / "tests" / each).exists(), line
