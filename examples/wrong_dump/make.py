"""Makes the dump that the README judges: a training step of PyTorch on the CPU in which one kernel is wrong.

Run in an environment with msprobe (`pip install mindstudio-probe`): python examples/wrong_dump/make.py FOLDER
"""

import sys

import numpy as np
import torch
from msprobe.pytorch import PrecisionDebugger
from torch import Tensor, nn
from torch.nn import functional

LANES = 16


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Linear(54, 10)

    def forward(self, images: Tensor) -> Tensor:
        planes = self.norm(functional.max_pool2d(self.conv(images), 2))
        return self.head(functional.silu(planes).flatten(1))


def silu_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """Computes whole vectors of 16 and forgets the elements behind the last one."""
    x = self.numpy()
    sigmoid = 1 / (1 + np.exp(-x))
    gradient = grad_output.numpy() * sigmoid * (1 + x * (1 - sigmoid))
    flat = gradient.reshape(-1)
    flat[flat.size // LANES * LANES :] = 0
    return torch.from_numpy(flat.reshape(x.shape))


def main(folder: str) -> None:
    kernels = torch.library.Library("aten", "IMPL")
    kernels.impl("silu_backward", silu_backward, "CPU")
    torch.manual_seed(7)
    network = Network()
    debugger = PrecisionDebugger(task="tensor", dump_path=folder, level="L1")
    debugger.start(model=network)
    functional.cross_entropy(network(torch.randn(2, 3, 7, 7)), torch.tensor([3, 1])).backward()
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    main(sys.argv[1])
