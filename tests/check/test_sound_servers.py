"""A run on servers that compute rightly: rows, files and switches."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from aclgrad.check.run import plan
from aclgrad.check.target import open_target
from aclgrad.commands import program
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.check.checking import check
from tools.serving import Server


def test_every_row_passes_and_says_what_it_is_about(server: Server, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    checked = check(tmp_path, server.address, "--html", str(page))
    assert checked.exit_code == 0, checked.output
    assert {row["verdict"] for row in checked.rows} == {"passed"}
    assert {row["operator"] for row in checked.rows} - {""} == set(OPERATORS)
    checks = {"listing", "accuracy", "layouts", "fills", "determinism", "shape_only", "latency", "memory"}
    assert {row["check"] for row in checked.rows} == checks
    for row in checked.rows:
        assert (row["target"], row["product"], row["library"]) == (server.address, "910B", "libacl_host.so")
        assert row["runtime_version"]
    assert checked.summary["end"] == "complete"
    assert checked.summary["passed"] == checked.summary["planned"] == len(checked.rows)
    assert checked.summary["switches"]["--shape-only"]["verdict"] == "safe"
    assert checked.summary["switches"]["--executor-cache"]["verdict"] == "not compared"
    charts = re.findall(r"<svg.*?</svg>", page.read_text())
    assert len(charts) == len(OPERATORS) + 1
    for chart in charts:
        ElementTree.fromstring(chart)


def test_accuracy_covers_every_dtype_that_the_product_takes(server: Server, tmp_path: Path) -> None:
    rows = check(tmp_path, server.address, only=["accuracy"]).rows
    covered = {(row["operator"], row["dtype"]) for row in rows if row["check"] == "accuracy"}
    assert covered == {
        (spec.name, dtype) for spec in OPERATORS.values() for dtype in spec.inputs[0].dtypes[Product.ATLAS_A2]
    }


@pytest.mark.parametrize("is_quick", [True, False])
def test_two_runs_make_the_same_cases(server: Server, is_quick: bool) -> None:
    plans = []
    for _ in range(2):
        with open_target(server.address, 60) as target:
            plans.append(
                [(task.check, task.operator, task.dtype, task.case) for task in plan(target, None, is_quick=is_quick)]
            )
    assert plans[0] == plans[1]
    assert len(set(plans[0])) == len(plans[0])


def test_switches_are_safe_where_a_server_without_them_gives_the_same_bits(server: Server, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with Server("--shape-only", "off", "--executor-cache", "off") as off:
        checked = check(tmp_path, off.address, "--against", server.address, "--html", str(page))
        assert checked.exit_code == 0, checked.output
        assert {row["target"] for row in checked.rows} == {off.address, server.address}
        assert checked.verdicts("against") == {"passed"}
        assert {name: each["verdict"] for name, each in checked.summary["switches"].items()} == {
            "--shape-only": "safe",
            "--executor-cache": "safe",
        }
        assert page.read_text().count("<section>") == 2
        swapped = check(tmp_path, server.address, "--against", off.address, only=["listing"])
        assert swapped.summary["switches"]["--executor-cache"]["verdict"] == "not compared"


@pytest.mark.parametrize("product", [Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE, Product.ASCEND_950])
def test_other_products_are_checked_for_what_they_serve(product: Product, tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"product": product}}))
    with Server("--acl-config", str(config)) as server:
        checked = check(tmp_path, server.address)
    assert checked.exit_code == 0, checked.output
    served = {spec.name for spec in OPERATORS.values() if product in spec.products}
    assert {row["operator"] for row in checked.rows} - {""} == served
    if product is Product.ATLAS_TRAINING:
        assert "uint16 bits" in {row["message"] for row in checked.rows if row["check"] == "layouts"}


def test_an_earlier_run_stands_beside_this_one(server: Server, tmp_path: Path) -> None:
    check(tmp_path, server.address, only=["accuracy"])
    earlier = tmp_path / "earlier.jsonl"
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    earlier.write_text("\n".join([lines[0].replace('"passed"', '"failed"'), *lines[1:]]))
    page = tmp_path / "report.html"
    assert (
        check(tmp_path, server.address, "--compare", str(earlier), "--html", str(page), only=["accuracy"]).exit_code
        == 0
    )
    assert page.read_text().count("<section>") == 2
    assert "Verdicts that changed" in page.read_text()


def test_files_that_cannot_be_used_are_refused_at_once(server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("no row\n")
    arguments = ["check", server.address, "--compare", str(other)]
    result = CliRunner().invoke(program, [*arguments, "--html", str(tmp_path / "report.html")])
    assert (result.exit_code, "line 1 of" in result.output) == (2, True)
    result = CliRunner().invoke(program, arguments)
    assert (result.exit_code, "add --html FILE" in result.output) == (2, True)
    result = CliRunner().invoke(program, ["check", "127.0.0.1:1", "--html", str(tmp_path / "nowhere" / "report.html")])
    assert (result.exit_code, "there is no folder" in result.output) == (2, True)
