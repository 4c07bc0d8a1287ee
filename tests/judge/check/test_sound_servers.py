"""Runs on servers that compute rightly: the tasks, rows, files and switches; and what is refused before a run."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from aclgrad.commands import program
from aclgrad.judge.check.command import tasks_of
from aclgrad.judge.check.target import open_target
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorKind
from aclgrad.products import Product
from aclgrad.testing import serve
from tests.judge.checking import FEW, check
from tools.serving import Server

CHECKS = {
    "listing",
    "accuracy",
    "statistics",
    "layouts",
    "fills",
    "determinism",
    "shape_only",
    "views",
    "latency",
    "memory",
}


@pytest.mark.parametrize(("is_quick", "further"), [(True, ["invariance"]), (False, [])], ids=["quick", "full"])
def test_two_runs_make_the_same_cases_of_every_operator_with_every_dtype(is_quick: bool, further: list[str]) -> None:
    runs = []
    with serve() as server:
        for _ in range(2):
            with open_target(server.target, 60) as target:
                tasks = tasks_of(target, [*CHECKS, *further], is_quick=is_quick)
                runs.append([(task.check, task.operator, task.dtype, task.case) for task in tasks])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == len(runs[0])
    covered = {(operator, dtype) for made, operator, dtype, _ in runs[0] if made == "accuracy"}
    assert covered == {
        (spec.name, dtype) for spec in OPERATORS.values() for dtype in spec.leading_input.dtypes[Product.ATLAS_A2]
    }
    for each in ("accuracy", *further):
        # Rows of a product are no items: one of them may be added up in another order. Masks and targets do not join.
        found = {operator for made, operator, *_ in runs[0] if made == each}
        values = {name for name, spec in OPERATORS.items() if spec.kind is OperatorKind.VALUE}
        may_lack = {"ctc_loss_backward"} | values if each == "invariance" else set()
        assert set(OPERATORS) - found <= may_lack


@pytest.mark.slow
@pytest.mark.parametrize("product", [Product.ATLAS_A2, Product.ATLAS_TRAINING])
def test_both_layouts_of_masks_pass(product: Product, tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"product": product}}))
    with Server("--acl-config", str(config)) as server:
        checked = check(tmp_path, server.address)
        invariant = check(tmp_path, server.address, "--invariance")
        switch = check(tmp_path, server.address, only=("views",)).summary["switches"]["--strided-inputs"]
    served = {name for name, spec in OPERATORS.items() if product in spec.products}
    # What has a rule alone, or is empty of axes, is no view on the device.
    assert switch["verdict"] == "safe"
    (count,) = re.findall(r"^all: (\d+) operators", switch["why"])
    assert len(served) / 2 < int(count) <= len(served)
    assert (checked.exit_code, invariant.exit_code) == (0, 0), checked.output + invariant.output
    told = {(row["verdict"], row["operator"]) for row in (*checked.rows, *invariant.rows) if row["verdict"] != "passed"}
    # Sums of transposed tensors may be in the order of the memory.
    sums = [name for name, spec in OPERATORS.items() if spec.kind is OperatorKind.VALUE]
    assert told <= {("noted", name) for name in (*sums, "convolution_backward")}
    assert {(row["library"], bool(row["runtime_version"])) for row in checked.rows} == {("libacl_host.so", True)}
    served = {spec.name for spec in OPERATORS.values() if product in spec.products}
    assert {row["operator"] for row in checked.rows} - {""} == served
    if product is Product.ATLAS_TRAINING:
        assert "uint16 bits" in {row["message"] for row in checked.rows if row["check"] == "layouts"}


def test_every_row_passes_and_says_what_it_is_about(address: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    checked = check(tmp_path, address, "--html", str(page))
    assert checked.exit_code == 0, checked.output
    assert {row["verdict"] for row in checked.rows} == {"passed"}
    assert {row["operator"] for row in checked.rows if row["check"] not in ("listing", "memory")} == set(FEW)
    assert {row["check"] for row in checked.rows} == CHECKS
    for row in checked.rows:
        assert (row["target"], row["product"], row["library"]) == (address, "910B", "aclgrad.testing")
    assert checked.summary["end"] == "complete"
    assert checked.summary["passed"] == checked.summary["planned"] == len(checked.rows)
    verdicts = {name: each["verdict"] for name, each in checked.summary["switches"].items()}
    assert verdicts == {"--shape-only": "safe", "--strided-inputs": "not compared"}
    charts = re.findall(r"<svg.*?</svg>", page.read_text())
    assert len(charts) == len(FEW) + 1
    for chart in charts:
        ElementTree.fromstring(chart)

    earlier = tmp_path / "earlier.jsonl"
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    earlier.write_text("\n".join([lines[0].replace('"passed"', '"failed"'), *lines[1:]]))
    again = check(tmp_path, address, "--compare", str(earlier), "--html", str(page), "--force", only=["listing"])
    assert again.exit_code == 0
    assert page.read_text().count("<section>") == 2
    assert "Verdicts that changed" in page.read_text()


def test_memory_of_a_servers_devices_comes_back(few: pytest.MonkeyPatch, server: Server, tmp_path: Path) -> None:
    checked = check(tmp_path, server.address, only=("memory",))
    assert (checked.exit_code, checked.verdicts("memory")) == (0, {"passed"}), checked.output


REFUSED = {
    "no_rows": (["{address}", "--compare", "{file}", "--html", "{folder}/report.html"], "line 1 of"),
    "no_page": (["{address}", "--compare", "{file}"], "add --html FILE"),
    "rows_there": (["{address}", "--rows", "{file}"], "exists; give another file, or --force to replace it"),
    "a_page_there": (["{address}", "--html", "{file}"], "exists; give another file, or --force to replace it"),
    "the_earlier_rows": (
        ["{address}", "--rows", "{file}", "--compare", "{file}", "--html", "{folder}/report.html", "--force"],
        "{file} is the earlier run of --compare",
    ),
    "no_folder": (["127.0.0.1:1", "--html", "{folder}/nowhere/report.html"], "there is no folder"),
    "a_bundle_there": (["{address}", "--bundle", "{file}"], "exists; give another file, or --force to replace it"),
    "no_folder_of_a_bundle": (["{address}", "--bundle", "{folder}/nowhere/worst.zip"], "there is no folder"),
    "nothing_to_export": (["127.0.0.1:1", "--only", "fills", "--msprobe", "{folder}"], "add --only accuracy"),
    "export_to_a_file": (["{address}", "--msprobe", "{file}"], "is a file"),
    "export_below_a_file": (["{address}", "--msprobe", "{file}/below"], "Not a directory"),
    "export_to_a_used_folder": (["{address}", "--msprobe", "{folder}"], "{folder} is not empty"),
    "no_time": (["{address}", "--timeout-s", "-5"], "-5.0 is not in the range x>0"),
    "no_target": (["nonsense"], "aclgrad check: "),
    "a_url": (["http://127.0.0.1:1"], "aclgrad check: "),
    "nobody_there": (["{address},127.0.0.1:1"], "127.0.0.1:1"),
}


@pytest.mark.parametrize(("arguments", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_before_a_row(
    address: str, tmp_path: Path, arguments: list[str], told: str
) -> None:
    words = {"address": address, "folder": tmp_path, "file": tmp_path / "other.txt"}
    (tmp_path / "other.txt").write_text("no row\n")
    rows = tmp_path.parent / f"{tmp_path.name}.jsonl"
    given = [each.format_map(words) for each in arguments]
    result = CliRunner().invoke(program, ["check", "--quick", "--rows", str(rows), *given])
    expected = 3 if arguments == REFUSED["nobody_there"][0] else 2
    assert (result.exit_code, told.format_map(words) in result.output) == (expected, True), result.output
    assert not rows.exists() or rows.read_text() == ""
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("other.txt", "no row\n")]


def test_several_servers_are_checked_one_after_the_other_and_named(few: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serve() as one, serve(product="310P") as other:
        targets = {one.target: "910B", other.target: "310P"}
        exported = "--msprobe", str(tmp_path / "exported")
        done = check(tmp_path, ",".join(targets), *exported, only=("determinism", "accuracy"))
    assert done.exit_code == 0, done.output
    assert {(row["target"], row["product"]) for row in done.rows} == set(targets.items())
    switches = ("--shape-only", "--strided-inputs")
    assert set(done.summary["switches"]) == {f"{target} {each}" for target in targets for each in switches}
    for target, product in targets.items():
        (details,) = (tmp_path / "exported" / target).glob("accuracy_checking_details_*.csv")
        assert f" on {product}. " in details.read_text()
    assert {each.name for each in (tmp_path / "exported").iterdir()} == set(targets)
