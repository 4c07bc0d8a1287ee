"""Equal elements: any of their indices is right, and each may get the gradient, but for one that does not exist."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.judge.dumps.choices import are_ties
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import judge

SAME = torch.ones(9)
ROWS = torch.ones(3, 3)


IN_ORDER = (
    (SAME, torch.arange(9).flip(0), True),
    (SAME, torch.zeros(9, dtype=torch.int64), False),
    (SAME, torch.arange(9) - 9, False),
    (SAME, torch.arange(9) + 1, False),
    (ROWS, torch.tensor([[2, 1, 0]] * 3), True),
    (ROWS, torch.tensor([[0, 0, 0]] * 3), False),
    (ROWS, torch.tensor([[0], [1], [2]]).expand(3, 3), False),
    (torch.tensor(1.0), torch.tensor(0), True),
    (torch.tensor(1.0), torch.tensor(-1), False),
)
OF_ALL = ((SAME, 8, True), (SAME, 9, False), (SAME, -1, False), (torch.ones(9, 9), 80, True), (ROWS, -9, False))
CASES = (
    *((name, source, found, is_right) for name in ("sort", "argsort", "topk") for source, found, is_right in IN_ORDER),
    *((name, each, torch.tensor(at), is_right) for name in ("argmax", "argmin") for each, at, is_right in OF_ALL),
    ("max", ROWS, torch.tensor([2, 0, 1]), True),
    ("max", ROWS, torch.tensor([3, 0, 0]), False),
    ("max", ROWS, torch.tensor([-1, 0, 0]), False),
    ("topk", torch.ones(4, 6), torch.tensor([[5, 2]] * 4), True),
    ("topk", torch.ones(4, 6), torch.tensor([[5, 5]] * 4), False),
)
"""Each index of what is in order is found once; an index along an axis, or of all elements, is one of those."""


@pytest.mark.parametrize(("name", "source", "found", "is_right"), CASES)
def test_any_index_of_equal_elements_is_right(name: str, source: Tensor, found: Tensor, *, is_right: bool) -> None:
    truth = torch.sort(source, stable=True).indices if name in ("sort", "argsort", "topk") else found * 0
    assert are_ties(name, source, found, truth[..., : found.shape[-1]] if found.dim() else truth) is is_right


@pytest.mark.parametrize(("found", "is_right"), [(15, True), (16, False), (-1, False)])
def test_the_index_of_a_pool_is_in_its_plane(found: int, *, is_right: bool) -> None:
    image = torch.ones(2, 3, 4, 4)
    indices = functional.max_pool2d(image, 2, return_indices=True)[1]
    other = indices.clone()
    other[1, 2, 1, 1] = found
    assert are_ties("max_pool2d", image, other, indices) is is_right


@pytest.mark.parametrize(("factor", "exit_code"), [(1, 0), (1.01, 1)])
def test_the_gradient_of_a_pool_may_be_at_any_of_equal_maxima(tmp_path: Path, factor: float, exit_code: int) -> None:
    torch.manual_seed(2)
    recording, x = Recording(tmp_path / "dump"), (torch.randn(2, 3, 8, 8) - 1.0).relu().requires_grad_()
    given = torch.randn(2, 3, 4, 4)
    recording.call("Functional.max_pool2d", x, 2).backward(given)
    dump = recording.write()
    path = tmp_path / "dump" / "dump_tensor_data" / "Functional.max_pool2d.0.backward.output.0.pt"
    # The last of equal maxima in each window is the first of the reversed planes.
    reversed_x = x.detach().flip(-1, -2).requires_grad_()
    functional.max_pool2d(reversed_x, 2).backward(given.flip(-1, -2))
    other = reversed_x.grad.flip(-1, -2)
    assert not torch.equal(other, torch.load(path, weights_only=True))
    torch.save((other * factor).contiguous(), path)
    assert judge(dump, tmp_path / "out").exit_code == exit_code
