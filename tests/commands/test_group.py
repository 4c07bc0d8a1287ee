"""`aclgrad` alone, `help`, exit codes and `--json`: what all commands have in common."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from aclgrad.commands import program
from aclgrad.commands.group import OVERVIEW
from aclgrad.exit_codes import MEANINGS, ExitCode
from aclgrad.judge.findings.display import Display
from aclgrad.judge.findings.rows import Row
from aclgrad.testing import TestServer

PAGE = Path(__file__).parents[2] / "docs/command-line.md"
NOBODY = "127.0.0.1:1"


def test_without_arguments_it_shows_five_things_and_how_to_see_more() -> None:
    result = CliRunner().invoke(program, [])
    # As click ends a group without a command: 2, and 0 before click 8.2.
    assert result.exit_code in (0, 2)
    assert result.output == OVERVIEW
    lines = OVERVIEW.splitlines()
    assert (len(lines) <= 20, max(map(len, lines)) <= 80) == (True, True)
    assert len([line for line in lines if line.endswith(":") and not line.startswith(" ")]) == 5
    assert re.search(r"aclgrad --help.*aclgrad serve.*aclgrad completion", OVERVIEW, re.DOTALL)


@pytest.mark.parametrize("words", [[], ["judge"], ["check"]])
def test_help_is_a_command_too(words: list[str]) -> None:
    shown, told = (CliRunner().invoke(program, each) for each in ([*words, "--help"], ["help", *words]))
    assert (told.exit_code, told.output) == (0, shown.output)
    assert CliRunner().invoke(program, ["help", "nothing"]).exit_code == 2


def test_help_cuts_no_sentence_and_fits() -> None:
    listed = CliRunner().invoke(program, ["--help"]).output.partition("Commands:")[2].partition("Exit codes")[0]
    assert "..." not in listed
    assert (
        re.sub(r"\n {10,}", " ", listed).strip().count(".\n") == len(program.commands) - 2
    )  # without the last, and help
    for name in program.commands.keys() - {"serve"}:
        lines = CliRunner().invoke(program, [name, "--help"]).output.splitlines()
        assert max(map(len, lines)) <= 80, name


def test_the_page_and_the_help_have_the_table_of_exit_codes() -> None:
    page = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in page] == list(MEANINGS.items())
    assert list(MEANINGS) == list(ExitCode)
    shown = " ".join(CliRunner().invoke(program, ["--help"]).output.split())
    assert all(f"{code:d} {meaning}" in shown for code, meaning in MEANINGS.items())


ENDS = {
    "operators": 0,
    "operators mm": 0,
    "operators --target {server}": 0,
    "operators nothing": 2,
    f"operators --target {NOBODY}": 3,
    "status {server}": 0,
    "status --target {server}": 0,
    "status nowhere": 2,
    f"status {NOBODY}": 3,
    "doctor {server}": 0,
    f"doctor --target {NOBODY}": 1,
    "doctor a:1,,b:2": 2,
    "call adaptive_avg_pool2d_backward grad_output={folder}/g.npy input=3,8,8": 0,
    "call adaptive_avg_pool2d_backward grad_output={folder}/none.npy input=3,8,8": 2,
    f"call adaptive_avg_pool2d_backward grad_output={{folder}}/g.npy input=3,8,8 --target {NOBODY}": 3,
    "call": 2,
    "check {server} --quick --only listing": 0,
    "check --target {server} --quick --only listing": 0,
    "check --frob": 2,
    "check {server} --html {folder}/none/page.html": 2,
    f"check {NOBODY}": 3,
    f"compare {NOBODY} {NOBODY}": 3,
    "compare {server} {server} --only nothing": 2,
    "bench --seconds 0.1": 0,
    "bench --dtype int8": 2,
    f"bench --target {NOBODY}": 3,
}


@pytest.mark.parametrize(("command", "code"), ENDS.items(), ids=ENDS)
def test_each_command_ends_by_the_table_and_prints_one_object(
    testing: TestServer, tmp_path: Path, command: str, code: int
) -> None:
    np.save(tmp_path / "g.npy", np.ones((3, 2, 2), np.float32))
    words = command.format(server=testing.target, folder=tmp_path).split()
    environment = {"ACLGRAD_TARGET": testing.target, "ACLGRAD_CONNECT_TIMEOUT_S": "0"}
    plain, as_json = (
        CliRunner().invoke(program, [words[0], *flags, *words[1:]], env=environment) for flags in ([], ["--json"])
    )
    assert (plain.exit_code, as_json.exit_code) == (code, code), plain.output
    told = only_object(as_json)
    if code >= 2:
        assert (sorted(told), told["exit_code"]) == (["error", "exit_code"], code)
        # Its last line has the message for people.
        assert told["error"]["message"] in as_json.stderr
        assert told["error"]["type"].isidentifier()
    assert "Traceback" not in plain.output


def only_object(result: Result) -> dict[str, Any]:
    """Returns the object that is all of the standard output."""
    told = json.loads(result.stdout)
    assert isinstance(told, dict)
    assert result.stdout.count("\n") == 1
    return told


def test_rows_are_in_the_object_and_not_on_the_screen(testing: TestServer, tmp_path: Path) -> None:
    flags = ["check", testing.target, "--quick", "--only", "listing", "--json", "--rows", str(tmp_path / "rows.jsonl")]
    result = CliRunner().invoke(program, flags)
    told = only_object(result)
    *rows, last = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert (told["rows"], told["exit_code"], told["end"]) == (rows, 0, last["summary"]["end"])
    assert result.stderr == ""


def test_after_ctrl_c_the_object_has_the_rows_so_far(testing: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = []

    def take(_: Display, row: Row) -> None:
        rows.append(row)
        if len(rows) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "take", take)
    result = CliRunner().invoke(program, ["check", testing.target, "--quick", "--only", "listing", "--json"])
    told = only_object(result)
    assert (result.exit_code, told["exit_code"], told["end"], len(told["rows"])) == (130, 130, "interrupted", 3)
    assert result.stderr == "aclgrad check: " + told["message"] + "; the report is partial\n"
