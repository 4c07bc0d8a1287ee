"""`aclgrad replay` on results of forward calls: the table from ATen's operators to steps, and what is said of them.

The server computes by the definitions. Its dumps are what PyTorch computes here.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

import aclgrad
from aclgrad.commands import program
from aclgrad.judge.dumps.apis import find_apis
from aclgrad.judge.replay import translating
from aclgrad.judge.replay.translating import Translation
from aclgrad.testing import serve
from aclgrad.torch.aten import ROWS, VIEWS, Steps
from aclgrad.torch.calls import LocalError
from tests.judge.torch.forward_calls import Call, calls
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import Ran, drawn, plant, replay
from tests.torch.aten.calls import calls as of_training
from tests.wrong_servers import changed, of_gradients


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with serve() as server:
        yield server.target


@pytest.fixture(scope="module")
def direct(target: str) -> Iterator[aclgrad.Client]:
    with aclgrad.Client(target) as client:
        yield client


def dump_of(folder: Path, *called: Call) -> Path:
    """Records calls without a backward pass."""
    recording = Recording(folder)
    for api, args, kwargs in called:
        recording.call(api, *args, function=find_apis(api)[0].function, **kwargs)
    return recording.write()


class _Noting(dict[Any, Any]):
    """Rows by their operators, which notes those that are looked up."""

    def __init__(self, rows: Any, used: set[Any]) -> None:
        super().__init__(rows)
        self._used = used

    def __getitem__(self, operator: Any) -> Any:
        self._used.add(operator)
        return super().__getitem__(operator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_row_gives_what_pytorch_gives(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    used: set[Any] = set()
    monkeypatch.setattr(translating, "ROWS", _Noting(ROWS, used))
    found = replay(dump_of(tmp_path / "dump", *calls(dtype)), target, tmp_path / "out")
    assert found.exit_code == 0, found.output
    wrong = {row["name"]: row["message"] for row in found.rows if row["verdict"] not in ("passed", "noted")}
    assert (wrong, {row["name"]: row["unserved"] for row in found.rows if row["unserved"]}) == ({}, {})
    assert found.summary["served"] == {"forward": len(calls())}
    names = {each["name"] for row in found.rows for each in row["tensors"] if "server" in each["sides"]}
    assert names == {"output", *(f"output[{number}]" for number in (0, 1, 3, 4))}
    if dtype == torch.float32:
        # PyTorch calls these in graphs that are traced, where they have tests of their own.
        traced = {operator for operator, *_ in of_training()}
        assert {str(each) for each in ROWS if each not in used | traced} == set()


def run(sent: aclgrad.Program, *handles: Any) -> list[Any]:
    return sent.run(*handles)


VIEW_CALLS: Final[dict[str, Callable[[Tensor], Any]]] = {
    "alias": torch.ops.aten.alias,
    "clone": lambda x: x.mT.clone().reshape(-1),
    "expand": lambda x: x.unsqueeze(1).expand(4, -1, 2, -1, -1),
    "permute": lambda x: x.permute(2, -3, 1),
    "select": lambda x: x[1, ..., -2],
    "slice": lambda x: x[:, 1:, 1:6:2],
    "lift_fresh_copy": torch.ops.aten.lift_fresh_copy,
    "unsafe_split": lambda x: torch.ops.aten.unsafe_split.Tensor(x, 3, -1),
    "unsafe_split_with_sizes": lambda x: torch.ops.aten.unsafe_split_with_sizes(x, [3, 5], 2),
    "split_with_sizes_copy": lambda x: torch.ops.aten.split_with_sizes_copy(x, [3, 5], 2),
    "split": lambda x: x.split(3, -1),
    "split_with_sizes": lambda x: x.split([3, 5], 2),
    "squeeze": lambda x: x[:1, :, :1].squeeze(),
    "squeeze_dim": lambda x: x[:1].squeeze(0).unsqueeze(-1).squeeze(-1),
    "squeeze_dims": lambda x: torch.squeeze(x[:1, :, :1], (0, 1, 2)),
    "sub": lambda x: torch.ops.aten.sub.Scalar(x, 0.5, 2),
    "t": lambda x: x[0].t(),
    "transpose": lambda x: x.transpose(0, -1).reshape(8, 6),
    "unbind": lambda x: x.unbind(1),
    "view": lambda x: x.view(6, -1).view(2, 24),
}


@pytest.mark.parametrize("name", VIEW_CALLS)
def test_views_of_results_are_views_of_handles(direct: aclgrad.Client, name: str) -> None:
    x, sent = drawn(2, 3, 8), direct.program()
    translation = Translation(Steps(sent), [x])
    with torch.no_grad(), translation:
        made = VIEW_CALLS[name](torch.neg(x))
    expected = list(made) if isinstance(made, tuple | list) else [made]
    found = run(sent, *(translation.made(each) for each in expected))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(one.copy()), other, rtol=1e-6, atol=0)


def test_every_view_is_among_them(direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[Any] = set()
    monkeypatch.setattr(translating, "VIEWS", _Noting(VIEWS, used))
    for call in VIEW_CALLS.values():
        x = drawn(2, 3, 8)
        with torch.no_grad(), Translation(Steps(direct.program()), [x]):
            call(torch.neg(x).detach())
    assert used == VIEWS.keys()


LINEAR: Final[Call] = ("Functional.linear", (drawn(2, 3, 4), drawn(5, 4), drawn(5)), {})
COMPARISON: Final[Call] = ("Torch.gt", (drawn(6, 5), 0.0), {})
OF_16_BITS: Final[Call] = ("Functional.softmax", (drawn(6, 5, dtype=torch.float16), -1), {"dtype": torch.float32})


@pytest.mark.parametrize(
    ("call", "operator", "place", "title"),
    [
        (LINEAR, "addmm", [0, 1, 2], "addmm"),
        (OF_16_BITS, "softmax", [1, 2], "program of 2 steps"),
        (COMPARISON, "gt_scalar", [1, 2], "gt_scalar"),
    ],
)
def test_a_planted_error_of_a_step_is_found_and_located(
    target: str, tmp_path: Path, call: Call, operator: str, place: list[int], title: str
) -> None:
    """The bundle has a step that converts, too, of whose first input only the type matters."""
    bundle, dump = tmp_path / "wrong.zip", dump_of(tmp_path / "dump", call)

    def one_element(array: Any) -> Any:
        wrong = array.copy()
        flat = wrong.reshape(-1)
        flat[7] = not flat[7] if flat.dtype == bool else flat[7] + 1
        return wrong

    with changed(target, of_gradients(operator, one_element)) as address:
        found = replay(dump, address, tmp_path / "out", "--bundle", str(bundle))
    assert found.exit_code == 1, found.output
    ((row,), (tensor,)) = found.rows, found.rows[0]["tensors"]
    assert (row["name"], tensor["name"], tensor["result"]) == (f"{call[0]}.0.forward", "output", 0)
    assert {side: each["verdict"] for side, each in tensor["sides"].items()} == {
        "training": "passed",
        "server": "failed",
    }
    assert tensor["sides"]["server"]["worst"][0][0] == place
    assert f"The server is wrong and training right in 1 call, first {call[0]}.0.forward" in found.output
    again = CliRunner().invoke(program, ["call", "--bundle", str(bundle), "--target", target])
    assert again.exit_code == 0, again.output
    assert f"passed   {title}" in again.output


def test_an_error_of_the_recording_is_not_the_servers(target: str, tmp_path: Path) -> None:
    dump = dump_of(tmp_path / "dump", ("Torch.gt", (drawn(3, 8), 0.0), {}), ("Torch.exp", (drawn(3, 8),), {}))
    plant(tmp_path / "dump", "Torch.exp.0.forward.output.0", 1.5)
    with changed(target, of_gradients("gt_scalar", lambda each: ~each)) as address:
        found = replay(dump, address, tmp_path / "out")
    assert found.sides("server") == {"gt.0.forward output": "failed", "exp.0.forward output": "passed"}
    assert found.sides("training") == {"gt.0.forward output": "passed", "exp.0.forward output": "failed"}


ATTENTION: Final = "Functional.scaled_dot_product_attention"


def reasons(found: Ran) -> dict[str, str]:
    return {row["name"].removesuffix(".forward"): row["unserved"] for row in found.rows}


def test_what_no_operators_compute_has_its_reason(target: str, tmp_path: Path) -> None:
    x = drawn(3, 8)
    found = replay(
        dump_of(
            tmp_path / "dump",
            ("Torch.erf", (x,), {}),
            ("Functional.rrelu", (x,), {"training": True}),
            ("Torch.add", (x.double(), 1), {}),
            ("Tensor.view", (x, 24), {}),
            ("Torch.arange", (5,), {}),
        ),
        target,
        tmp_path / "out",
    )
    told = reasons(found)
    assert "is float64; send float32 or" in told.pop("Torch.add.0")
    assert told == {
        "Torch.erf.0": "no operator computes this function: aten::erf",
        "Functional.rrelu.0": "it draws random numbers",
        # These compute nothing, so no server was asked.
        "Tensor.view.0": "",
        "Torch.arange.0": "",
    }
    assert "server: 0 of 3 forward calls\n" in found.output
    assert found.exit_code == 2


def test_rows_without_a_key_have_an_operator_where_attention_has_one(tmp_path: Path) -> None:
    """The 310P has products and a softmax alone, of which such a row is no number."""
    masked = torch.zeros(8, 8, dtype=torch.bool)
    masked[1:, 0] = True
    dump = dump_of(tmp_path / "dump", (ATTENTION, (*[drawn(1, 1, 8, 4)] * 3, masked), {}))
    why = "no operator computes attention with a row that is masked as a whole"
    for product, reason in (("910B", ""), ("310P", why)):
        with serve(product=product) as server:
            found = replay(dump, server.target, tmp_path / product)
        assert reasons(found) == {f"{ATTENTION}.0": reason}
        assert {row["verdict"] for row in found.rows} == {"passed"}


def test_a_product_may_have_another_operator_or_none(tmp_path: Path) -> None:
    """The 910A has no indices of maxima, and multiplies averages in FLOAT16; the 950 has no masks."""
    planes = drawn(2, 4, 6, 6)
    dump = dump_of(
        tmp_path / "dump",
        ("Functional.max_pool2d", (planes, 2), {"return_indices": True}),
        ("Functional.avg_pool2d", (planes, 2), {}),
        ("Torch.tanh", (planes,), {}),
        ("Torch.index_add", (drawn(3, 8), 0, torch.tensor([2, 0]), drawn(2, 8)), {}),
    )
    for product, operator, unserved in (("910A", "with_mask", {"index_add"}), ("950", "with_indices", set())):
        with serve(product=product) as server:
            found = replay(dump, server.target, tmp_path / product)
            assert f"max_pool2d_{operator}" in server.calls
        assert {row["verdict"] for row in found.rows} <= {"passed", "noted"}
        assert {row["name"].split(".")[1] for row in found.rows if row["unserved"]} == unserved


def test_a_call_within_autocast_is_computed_in_its_dtype(target: str, tmp_path: Path) -> None:
    recording = Recording(tmp_path / "dump")
    with torch.autocast("cpu", torch.bfloat16):
        recording.call("Functional.linear", drawn(3, 4), drawn(5, 4), drawn(5))
    found = replay(recording.write(), target, tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert found.sides("server") == {"linear.0.forward output": "passed"}
    assert found.rows[0]["tensors"][0]["dtype"] == "bfloat16"


def test_a_part_is_not_changed_in_place(direct: aclgrad.Client) -> None:
    x, y = drawn(3, 8), drawn(8)
    sent = direct.program()
    translation = Translation(Steps(sent), [x, y])
    with torch.no_grad(), translation:
        whole = torch.neg(x).add_(y)
        with pytest.raises(LocalError, match="it changes a part of a tensor in place"):
            whole[0].add_(y)
    (found,) = run(sent, translation.made(whole))
    torch.testing.assert_close(torch.from_numpy(found), y - x, rtol=1e-6, atol=0)


def test_a_result_that_no_operator_gives_is_none_later(direct: aclgrad.Client) -> None:
    """Statistics are float32 on the server, and of the input's type here."""
    x = drawn(3, 8, dtype=torch.bfloat16)
    translation = Translation(Steps(direct.program()), [x])
    with torch.no_grad(), translation:
        result, mean, _ = torch.native_layer_norm(x, [8], None, None, 1e-5)
        assert not isinstance(translation.made(result), str)
        assert "aten::native_layer_norm is float32" in str(translation.made(mean))
        assert translation.made(mean.view(-1)) == translation.made(mean)
        with pytest.raises(LocalError, match="native_layer_norm is float32"):
            mean + 1
        with pytest.raises(LocalError, match="aten::diagonal"):
            result.diagonal()
