"""A run on servers that compute rightly: rows, files and switches."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from aclgrad.commands import program
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.testing import serve
from tests.check.checking import check

CHECKS = {"listing", "accuracy", "statistics", "layouts", "fills", "determinism", "shape_only", "latency", "memory"}


def test_every_row_passes_and_says_what_it_is_about(address: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    checked = check(tmp_path, address, "--html", str(page))
    assert checked.exit_code == 0, checked.output
    assert {row["verdict"] for row in checked.rows} == {"passed"}
    assert {row["operator"] for row in checked.rows} - {""} == set(OPERATORS)
    assert {row["check"] for row in checked.rows} == CHECKS
    for row in checked.rows:
        assert (row["target"], row["product"], row["library"]) == (address, "910B", "aclgrad.testing")
    assert checked.summary["end"] == "complete"
    assert checked.summary["passed"] == checked.summary["planned"] == len(checked.rows)
    assert {name: each["verdict"] for name, each in checked.summary["switches"].items()} == {"--shape-only": "safe"}
    charts = re.findall(r"<svg.*?</svg>", page.read_text())
    assert len(charts) == len(OPERATORS) + 1
    for chart in charts:
        ElementTree.fromstring(chart)


def test_an_earlier_run_stands_beside_this_one(address: str, tmp_path: Path) -> None:
    check(tmp_path, address, only=["accuracy"])
    earlier = tmp_path / "earlier.jsonl"
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    earlier.write_text("\n".join([lines[0].replace('"passed"', '"failed"'), *lines[1:]]))
    page = tmp_path / "report.html"
    checked = check(tmp_path, address, "--compare", str(earlier), "--html", str(page), only=["accuracy"])
    assert checked.exit_code == 0
    assert page.read_text().count("<section>") == 2
    assert "Verdicts that changed" in page.read_text()


def test_files_that_cannot_be_used_are_refused_at_once(address: str, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("no row\n")
    for arguments, told in (
        ([address, "--compare", str(other), "--html", str(tmp_path / "report.html")], "line 1 of"),
        ([address, "--compare", str(other)], "add --html FILE"),
        (["127.0.0.1:1", "--html", str(tmp_path / "nowhere" / "report.html")], "there is no folder"),
    ):
        result = CliRunner().invoke(program, ["check", *arguments])
        assert (result.exit_code, told in result.output) == (2, True), told


def test_several_servers_are_checked_one_after_the_other_and_named(few: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serve() as one, serve(product="310P") as other:
        done = check(tmp_path, f"{one.target},{other.target}", only=("determinism",))
        assert done.exit_code == 0
        assert {(row["target"], row["product"]) for row in done.rows} == {(one.target, "910B"), (other.target, "310P")}
        assert set(done.summary["switches"]) == {f"{server.target} --shape-only" for server in (one, other)}
        refused = check(tmp_path, f"{one.target},127.0.0.1:1", only=("determinism",))
    assert refused.exit_code == 2
    assert "127.0.0.1:1" in refused.output
