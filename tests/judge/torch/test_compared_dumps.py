"""`aclgrad compare A B --dump`: two servers on the calls of a dump."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from aclgrad.commands import program
from aclgrad.judge.compare import dumped
from aclgrad.testing import serve
from tests.judge.checking import Checked, judged
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import drawn, sample
from tests.judge.torch.test_replay import one_element
from tests.wrong_servers import changed, of_gradients
from tools.serving import Server


def compare(folder: Path, a: str, b: str, dump: Path, *flags: str) -> Checked:
    return judged("compare", folder, a, b, "--dump", str(dump), *flags)


def test_two_right_servers_have_the_same_bits(server: Server, tmp_path: Path) -> None:
    for dtype, task in ((torch.bfloat16, "tensor"), (torch.float32, "statistics")):
        dump = sample(tmp_path / task, dtype, task, copies=2)
        found = compare(tmp_path, server.address, server.address, dump)
        assert found.exit_code == 0, found.output
        assert len(found.rows) == 8
        verdicts = {row["case"].split(".")[1]: row["verdict"] for row in found.rows}
        passed = dict.fromkeys(("max_pool2d", "avg_pool2d", "layer_norm"), "passed")
        assert verdicts == {**passed, "pad": "skipped"}
        assert "give the same bits in all 3 operators" in found.output


def test_a_planted_error_is_found_named_and_located(server: Server, tmp_path: Path) -> None:
    dump, page = sample(tmp_path / "dump"), tmp_path / "report.html"
    with changed(server.address, of_gradients("avg_pool2d_backward", lambda each: one_element(each.copy()))) as b:
        found = compare(tmp_path, server.address, b, dump, "--html", str(page))
    assert found.exit_code == 1, found.output
    (row,) = [row for row in found.rows if row["verdict"] == "failed"]
    assert (row["operator"], row["case"]) == ("Functional.avg_pool2d", "Functional.avg_pool2d.0")
    assert row["message"].startswith("B: ")
    assert row["figures"]["a_wrong"] == 0
    assert row["worst"][0]["index"] == [1, 2, 3, 4]
    assert "B is wrong in Functional.avg_pool2d float32" in found.output
    assert "Functional.avg_pool2d.0" in page.read_text()


def test_products_of_several_operators_are_compared_and_repeated(server: Server, tmp_path: Path) -> None:
    dump = Recording(tmp_path / "dump")
    shapes = ((2, 8, 24), (12, 24), (12,))
    dump.differentiate(drawn(2, 8, 12), "Functional.linear", *(drawn(*each, grad=True) for each in shapes))
    dump.differentiate(
        drawn(4, 6), "Torch.einsum", "ij,jk,kl", *(drawn(*e, grad=True) for e in ((4, 3), (3, 5), (5, 6)))
    )
    path = dump.write()
    found = compare(tmp_path, server.address, server.address, path)
    assert found.exit_code == 0, found.output
    assert {row["verdict"] for row in found.rows} == {"passed"}
    assert {row["figures"]["runs"] for row in found.rows} == {5}
    with changed(server.address, of_gradients("mm", lambda each: each * np.float32(1.01))) as b:
        wrong = compare(tmp_path, server.address, b, path)
    assert {row["case"]: row["verdict"] for row in wrong.rows}["Functional.linear.0"] == "failed"


def test_convolutions_are_compared_by_what_needs_gradients(server: Server, tmp_path: Path) -> None:
    """All three, the weight alone, the input alone, and of no images."""
    dump = Recording(tmp_path / "dump")
    kernel, bias, further = drawn(6, 4, 3, 3, grad=True), drawn(6, grad=True), {"stride": 2, "output_padding": 1}
    dump.add(drawn(2, 6, 6, 6), "Functional.conv2d", drawn(2, 4, 8, 8, grad=True), kernel, bias)
    dump.add(drawn(2, 6, 6, 6), "Functional.conv2d", drawn(2, 4, 8, 8), kernel)
    dump.add(drawn(1, 3, 8, 8), "Torch.conv_transpose2d", drawn(1, 6, 3, 3, grad=True), drawn(6, 3, 3, 3), **further)
    dump.add(drawn(0, 6, 6, 6), "Functional.conv2d", drawn(0, 4, 8, 8, grad=True), kernel, bias)
    found = compare(tmp_path, server.address, server.address, dump.write())
    assert found.exit_code == 0, found.output
    assert [(row["verdict"], row["figures"]["runs"]) for row in found.rows] == [("passed", 5)] * 4
    with changed(server.address, of_gradients("convolution_backward", lambda each: each * np.float32(1.01))) as b:
        wrong = compare(tmp_path, server.address, b, dump.path)
    assert [row["verdict"] for row in wrong.rows] == ["failed"] * 3 + ["passed"]


def test_what_one_server_does_not_take_is_skipped(server: Server, tmp_path: Path) -> None:
    dump = Recording(tmp_path / "dump")
    x, statistics = drawn(2, 3, 8, 8, grad=True), (torch.zeros(3), torch.ones(3))
    dump.add(drawn(2, 3, 8, 8), "Functional.batch_norm", x, *statistics, None, None, True)
    dump.add(drawn(2, 3, 16, 16), "Functional.interpolate", x, [16, 16])
    with serve(product="310P") as other:
        found = compare(tmp_path, server.address, other.target, dump.write())
    assert found.exit_code == 0, found.output
    rows = {row["operator"]: row for row in found.rows}
    assert rows["Functional.batch_norm"]["verdict"] == "skipped"
    assert rows["Functional.batch_norm"]["message"].startswith("B: ")
    assert rows["Functional.interpolate"]["verdict"] in ("passed", "noted")


def test_flags_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    flags = ["--dump", str(sample(tmp_path / "dump")), "--quick"]
    found = CliRunner().invoke(program, ["compare", "127.0.0.1:1", "127.0.0.1:1", *flags])
    assert found.exit_code == 2
    assert "--quick chooses among" in found.output


def test_only_wanted_gradients_are_asked_for_and_a_call_takes_two_messages(server: Server, tmp_path: Path) -> None:
    """Without a weight, with one of two that is learnt, and without elements."""
    dump, sent = Recording(tmp_path / "dump"), Counter[str]()
    x, weight, bias = drawn(2, 3, 8, grad=True), drawn(8), drawn(8, grad=True)
    dump.add(drawn(2, 3, 8), "Functional.layer_norm", x, [8])
    dump.add(drawn(2, 3, 8), "Functional.layer_norm", x, [8], weight, bias)
    dump.add(drawn(0, 3, 4, 4), "Functional.avg_pool2d", drawn(0, 3, 8, 8, grad=True), 2)

    def counted(method: str, request: bytes, reply: bytes) -> bytes:
        sent[method] += 1
        return reply

    with changed(server.address, counted) as b:
        found = compare(tmp_path, server.address, b, dump.write())
    assert found.exit_code == 0, found.output
    assert [row["verdict"] for row in found.rows] == ["passed"] * 3
    assert [row["figures"]["runs"] for row in found.rows] == [5] * 3
    assert (sent["ExecuteOperator"], sent["ExecuteProgram"]) == (3, 3)


def test_a_large_call_is_repeated_once(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumped, "_HELD_BYTES", 1)
    found = compare(tmp_path, server.address, server.address, sample(tmp_path / "dump"), "--only", "avg_pool2d")
    assert [row["figures"]["runs"] for row in found.rows] == [2]
