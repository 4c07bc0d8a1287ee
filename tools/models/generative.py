"""Networks that make images or judge them, small: autoencoders, adversarial and invertible ones."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


def autoencoder() -> nn.Module:
    """Convolutions down to a code, and transposed ones up again."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ELU(),
        nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip


def rebuilt(model: nn.Module, images: Tensor) -> Tensor:
    return functional.mse_loss(model(images), images)


class VAE(nn.Module):
    """Kingma and Welling 2013."""

    def __init__(self, code: int = 4) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 2 * code))
        self.outer = nn.Sequential(
            nn.Linear(code, 512), nn.ReLU(), nn.Unflatten(1, (8, 8, 8)), nn.ConvTranspose2d(8, 1, 4, 2, 1)
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.inner(images).chunk(2, -1)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        return self.outer(code), mean, log_variance


def variational(model: nn.Module, images: Tensor) -> Tensor:
    logits, mean, log_variance = model(images)
    built = functional.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    return (built - (1 + log_variance - mean.square() - log_variance.exp()).sum() / 2) / len(images)


class GAN(nn.Module):
    """DCGAN (Radford et al. 2015): a generator, and a discriminator of what it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
            nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(16, 1, 4, bias=False), nn.Flatten(),
        )  # fmt: skip


def adversarial(model: nn.Module, images: Tensor, codes: Tensor) -> Tensor:
    """The losses of both: the discriminator's of images and of what was made, and the generator's."""
    made = model.generator(codes)
    real, fake, wanted = (model.discriminator(each) for each in (images, made.detach(), made))
    pairs = ((real, torch.ones_like(real)), (fake, torch.zeros_like(fake)), (wanted, torch.ones_like(wanted)))
    losses = [functional.binary_cross_entropy_with_logits(*each) for each in pairs]
    return losses[0] + losses[1] + losses[2]


class InvertibleFlow(nn.Module):
    """RealNVP (Dinh et al. 2016): half of the numbers scale and shift the other half."""

    def __init__(self, width: int = 8, layers: int = 4) -> None:
        super().__init__()
        half = width // 2
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(half, 32), nn.ReLU(), nn.Linear(32, 2 * half)) for _ in range(layers)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        log_volume = x.new_zeros(len(x))
        for layer in self.layers:
            one, other = x.chunk(2, -1)
            scale, shift = layer(one).chunk(2, -1)
            scale = torch.tanh(scale)
            x = torch.cat([other * scale.exp() + shift, one], -1)
            log_volume = log_volume + scale.sum(-1)
        return x, log_volume


def likely(model: nn.Module, values: Tensor) -> Tensor:
    code, log_volume = model(values)
    return (code.square().sum(-1) / 2 + code.shape[-1] * math.log(2 * math.pi) / 2 - log_volume).mean()


class VQVAE(nn.Module):
    """Van den Oord et al. 2017: the code is the nearest of a book, and gradients go past that choice."""

    def __init__(self, width: int = 8, codes: int = 16) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
        self.book = nn.Embedding(codes, width)
        self.outer = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1)
        )


def quantised(model: nn.Module, images: Tensor) -> Tensor:
    found = model.inner(images).permute(0, 2, 3, 1)
    with torch.no_grad():
        nearest = torch.cdist(found.flatten(0, 2), model.book.weight).argmin(-1).view(found.shape[:-1])
    code = model.book(nearest)
    losses = functional.mse_loss(code, found.detach()) + 0.25 * functional.mse_loss(found, code.detach())
    passed = (found + (code - found).detach()).permute(0, 3, 1, 2)
    return functional.mse_loss(model.outer(passed), images) + losses


class Siamese(nn.Module):
    """FaceNet (Schroff et al. 2015): images of one kind are near each other."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 5, 2), nn.PReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.PReLU(), nn.Flatten(),
            nn.Linear(400, 16),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return functional.normalize(self.body(images), dim=-1)


def triplet(model: nn.Module, images: Tensor, alike: Tensor, other: Tensor) -> Tensor:
    return functional.triplet_margin_loss(model(images), model(alike), model(other), 0.5)
