"""Small models that cannot be traced, or not as they are meant."""

import torch
from torch import Tensor, nn


class OfLines(nn.Module):
    """A linear layer; the derived classes do something more with its results."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)


class Branching(OfLines):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y if y.sum() > 0 else -y


class Reading(OfLines):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y / y.abs().max().item()


class OutsideOfPyTorch(OfLines):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y * torch.from_numpy(y.detach().numpy())


class Choosing(OfLines):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return y[x[:, 0] > 0]


class Counting(OfLines):
    """Depends on how often it was called, from its third call on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y: Tensor = self.linear(x)
        return y * (1.0 if self.calls < 3 else 2.0)


class Waves(OfLines):
    """Has complex numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(self.linear(x)).abs() @ torch.ones(2, 3)


class Long(OfLines):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.count):
            x = x * 1.0001
        y: Tensor = self.linear(x)
        return y


class Exponential(torch.autograd.Function):
    """A function with a gradient of its own."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        context.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: Tensor) -> Tensor:
        (x,) = context.saved_tensors  # type: ignore[attr-defined]
        return gradient * x.exp() * 3


class WithOwnGradient(OfLines):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = Exponential.apply(self.linear(x))
        return y
