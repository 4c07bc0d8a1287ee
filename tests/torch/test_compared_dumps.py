"""`aclgrad compare A B --dump`: two servers on the calls of a dump."""

from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from aclgrad.commands import program
from aclgrad.compare import dumped
from aclgrad.judgement.console import Display
from aclgrad.judgement.rows import Row
from aclgrad.testing import serve
from tests.check.checking import Checked, judged
from tests.torch.dumps import Dump
from tests.torch.test_replay import PLANTED, drawn, sample
from tests.wrong_servers import changed, of_gradients, of_status
from tools.serving import Server


def compare(folder: Path, a: str, b: str, dump: Path, *flags: str) -> Checked:
    return judged("compare", folder, a, b, "--dump", str(dump), *flags)


def test_two_right_servers_have_the_same_bits(server: Server, tmp_path: Path) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for task in ("tensor", "statistics"):
            dump = sample(tmp_path / task / str(dtype), dtype, task, copies=2)
            found = compare(tmp_path, server.address, server.address, dump)
            assert found.exit_code == 0, found.output
            assert len(found.rows) == 8
            verdicts = {row["case"].split(".")[1]: row["verdict"] for row in found.rows}
            assert verdicts == {
                "max_pool2d": "passed",
                "pad": "skipped",
                "avg_pool2d": "passed",
                "layer_norm": "passed",
            }
            assert "give the same bits in all 3 operators" in found.output


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_error_is_found_named_and_located(server: Server, tmp_path: Path, plant: str) -> None:
    dump, page = sample(tmp_path / "dump"), tmp_path / "report.html"
    with changed(server.address, of_gradients("avg_pool2d_backward", lambda each: PLANTED[plant](each.copy()))) as b:
        found = compare(tmp_path, server.address, b, dump, "--html", str(page))
    assert found.exit_code == 1, found.output
    (row,) = [row for row in found.rows if row["verdict"] == "failed"]
    assert (row["operator"], row["case"]) == ("Functional.avg_pool2d", "Functional.avg_pool2d.0")
    assert row["message"].startswith("B: ")
    assert row["figures"]["a_wrong"] == 0
    if plant in ("one element", "NaN"):
        assert row["worst"][0]["index"] == [1, 2, 3, 4]
    assert "B is wrong in Functional.avg_pool2d float32" in found.output
    assert "Functional.avg_pool2d.0" in page.read_text()


def test_the_last_bit_is_noted_as_one_unit(server: Server, tmp_path: Path) -> None:
    dump = sample(tmp_path / "dump")

    def next_up(gradient: np.ndarray) -> np.ndarray:
        return np.nextafter(gradient, np.float32(np.inf))

    with changed(server.address, of_gradients("avg_pool2d_backward", next_up)) as b:
        found = compare(tmp_path, server.address, b, dump)
    assert found.exit_code == 0, found.output
    (row,) = [row for row in found.rows if row["verdict"] == "noted"]
    assert (row["operator"], row["figures"]["max_ulps"], row["figures"]["different"]) == ("Functional.avg_pool2d", 1, 1)


def test_what_one_server_does_not_take_is_skipped(server: Server, tmp_path: Path) -> None:
    dump = Dump(tmp_path / "dump")
    x = drawn(2, 3, 8, 8, grad=True)
    dump.add("Functional.batch_norm.0", [x, torch.zeros(3), torch.ones(3), None, None, True], drawn(2, 3, 8, 8))
    dump.add("Functional.interpolate.0", [x, [16, 16]], drawn(2, 3, 16, 16))
    with serve(product="310P") as other:
        found = compare(tmp_path, server.address, other.target, dump.write())
    assert found.exit_code == 0, found.output
    rows = {row["operator"]: row for row in found.rows}
    assert rows["Functional.batch_norm"]["verdict"] == "skipped"
    assert rows["Functional.batch_norm"]["message"].startswith("B: ")
    assert rows["Functional.interpolate"]["verdict"] in ("passed", "noted")


@pytest.mark.parametrize(
    ("flags", "told"),
    [(["--only", "no_such"], "there is no operator no_such"), (["--dump", "DUMP", "--quick"], "--quick chooses among")],
)
def test_flags_that_do_not_fit_are_refused(tmp_path: Path, flags: list[str], told: str) -> None:
    dump = str(sample(tmp_path / "dump"))
    given = [dump if each == "DUMP" else each for each in flags]
    found = CliRunner().invoke(program, ["compare", "127.0.0.1:1", "127.0.0.1:1", *given])
    assert found.exit_code == 2
    assert told in found.output


def test_a_dump_is_read_before_servers_are_asked(tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text("{")
    found = CliRunner().invoke(program, ["compare", "127.0.0.1:1", "127.0.0.1:1", "--dump", str(dump)])
    assert (found.exit_code, "dump.json is cut off" in found.output) == (2, True), found.output


def test_only_wanted_gradients_are_asked_for_and_a_call_takes_two_messages(server: Server, tmp_path: Path) -> None:
    """Without a weight, with one of two that is learnt, and without elements."""
    dump, sent = Dump(tmp_path / "dump"), Counter[str]()
    x, weight, bias = drawn(2, 3, 8, grad=True), drawn(8), drawn(8, grad=True)
    dump.add("Functional.layer_norm.0", [x, [8]], drawn(2, 3, 8))
    dump.add("Functional.layer_norm.1", [x, [8], weight, bias], drawn(2, 3, 8))
    dump.add("Functional.avg_pool2d.0", [drawn(0, 3, 8, 8, grad=True), 2], drawn(0, 3, 4, 4))

    def counted(method: str, request: bytes, reply: bytes) -> bytes:
        sent[method] += 1
        return reply

    with changed(server.address, counted) as b:
        found = compare(tmp_path, server.address, b, dump.write())
    assert found.exit_code == 0, found.output
    assert [row["verdict"] for row in found.rows] == ["passed"] * 3
    assert [row["figures"]["runs"] for row in found.rows] == [5] * 3
    assert (sent["ExecuteOperator"], sent["BatchExecuteOperators"]) == (3, 3)


def test_a_large_call_is_repeated_once(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumped, "_HELD_BYTES", 1)
    found = compare(tmp_path, server.address, server.address, sample(tmp_path / "dump"), "--only", "avg_pool2d")
    assert [row["figures"]["runs"] for row in found.rows] == [2]


@pytest.mark.parametrize(("is_deterministic", "verdict"), [(True, "failed"), (False, "noted")])
def test_a_server_that_varies_is_found(server: Server, tmp_path: Path, is_deterministic: bool, verdict: str) -> None:
    numbers = count()

    def varying(gradient: np.ndarray) -> np.ndarray:
        return np.nextafter(gradient, np.float32(np.inf)) if next(numbers) % 3 == 2 else gradient

    dump = sample(tmp_path / "dump")
    with (
        changed(server.address, of_gradients("avg_pool2d_backward", varying)) as varies,
        changed(varies, of_status(deterministic=is_deterministic)) as b,
    ):
        found = compare(tmp_path, server.address, b, dump)
    (row,) = [row for row in found.rows if row["verdict"] not in ("passed", "skipped")]
    assert (row["verdict"], row["figures"]["a_varied"], row["figures"]["b_varied"]) == (verdict, 0, 1)
    assert "repeated runs of B differ in Functional.avg_pool2d float32" in found.output


def test_a_server_that_goes_away_leaves_the_rows_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump, real = sample(tmp_path / "dump", copies=3), Display.take
    with serve() as a, ExitStack() as stack:
        b = stack.enter_context(serve()).target

        def take(display: Display, row: Row) -> None:
            real(display, row)
            stack.close()

        monkeypatch.setattr(Display, "take", take)
        found = compare(tmp_path, a.target, b, dump, "--only", "avg_pool2d", "--timeout-s", "5")
    assert (found.exit_code, found.summary["end"], len(found.rows)) == (2, "server gone", 1)
