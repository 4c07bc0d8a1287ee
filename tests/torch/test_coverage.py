"""The counting of `make coverage`: models whose counts are known by hand, a server with less, and accounts that lie."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from aclgrad.products import Product
from tools.coverage import __main__ as program
from tools.coverage.counting import CountingClient
from tools.coverage.page import BLOCK, PAGE, STEP, promises, readme_line, totals, with_tables
from tools.coverage.runs import MiscountError, Trial
from tools.coverage.shares import Shares
from tools.models import EVERY, MODELS, Known
from tools.serving import Server, write_host_config


def shares(calls: int = 10, remote: int = 9, error: float = 1.0, programs: int = 1, **local: int) -> Shares:
    found = Shares(calls, remote, 100, 90, 1000, 305, error, programs=programs)
    found.local.update(local)
    return found


class Line(nn.Module):
    """Two linear layers around plain arithmetic, and a kernel that no operator has."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.second(functional.relu(self.first(inputs)) * 2).cumprod(-1)
        return found


def squares(model: nn.Module, inputs: Tensor) -> Tensor:
    return functional.mse_loss(model(inputs), torch.zeros(2, 3, dtype=inputs.dtype))


LINE = Known(lambda _: Line(), squares, lambda _, count: (torch.randn(count, 4),))


def test_counts_in_a_block_are_those_by_hand(server: Server) -> None:
    """Two examples: products of the second layer for input and weight, and of the first for its weight."""
    with CountingClient(server.address) as client:
        found = Trial(LINE, client).in_block()
    assert (found.calls, found.remote_calls) == (6, 4)  # mse_loss, two linear and relu are the server's
    assert found.local == {"Cumprod": 1}
    products = 2 * 2 * 5 * 3 + 2 * 2 * 5 * 3 + 2 * 2 * 4 * 5
    assert (found.operations, found.remote_operations) == (products, products)
    assert found.error < 2


def test_counts_of_a_step_are_those_by_hand(server: Server) -> None:
    """Forward, too; and what has no operator cuts it into two programs."""
    with CountingClient(server.address) as client:
        found = Trial(LINE, client).in_step()
    products = 2 * (2 * 2 * 4 * 5) + 3 * (2 * 2 * 5 * 3)
    assert (found.operations, found.remote_operations) == (products, products)
    assert found.local["cumprod"] == 2
    assert found.programs > 1
    assert 0 < found.remote_calls < found.calls


def test_a_product_without_an_operator_makes_the_share_fall(server: Server, tmp_path: Path) -> None:
    known = Known(
        lambda _: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 3)),
        squares,
        lambda _, count: (torch.randn(count, 2, 6, 6),),
    )
    config = write_host_config(tmp_path, product=Product.ATLAS_INFERENCE)
    with Server("--acl-config", config) as less, CountingClient(less.address) as other:
        fallen = Trial(known, other).in_block()
    with CountingClient(server.address) as client:
        whole = Trial(known, client).in_block()
    assert (whole.remote_calls, whole.calls, whole.byte_share) == (4, 4, 1)
    assert (fallen.remote_calls, fallen.calls, fallen.local) == (3, 4, {"NativeBatchNorm": 1})
    assert fallen.byte_share < 1


def test_calls_that_the_account_does_not_have_are_an_error(server: Server) -> None:
    with CountingClient(server.address) as client:

        def also(gradient: Tensor) -> None:
            client.tanh_backward(gradient.numpy(), gradient.numpy())

        def loss(model: nn.Module, inputs: Tensor) -> Tensor:
            found = model(inputs)
            if found.dtype is torch.float32:
                found.register_hook(also)
            return found.square().sum()

        known = Known(lambda _: nn.Linear(4, 5), loss, lambda _, count: (torch.randn(count, 4),))
        with pytest.raises(MiscountError, match="calls of the server: 2 were counted, and the bridge says 2 and 1"):
            Trial(known, client).in_block()


def test_wrong_gradients_are_an_error(server: Server) -> None:
    class Wrong(CountingClient):
        def execute(self, name: str, *args: Any, **options: Any) -> Any:
            found = super().execute(name, *args, **options)
            return found * 1.001 if name == "threshold_backward" else found

    known = Known(lambda _: nn.Sequential(nn.Linear(4, 3), nn.ReLU()), squares, LINE.batch)
    with Wrong(server.address) as client:
        assert Trial(known, client).in_block().error > 100


def test_a_page_promises_what_its_tables_say() -> None:
    found = {BLOCK: {"vit": shares(), "gru": shares(3, 1, Sigmoid=2)}, STEP: {"vit": shares(programs=2)}}
    page = with_tables("a\n" + "".join(_marks()), found, {"gru": "depends on values"}, "today")
    promised = promises(page)
    assert set(promised) == {(BLOCK, "vit"), (BLOCK, "gru"), (STEP, "vit")}
    assert promised[BLOCK, "gru"].problems(shares(3, 1)) == []
    assert promised[BLOCK, "gru"].problems(shares(3, 0)) == [
        "0.0% of the calls are the server's, and the page promises 33.3%"
    ]
    assert promised[BLOCK, "vit"].byte_percent == 30  # not more than there was
    (problem,) = promised[BLOCK, "vit"].problems(shares(error=4.5))
    assert problem == "the error of the gradients is 4.50 times PyTorch's own, and 4 is the limit"
    assert "`gru` cannot be a step: it depends on values." in page
    assert readme_line(page) == (
        "As whole steps of [2 small models](docs/coverage.md), the server computes 90 % of the FLOPs of the 1 that can "
        "be traced, 0 of them in one program. With single gradients, it computes 62 % of the backward calls and 90 % "
        "of the FLOPs on average; in 1 models, only plain arithmetic is left to PyTorch here."
    )
    assert "As a step, 0 of 2 are a single program" in totals(found)


def _marks() -> tuple[str, str]:
    return "<!-- coverage: written by `make coverage` -->\n", "<!-- end of coverage -->\n"


def test_the_page_has_every_model_and_the_short_form_takes_some() -> None:
    promised = promises(PAGE.read_text())
    assert {name for way, name in promised if way == BLOCK} == set(EVERY)
    assert len(EVERY) == 40
    assert set(MODELS) < set(EVERY)
    assert len(set(program.SHORT)) == 8
    assert {(way, name) for way in (BLOCK, STEP) for name in program.SHORT} <= set(promised)
    assert readme_line(PAGE.read_text()).startswith("As whole steps of [40 small models](docs/coverage.md), ")


def test_the_program_fails_below_a_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "coverage.md"
    page.write_text(PAGE.read_text().replace("| vae | 7 of 20 |", "| vae | 8 of 20 |"))
    monkeypatch.setattr(program, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["coverage", "vae"])
    assert program.main() == 1
    assert (
        "vae, in a block: 35.0% of the calls are the server's, and the page promises 40.0%" in capsys.readouterr().err
    )
