"""`aclgrad replay` of dumps that somebody made to do harm."""

import resource
from pathlib import Path

import torch

from tests.torch.dumps import Dump
from tests.torch.replaying import drawn, replay
from tools.serving import Server


def test_what_a_dump_says_is_printed_as_one_line_of_text(server: Server, tmp_path: Path) -> None:
    dump = Dump(tmp_path / "dump")
    evil = "\x1b[2J\x9b1m\ud800\nrow"
    x = drawn(2, 3, 8, grad=True)
    dump.add("Functional.pad.0", [x, [1, 1]], drawn(2, 3, 10), {"mode": evil})
    dump.add("Functional.pad.1", [x, [1, 1]], drawn(2, 3, 10), {evil: "replicate"})
    dump.record("Functional.pad.2", [x, [1, 1]], drawn(2, 3, 10), {"mode": "replicate"})
    found = replay(dump.write(), server, tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert [row["verdict"] for row in found.rows] == ["skipped"] * 4 + ["passed"] * 2
    backward = [row for row in found.rows if row["name"].endswith("backward")]
    assert all(r"\x1b[2J\x9b1m\ud800 row" in row["unserved"] for row in backward[:2])
    assert "\x1b" not in found.output
    assert len(found.table("result")) == 3


def test_outputs_of_another_size_than_their_gradient_are_not_computed(server: Server, tmp_path: Path) -> None:
    """The largest of these takes 400 GB."""
    dump, region = Dump(tmp_path / "dump"), torch.tensor([[0, 0, 0, 1e9, 1e9]])
    x, gradient = drawn(1, 1, 4, 4, grad=True), drawn(1, 1, 4, 4)
    for number, size in enumerate((40_000, 100_000)):
        dump.add(f"Functional.interpolate.{number}", [x, [size, size]], gradient)
        dump.add(f"Functional.adaptive_avg_pool2d.{number}", [x, [size, size]], gradient)
        dump.add(f"Functional.pad.{number}", [x, [size] * 4], gradient, {"mode": "replicate"})
        dump.add(f"torchvision.ops.roi_align.{number}", [x, region, [size, size]], gradient)
    dump.add("torchvision.ops.roi_align.9", [x, region, [4, 4]], gradient)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = replay(dump.write(), server, tmp_path / "out")
    assert {row["verdict"] for row in found.rows} == {"skipped"}
    *large, samples = [row["unserved"] for row in found.rows if row["name"].endswith("backward")]
    assert all(each.startswith("the output is (1, 1, ") for each in large)
    assert "samples along an axis" in samples
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18, "KiB"
