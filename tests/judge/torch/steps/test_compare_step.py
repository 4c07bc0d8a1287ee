"""compare_step around small networks: what it tells, what it leaves alone, and what it cannot judge."""

import socket
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
from aclgrad.bridges.served_operators import served_by
from aclgrad.errors import DeviceLostError, InvalidFieldError, LimitExceededError
from aclgrad.testing import serve
from aclgrad.torch import compare_step
from aclgrad.wire.messages import OperatorCall
from tests.judge.torch.steps.planting import fail, plant
from tools.serving import Server


class Net(nn.Module):
    """Has running statistics, dropout and a pooling whose mask may stay on the device."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(128, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.drop(self.stem(images)).flatten(1))


def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(model(images), labels)


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 3, 8, 8), torch.tensor([1, 3])


@pytest.fixture
def direct() -> Iterator[aclgrad.Client]:
    with serve() as server, aclgrad.Client(server.target) as client:
        yield client


def of(operator: str) -> Callable[[int, OperatorCall], bool]:
    return lambda _, call: call.operator == operator


def test_nothing_of_the_model_changes_and_the_next_step_draws_the_same(direct: aclgrad.Client) -> None:
    torch.manual_seed(3)
    net, given = Net(), batch()
    loss(net, *given).backward()
    before = {name: each.clone() for name, each in net.state_dict().items()}
    gradients = [each.grad.clone() for each in net.parameters()]
    state = torch.get_rng_state()
    found = compare_step(net, loss, direct, *given)
    assert found.first is None
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(each, before[name]) for name, each in net.state_dict().items())
    assert all(torch.equal(each.grad, one) for each, one in zip(net.parameters(), gradients, strict=True))


def test_a_wrong_forward_operator_is_named_although_all_that_follows_fits_it(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, of("convolution"))
    found = compare_step(Net(), loss, direct, *batch(), whole=True)
    assert [row.operator for row in found.failed] == ["convolution"]
    assert (found.first.place.module, found.first.place.is_backward) == ("Net.stem.0", False)
    head, titles, row, *_ = str(found).splitlines()
    assert head.startswith(
        f"step 1 of {found.step_count} (convolution, output output) is the first that is wrong, in Net"
    )
    assert "elements are outside the tolerance" in head
    assert titles.split()[:2] == ["step", "verdict"]
    assert row.split()[:2] == ["1", "failed"]


def test_a_wrong_gradient_is_named_with_the_place_of_its_forward_call(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, of("threshold_backward"))
    first = compare_step(Net(), loss, direct, *batch()).first
    assert (first.operator, first.place.module, first.place.is_backward) == ("threshold_backward", "Net.stem.2", True)


def test_small_gradients_are_judged_by_their_own_size(direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, of("threshold_backward"))
    found = compare_step(Net(), loss, direct, *batch(), gradient=torch.tensor(1e-9))
    assert [row.operator for row in found.failed] == ["threshold_backward"]


def test_a_wrong_operator_in_bfloat16_is_named_though_its_elements_are_within_the_limit(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 5)).bfloat16()
    given = torch.randn(32, 64, dtype=torch.bfloat16), torch.randint(5, (32,))
    assert compare_step(net, loss, direct, *given).first is None
    plant(monkeypatch, of("gelu_v2"))
    found = compare_step(net, loss, direct, *given, whole=True)
    assert [row.operator for row in found.failed] == ["gelu_v2"]


def test_named_arguments_are_those_of_the_loss_function(direct: aclgrad.Client) -> None:
    images, labels = batch()
    assert compare_step(Net(), loss, direct, images, labels=labels).first is None


def test_a_forward_pass_alone_is_compared_within_no_grad(direct: aclgrad.Client) -> None:
    with torch.no_grad():
        found = compare_step(Net(), loss, direct, *batch())
    assert found.judged_count == found.step_count
    assert not any(row.place.is_backward for row in found.rows)


# What stays on the device.


def test_what_stays_on_the_device_is_left_out_and_its_reader_judged_by_the_definition(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compare_step(Net(), loss, direct, *batch())
    assert [(row.operator, row.output) for row in found.not_judged] == [("batch_norm", "save_invstd")]
    assert "1 output of batch_norm not judged, first in step 2: it stays on the device" in str(found)
    plant(monkeypatch, of("batch_norm"), is_inside=True)
    first = compare_step(Net(), loss, direct, *batch()).first
    assert first.operator == "batch_norm_backward"
    assert first.message.endswith("save_invstd of step 2 stays on the device, and may be wrong instead")


def test_the_reader_of_what_a_wrong_step_keeps_on_the_device_is_not_blamed(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, of("batch_norm"))
    found = compare_step(Net(), loss, direct, *batch(), whole=True)
    assert {row.operator for row in found.failed} == {"batch_norm"}
    (reason,) = {row.message for row in found.not_judged if row.operator == "batch_norm_backward"}
    assert reason == "it differs, and so may save_invstd of step 2, which stays on the device: that step is wrong"


def test_masks_of_poolings_stay_on_products_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(product="910A") as server, aclgrad.Client(server.target) as client:
        found = compare_step(Net(), loss, client, *batch())
        assert found.first is None
        assert ("max_pool2d_with_mask", "indices") in {(row.operator, row.output) for row in found.not_judged}
        assert "max_pool2d_with_mask_backward" in {row.operator for row in found.rows if row.verdict == "passed"}
        plant(monkeypatch, of("max_pool2d_with_mask_backward"))
        assert compare_step(Net(), loss, client, *batch()).first.operator == "max_pool2d_with_mask_backward"


# What cannot be judged.


def test_steps_that_read_nan_are_not_judged(direct: aclgrad.Client) -> None:
    images, labels = batch()
    images[0, 0, 0, 0] = torch.nan
    found = compare_step(Net(), loss, direct, images, labels)
    assert found.first is None
    assert found.rows[0].message == "an input has NaN"
    judged = found.judged_count
    assert judged < found.step_count
    assert str(found).startswith(f"the {judged} of {found.step_count} steps that were judged are right")


def test_infinite_masks_are_judged_where_the_definition_is_finite(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            scores = self.inner(x)
            return (scores + torch.full((6, 6), -torch.inf).triu(1)).softmax(-1)

    def squares(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().sum()

    x = torch.randn(6, 6)
    assert compare_step(Masked(), squares, direct, x).judged_count > 3
    plant(monkeypatch, of("softmax"))
    assert compare_step(Masked(), squares, direct, x).first.operator == "softmax"


def test_functions_without_an_operator_run_here_and_are_counted(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))

    def between(model: nn.Module, x: Tensor) -> Tensor:
        return model[2](torch.erfinv(model[1](model[0](x)) / 2)).square().mean()

    found = compare_step(net, between, direct, torch.randn(4, 8))
    assert found.first is None
    assert found.unserved_count > 0
    assert f"{found.unserved_count} of them without an operator" in str(found)
    numbers = list(dict.fromkeys(row.step for row in found.rows))
    assert numbers == list(range(1, found.step_count + 1))
    # It is of the program behind those functions.
    plant(monkeypatch, of("mean"))
    assert compare_step(net, between, direct, torch.randn(4, 8)).first.operator == "mean"


def test_a_step_that_fails_is_named_and_what_needs_it_is_not_judged(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, of("log_softmax"))
    found = compare_step(Net(), loss, direct, *batch(), whole=True)
    assert [row.operator for row in found.failed] == ["log_softmax"]
    assert found.first.message == "it fails: broken"
    assert "a step that it needs has failed" in {row.message for row in found.not_judged}


def test_values_that_a_later_step_refuses_are_those_of_the_first_wrong_step(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, of("batch_norm"), factor=1e6)
    found = compare_step(Net(), loss, direct, *batch(), whole=True)
    assert found.first.operator == "batch_norm"


# Ranges.


def deep() -> tuple[nn.Module, Tensor, Tensor]:
    layers = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())]
    return nn.Sequential(*layers), torch.randn(512, 64), torch.randint(64, (512,))


def test_values_beyond_the_limit_of_a_server_come_in_ranges() -> None:
    net, x, labels = deep()
    with Server("--max-call-bytes", "2800KiB") as server, aclgrad.Client(server.address) as client:
        found = compare_step(net, loss, client, x, labels)
        assert found.run_count > 1
        assert str(found).startswith(f"all {found.step_count} steps are right"), str(found)
        numbers = [row.step for row in found.rows]
        assert numbers == sorted(numbers)
        assert len({(row.step, row.output) for row in found.rows}) == len(found.rows)


def test_ranges_behind_the_first_wrong_step_are_left_out_unless_the_whole_is_wanted(
    direct: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x, labels = deep()
    plant(monkeypatch, of("log_softmax"))
    found = compare_step(net, loss, direct, x, labels, most_bytes=2**20)
    assert found.first.operator == "log_softmax"
    assert found.rows[-1].step < found.step_count
    assert "not compared: give whole=True to compare them too" in str(found)
    whole = compare_step(net, loss, direct, x, labels, most_bytes=2**20, whole=True)
    assert whole.first.step == found.first.step
    assert whole.judged_count == whole.step_count
    assert [row.operator for row in whole.failed] == ["log_softmax"]


def test_a_step_that_is_too_large_alone_is_not_judged(direct: aclgrad.Client) -> None:
    net, x, labels = deep()
    found = compare_step(net, loss, direct, x, labels, most_bytes=200 * 2**10)
    assert found.first is None
    assert 0 < found.judged_count < found.step_count
    assert found.not_judged[0].message == "its values take 256 KiB, and most_bytes is 200 KiB: raise it"


def test_a_step_that_a_server_does_not_take_alone_is_not_judged() -> None:
    net, x, labels = deep()
    with Server("--max-call-bytes", "700KiB") as server, aclgrad.Client(server.address) as client:
        found = compare_step(net, loss, client, x, labels)
        assert found.judged_count < found.step_count
        assert found.not_judged[0].message.endswith("raise --max-call-bytes of the server")


# Errors.


def test_a_server_that_is_down_is_an_error_and_changes_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    net, given = Net(), batch()
    state = torch.get_rng_state()
    with aclgrad.Client(f"127.0.0.1:{port}", timeout_s=2) as client, pytest.raises(aclgrad.ConnectionLostError):
        compare_step(net, loss, client, *given)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("error", [LimitExceededError.at("call", "is too large", "send less"), DeviceLostError("gone")])
def test_an_error_that_says_nothing_of_a_step_is_raised(error: aclgrad.AclgradError) -> None:
    with serve() as server, aclgrad.Client(server.target, retries=0) as client:
        served_by(client)
        server.fail(error)
        with pytest.raises(type(error), match=str(error)):
            compare_step(Net(), loss, client, *batch())


@pytest.mark.parametrize("most_bytes", [0, 1.5, "1 GiB"])
def test_a_wrong_number_of_bytes_is_an_error(most_bytes: object, direct: aclgrad.Client) -> None:
    with pytest.raises(InvalidFieldError, match="most_bytes"):
        compare_step(Net(), loss, direct, *batch(), most_bytes=most_bytes)
