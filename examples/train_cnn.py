"""Trains a small CNN twice, with its gradients computed locally and by a server, and prints both losses."""

import sys

import torch
from torch import Tensor, nn

import aclgrad
import aclgrad.torch

STEPS = 50
CLASSES = 4
TOLERANCE = 1e-4


class SmallNet(nn.Module):
    """An ordinary model: nothing in it knows where its gradients come from."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3),
            nn.ReplicationPad2d(1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.AdaptiveAvgPool2d(3),
            nn.Flatten(),
            nn.Linear(16 * 9, CLASSES),
        )

    def forward(self, images: Tensor) -> Tensor:
        output: Tensor = self.layers(images)
        return output


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Returns noisy images with one bright quarter, and which quarter it is."""
    labels = torch.randint(CLASSES, (32,), generator=generator)
    images = torch.randn(32, 1, 16, 16, generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = divmod(label, 2)
        image[0, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 0.5
    return images, labels


def train(steps: int = STEPS) -> list[float]:
    """Returns the loss of every step; the same seeds give the same weights and images each time."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    model, loss_of = SmallNet(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    for _ in range(steps):
        images, labels = batch(generator)
        optimizer.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(target: str = "127.0.0.1:50051") -> int:
    local = train()
    with aclgrad.Client(target) as client, aclgrad.torch.remote_backward(client):
        remote = train()
    print("step   local loss  remote loss")
    for step in range(0, STEPS, 7):
        print(f"{step:>4}  {local[step]:>11.6f}  {remote[step]:>11.6f}")
    difference = max(abs(here - there) for here, there in zip(local, remote, strict=True))
    print(f"largest difference in {STEPS} steps: {difference:.1e}")
    return 0 if difference < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
