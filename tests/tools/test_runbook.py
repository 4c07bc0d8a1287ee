"""The runbook is a script, and each of its steps says when to go on."""

import re
import subprocess

from tools.rehearsal.__main__ import RUNBOOK, blocks, script

TEXT = RUNBOOK.read_text()


def test_its_blocks_are_a_shell_script() -> None:
    done = subprocess.run(["bash", "-n"], input=script(TEXT), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_step_has_a_command_and_a_decision() -> None:
    sections = dict(re.findall(r"^## (\d+)\. .*?\n(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL))
    assert list(sections) == [str(number) for number in range(9)]
    commands = {heading.partition(".")[0] for heading, _ in blocks(TEXT)}
    for number, section in sections.items():
        assert number in commands
        assert "**Go**" in section, number
