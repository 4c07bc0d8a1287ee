"""`aclgrad replay` on dumps of calls that the tests make, with right servers and wrong ones."""

import json
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch.nn import functional

from aclgrad.commands import program
from aclgrad.judge.dumps.runs import Run, TensorIndex
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import drawn, plant, replay, sample
from tests.wrong_servers import changed, of_gradients
from tools.serving import Server, write_host_config

SERVED = (
    "max_pool2d.0 gradient of input",
    "avg_pool2d.0 gradient of input",
    *(f"layer_norm.0 gradient of {name}" for name in ("input", "weight", "bias")),
)
COMPUTED = (
    *(f"max_pool2d.0.forward output[{number}]" for number in (0, 1)),
    *(f"{name}.0.forward output" for name in ("pad", "avg_pool2d", "layer_norm")),
)


@pytest.mark.parametrize(
    ("dtype", "task"),
    [(torch.float32, "tensor"), (torch.float16, "tensor"), (torch.bfloat16, "tensor"), (torch.float32, "statistics")],
)
def test_served_calls_pass_and_others_are_counted(
    server: Server, tmp_path: Path, dtype: torch.dtype, task: str
) -> None:
    found = replay(sample(tmp_path / "dump", dtype, task), server, tmp_path / "out", "--local", "cpu")
    assert found.exit_code == 0, found.output
    sides = found.sides("server")
    assert set(sides) == {*SERVED, *COMPUTED}
    assert set(sides.values()) <= {"passed", "noted"}
    assert "server: 4 of 5 forward and 3 of 5 backward calls\n" in found.output
    assert "not computed: Torch.erf 1: no operator computes this gradient\n" in found.output
    assert "not computed: Torch.erf 1: no operator computes this function: aten::erf\n" in found.output
    assert "not computed: Functional.pad 1: there is no operator for constant pads\n" in found.output
    assert found.summary["served"] == {"forward": 4, "backward": 3}
    statuses = {row[0]: row[2] for row in found.table("result")}
    # acc_check judges halves by relative errors alone, which rounding makes large where a gradient is near 0.
    assert statuses.pop("Functional.layer_norm.0") == "pass" or dtype is not torch.float32
    assert statuses == {
        "Functional.max_pool2d.0": "pass",
        "Functional.pad.0": "SKIP",
        "Functional.avg_pool2d.0": "pass",
    }
    names = [row[0] for row in found.table("details")]
    assert names == [row[0] for row in found.table("details", "local")]
    assert names[-3:] == [f"Functional.layer_norm.0.backward.output.{number}" for number in range(3)]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<h1>aclgrad replay" in page
    assert page.index("server: 4 of 5 forward and 3 of 5 backward calls") < page.index("No judged call is wrong</p>")


def test_both_sides_of_a_gradient_are_one_tensor_and_all_passes_are_judged(server: Server, tmp_path: Path) -> None:
    found = replay(sample(tmp_path / "dump"), server, tmp_path / "out")
    assert "10 calls: 10 judged, 0 not judged\n" in found.output
    training = found.sides("training")
    assert set(training.values()) == {"passed"}
    assert {*SERVED, *COMPUTED} < set(training)
    assert len(training) == len(SERVED) + 2 + 6, "gradients that only training has, and results of forward passes"


def test_without_tensors_the_server_is_the_only_side(server: Server, tmp_path: Path) -> None:
    found = replay(sample(tmp_path / "dump", task="statistics"), server, tmp_path / "out")
    assert found.sides("training") == {}
    assert found.output.count("the dump has no elements of its tensors") == 1
    assert "10 calls: 7 judged, 3 not judged\n" in found.output
    assert "7 calls judged on the server alone\n" in found.output
    assert found.summary["on_the_server_alone"] == 7
    assert replay(tmp_path / "dump", server, tmp_path / "other", "--require-all").exit_code == 1


def test_infinite_gradients_of_values_beyond_the_products_route_are_noted(tmp_path: Path) -> None:
    """The 310P spreads averages by products in FLOAT16, whose largest number is 65504."""
    dump = Recording(tmp_path / "dump")
    for scale in (1.0, 1e5):
        gradient = torch.full((1, 1, 2, 2), scale)
        dump.differentiate(gradient, "Functional.adaptive_avg_pool2d", drawn(1, 1, 4, 4, grad=True), [2, 2])
    config = write_host_config(tmp_path, product="310P", host_pointers=False)
    infinite = of_gradients("adaptive_avg_pool2d_backward", lambda each: np.full_like(each, np.inf))
    with Server("--backend", "host", "--acl-config", config) as own, changed(own.address, infinite) as wrong:
        found = replay(dump.write(), wrong, tmp_path / "out")
    name = "adaptive_avg_pool2d.{} gradient of input".format
    assert found.gradients("server") == {name(0): "failed", name(1): "noted"}
    message = "grad_output has values above 65504, and product 310P computes in FLOAT16"
    assert [row["name"].split(".")[2] for row in found.rows if message in json.dumps(row)] == ["1"]


def one_element(gradient: np.ndarray) -> np.ndarray:
    gradient[1, 2, 3, 4] += np.abs(gradient).max() / 2
    return gradient


def test_a_planted_error_of_the_server_is_found_named_and_located(server: Server, tmp_path: Path) -> None:
    """The gradients are about 1e-4, where acc_check itself lets everything pass."""
    bundle, dump = tmp_path / "wrong.zip", sample(tmp_path / "dump", torch.bfloat16)
    change = of_gradients("avg_pool2d_backward", lambda each: one_element(each.copy()))
    with changed(server.address, change) as wrong:
        found = replay(dump, wrong, tmp_path / "out", "--bundle", str(bundle))
    assert found.exit_code == 1, found.output
    (row,) = [row for row in found.rows if row["verdict"] == "failed"]
    (tensor,) = row["tensors"]
    assert (row["name"], tensor["name"]) == ("Functional.avg_pool2d.0.backward", "gradient of input")
    assert {name: side["verdict"] for name, side in tensor["sides"].items()} == {
        "training": "passed",
        "server": "failed",
    }
    assert "The server is wrong and training right in 1 call, first Functional.avg_pool2d.0.backward" in found.output
    assert tensor["sides"]["server"]["worst"][0][0] == [1, 2, 3, 4]
    again = CliRunner().invoke(program, ["call", "--bundle", str(bundle), "--target", server.address])
    assert again.exit_code == 0, again.output
    assert "passed   avg_pool2d_backward" in again.output
    assert "not those of the bundle" in again.output


@pytest.mark.parametrize(("recorded", "computed"), [(5, 1), (1, 5), (5, 5), (1, 1)])
def test_each_side_has_its_verdict(server: Server, tmp_path: Path, recorded: float, computed: float) -> None:
    dump = Recording(tmp_path / "dump")
    dump.differentiate(drawn(2, 3, 4, 4), "Functional.avg_pool2d", drawn(2, 3, 8, 8, grad=True), 2)
    plant(tmp_path / "dump", "Functional.avg_pool2d.0.backward.output.0", recorded)
    with changed(server.address, of_gradients("avg_pool2d_backward", lambda each: each * computed)) as target:
        found = replay(dump.write(), target, tmp_path / "out")
    verdicts = {
        side: "passed" if factor == 1 else "failed" for side, factor in (("training", recorded), ("server", computed))
    }
    name = "avg_pool2d.0 gradient of input"
    assert {side: found.sides(side)[name] for side in verdicts} == verdicts
    assert found.exit_code == (0 if recorded == computed == 1 else 1)
    assert ("Training is wrong and the server right" in found.output) is (recorded > computed)
    assert ("The server is wrong and training right" in found.output) is (recorded < computed)
    assert ("Every call is right: 2 passed" in found.output) is (recorded == computed == 1)
    if recorded == 5:
        assert "training: gradient of input" in found.output
        assert "all together are " in found.output
        assert found.summary["first_wrong"] == {"place": "", "name": "Functional.avg_pool2d.0.backward"}


def test_figures_are_those_of_float64_and_of_pytorch_in_the_dtype(server: Server, tmp_path: Path) -> None:
    dump = Recording(tmp_path / "dump")
    x, gradient = drawn(4, 64, dtype=torch.bfloat16, grad=True), drawn(4, 64, dtype=torch.bfloat16)
    dump.differentiate(gradient, "Functional.softmax", x, -1)
    (_, row) = replay(dump.write(), server, tmp_path / "out").rows
    (own,) = torch.autograd.grad(functional.softmax(x, -1), x, gradient)
    wide = x.detach().double().requires_grad_()
    (truth,) = torch.autograd.grad(functional.softmax(wide, -1), wide, gradient.double())
    (tensor,) = row["tensors"]
    assert tensor["pytorch_error"] == pytest.approx((own - truth).abs().max().item(), rel=1e-6)
    assert tensor["sides"]["server"]["error"] <= (own - truth).abs().max().item()
    assert tensor["argument"] == 0


@pytest.mark.parametrize("factor", [1, 5])
def test_a_gradient_that_the_dump_has_not_is_a_tensor_of_its_own(server: Server, tmp_path: Path, factor: float) -> None:
    """The last step of cross entropy returns the gradient of log_softmax's result."""
    dump = Recording(tmp_path / "dump")
    arguments = [drawn(3, 8, grad=True), torch.tensor([1, 7, 0])]
    dump.differentiate(torch.tensor(1.0), "Functional.cross_entropy", *arguments)
    with changed(server.address, of_gradients("log_softmax_backward", lambda each: each * factor)) as target:
        found = replay(dump.write(), target, tmp_path / "out")
    assert found.exit_code == (0 if factor == 1 else 1), found.output
    assert found.sides("server") == {
        "cross_entropy.0.forward output": "passed",
        "cross_entropy.0 gradient of input": "passed" if factor == 1 else "failed",
    }
    assert found.sides("training") == {
        "cross_entropy.0.forward output": "passed",
        "cross_entropy.0 gradient.0": "passed",
    }


def test_a_part_of_a_gradient_is_not_the_gradient() -> None:
    """The last step of x * f(x) gives its argument one of two parts."""
    parts = torch.ones(3), torch.ones(3) * 2
    run = Run((), parts, owners=(0, 0), of_arguments=(parts[0] + parts[1],))
    assert [TensorIndex(gradient=each).owner(run) for each in (0, 1)] == [None, None]
    whole = Run((), parts, owners=(1, None), of_arguments=(None, parts[0].clone()))
    assert [TensorIndex(gradient=each).owner(whole) for each in (0, 1)] == [1, None]
    assert TensorIndex(argument=1).owner(whole) == 1


def test_what_the_server_has_not_computed_has_its_reason(server: Server, tmp_path: Path) -> None:
    path = sample(tmp_path / "dump")
    told = json.loads(path.read_text())
    del told["data"]["Functional.layer_norm.0.forward"]
    argument = told["data"]["Torch.erf.0.forward"]["input_args"][0]
    gradient = told["data"]["Torch.erf.0.backward"]["input"][0]
    told["data"] |= {
        "Module.act.ReLU.forward.0": {"input_args": [argument], "input_kwargs": {}, "output": [gradient]},
        "Module.act.ReLU.backward.0": {"input": [gradient], "output": [gradient]},
    }
    path.write_text(json.dumps(told))
    found = replay(path, server, tmp_path / "out")
    reasons = {row["name"].split(".")[1]: row["unserved"] for row in found.rows if row["unserved"]}
    assert reasons == {
        "layer_norm": "the dump has no forward pass of this call",
        "act": "a module; a dump of level L1 has the functions in it",
        "erf": "no operator computes this gradient",
        "pad": "there is no operator for constant pads",
    }


def test_calls_that_draw_numbers_themselves_are_told(server: Server, tmp_path: Path) -> None:
    dump = Recording(tmp_path / "dump", task="statistics")
    dump.add(drawn(2, 3), "Functional.dropout", drawn(2, 3, grad=True))
    dump.add(drawn(2, 3, 10), "Functional.pad", drawn(2, 3, 8, grad=True), [1, 1], mode="replicate")
    found = replay(dump.write(), server, tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "random inputs after Functional.dropout.0 are others than acc_check's" in found.output


def test_every_rank_and_step_has_tables_of_its_own(server: Server, tmp_path: Path) -> None:
    ranks = ["step0/rank0", "step10/rank0"]
    for rank in ranks:
        sample(tmp_path / "dump" / rank)
    found = replay(tmp_path / "dump", server, tmp_path / "out")
    assert [len(found.table("result", rank)) for rank in ranks] == [4, 4]
    assert {row["place"] for row in found.rows} == set(ranks)


def test_a_run_in_which_the_server_computes_nothing_says_so(server: Server, tmp_path: Path) -> None:
    dump = Recording(tmp_path / "erf")
    dump.differentiate(drawn(2, 3), "Torch.erf", drawn(2, 3, grad=True))
    dump.write()
    for rank in ("rank0", "rank1"):
        (tmp_path / "ranks" / rank).mkdir(parents=True)
        (tmp_path / "ranks" / rank / "dump.json").write_text(json.dumps({"data": {}}))
    for name, dumped, flags, expected in (
        ("erf", tmp_path / "erf", [], "the server has computed no call; `aclgrad judge` judges a dump without one"),
        ("others", sample(tmp_path / "sample"), ["--api", "erf"], "server: 0 of 1 forward and 0 of 1 backward calls\n"),
        ("ranks", tmp_path / "ranks", [], "no dump of 2 can be judged; the first: "),
        ("one", tmp_path / "ranks" / "rank0", [], "dump.json holds no call; dump again with level"),
    ):
        found = replay(dumped, server, tmp_path / "out" / name, *flags)
        assert (found.exit_code, expected in found.output) == (2, True), found.output


def test_outputs_of_another_size_than_their_gradient_are_not_computed(server: Server, tmp_path: Path) -> None:
    """The largest of these takes 400 GB."""
    dump, region = Recording(tmp_path / "dump"), torch.tensor([[0, 0, 0, 1e9, 1e9]])
    x, gradient = drawn(1, 1, 4, 4, grad=True), drawn(1, 1, 4, 4)
    for size in (40_000, 100_000):
        dump.add(gradient, "Functional.interpolate", x, [size, size])
        dump.add(gradient, "Functional.adaptive_avg_pool2d", x, [size, size])
        dump.add(gradient, "Functional.pad", x, [size] * 4, mode="replicate")
        dump.add(gradient, "torchvision.ops.roi_align", x, region, [size, size])
    dump.add(gradient, "torchvision.ops.roi_align", x, region, [4, 4])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = replay(dump.write(), server, tmp_path / "out")
    assert {row["verdict"] for row in found.rows} == {"skipped"}
    *large, samples = [row["unserved"] for row in found.rows if row["name"].endswith("backward")]
    assert all(each.startswith("the output is (1, 1, ") for each in large)
    assert "samples along an axis" in samples
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18, "KiB"
