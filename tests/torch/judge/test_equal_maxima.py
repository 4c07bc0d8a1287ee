"""Maxima among equal elements: which of them gets the gradient is for the device to say."""

from pathlib import Path

import torch
from torch.nn import functional

from tests.torch.recording import Recording
from tests.torch.running import judge


def recorded(folder: Path) -> tuple[Path, torch.Tensor]:
    """Records a pool of what a ReLU has made, with many equal maxima, and returns the gradient of its input."""
    torch.manual_seed(2)
    recording = Recording(folder)
    x = (torch.randn(2, 3, 8, 8) - 1.0).relu().requires_grad_()
    recording.call("Functional.max_pool2d", x, 2).backward(torch.randn(2, 3, 4, 4))
    recording.write()
    return folder / "dump_tensor_data" / "Functional.max_pool2d.0.backward.output.0.pt", x


def chosen_last(path: Path, x: torch.Tensor) -> torch.Tensor:
    """Returns the gradient with the last of equal maxima in each window, by a pool of the reversed planes."""
    given = torch.load(path.with_name("Functional.max_pool2d.0.backward.input.0.pt"), weights_only=True)
    reversed_x = x.detach().flip(-1, -2).requires_grad_()
    functional.max_pool2d(reversed_x, 2).backward(given.flip(-1, -2))
    assert reversed_x.grad is not None
    return reversed_x.grad.flip(-1, -2)


def test_another_choice_among_equal_maxima_is_right(tmp_path: Path) -> None:
    path, x = recorded(tmp_path / "dump")
    other = chosen_last(path, x)
    assert not torch.equal(other, torch.load(path, weights_only=True))
    torch.save(other.contiguous(), path)
    assert judge(tmp_path / "dump", tmp_path / "out").exit_code == 0


def test_a_gradient_that_is_lost_among_equal_maxima_is_found(tmp_path: Path) -> None:
    path, x = recorded(tmp_path / "dump")
    other = chosen_last(path, x) * 1.01
    torch.save(other.contiguous(), path)
    assert judge(tmp_path / "dump", tmp_path / "out").exit_code == 1
