"""Every reason has a section that says why it occurs and what to do."""

import re

from aclgrad.v1 import error_reason_pb2
from tests.docs.snippets import ROOT

PREFIX = "ERROR_REASON_"


def test_every_reason_has_a_cause_and_a_remedy() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()
    sections = dict(re.findall(r"^### ([A-Z_]+)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL))
    names = error_reason_pb2.ErrorReason.DESCRIPTOR.values_by_name
    reasons = {name.removeprefix(PREFIX) for name in names} - {"UNSPECIFIED"}
    assert set(sections) == reasons
    for reason, section in sections.items():
        assert ("**Cause.** " in section, "**Remedy.** " in section) == (True, True), reason
