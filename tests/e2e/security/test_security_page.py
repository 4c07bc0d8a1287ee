"""Each line of SECURITY.md that says what somebody can or cannot do names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_named_tests_exist() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    page = page[page.index("## Who can do what") :]
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| can or cannot")]
    assert len(rows) > 20
    for row in rows:
        _, claim, shown, _ = row.split("|")
        named = re.findall(r"`([^`]+)`", shown)
        # What is not kept from somebody needs no test.
        assert named or " can " in f" {claim.strip()}", row
        for each in named:
            assert each.startswith("make ") or (ROOT / "tests" / each).exists(), row
