"""Networks with an answer for each place of an image, small: segmentation, detection, flow, more pixels."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.models.classifiers import CLASSES, convolved


class DeepLab(nn.Module):
    """DeepLabv3 (Chen et al. 2017): dilated convolutions beside each other, and bilinear interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolved(3, 8, 3, 2), nn.ReLU(), convolved(8, 16, 3, 2), nn.ReLU())
        self.rates = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, 8, 3, padding=rate, dilation=rate, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            for rate in (1, 2, 3)
        )
        self.whole = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.head = nn.Sequential(convolved(32, 8, 1), nn.ReLU(), nn.Dropout(0.1), nn.Conv2d(8, CLASSES, 1))

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        whole = functional.interpolate(self.whole(x), x.shape[-2:], mode="bilinear")
        found = self.head(torch.cat([*(each(x) for each in self.rates), whole], 1))
        return functional.interpolate(found, images.shape[-2:], mode="bilinear")


class SuperResolution(nn.Module):
    """EDSR (Lim et al. 2017): residual convolutions without norms, and pixels that are shuffled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)) for _ in range(2)
        )
        self.head = nn.Sequential(nn.Conv2d(8, 32, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(8, 3, 3, padding=1))

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        for each in self.blocks:
            x = x + 0.1 * each(x)
        made: Tensor = self.head(x)
        return made


class Detector(nn.Module):
    """RetinaNet (Lin et al. 2017): two levels of features, and heads for classes and boxes at each place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(convolved(3, 8, 3, 2), nn.ReLU(), convolved(8, 8, 3, 2), nn.ReLU())
        self.second = nn.Sequential(convolved(8, 16, 3, 2), nn.ReLU())
        self.lateral = nn.ModuleList((nn.Conv2d(8, 8, 1), nn.Conv2d(16, 8, 1)))
        self.classes, self.boxes = (
            nn.Sequential(
                nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, count, 3, padding=1)
            )
            for count in (CLASSES, 4)
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        near = self.first(images)
        far = self.lateral[1](self.second(near))
        near = self.lateral[0](near) + functional.interpolate(far, scale_factor=2.0)
        classes, boxes = (
            torch.cat([head(each).flatten(2).mT for each in (near, far)], 1) for head in (self.classes, self.boxes)
        )
        return classes, boxes


def detected(model: nn.Module, images: Tensor, classes: Tensor, boxes: Tensor, has_box: Tensor) -> Tensor:
    """A focal loss of classes, and smooth L1 of the boxes where there is one."""
    logits, found = model(images)
    loss = functional.binary_cross_entropy_with_logits(logits, classes, reduction="none")
    shares = torch.sigmoid(logits)
    likely = shares * classes + (1 - shares) * (1 - classes)
    focal = ((1 - likely) ** 2 * loss).sum() / has_box.sum()
    return focal + (functional.smooth_l1_loss(found, boxes, reduction="none") * has_box).sum() / has_box.sum()


def detection_batch(count: int) -> tuple[Tensor, ...]:
    places = 8 * 8 + 4 * 4
    classes = (torch.rand(count, places, CLASSES) < 0.05).float()
    return torch.randn(count, 3, 32, 32), classes, torch.randn(count, places, 4), classes.amax(-1, keepdim=True)


class DETR(nn.Module):
    """Carion et al. 2020: queries attend to the places of an image; each is a class and a box."""

    def __init__(self, width: int = 16, queries: int = 6) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolved(3, 8, 3, 4), nn.ReLU(), nn.Conv2d(8, width, 3, 2, 1))
        self.rows, self.columns = (nn.Parameter(torch.rand(4, width // 2)) for _ in range(2))
        self.queries = nn.Embedding(queries, width)
        self.transformer = nn.Transformer(width, 2, 1, 1, 32, 0.0, batch_first=True)
        self.classes = nn.Linear(width, CLASSES + 1)
        self.boxes = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(images).flatten(2).mT
        rows, columns = self.rows[:, None].expand(4, 4, -1), self.columns[None].expand(4, 4, -1)
        x = x + torch.cat([rows, columns], -1).flatten(0, 1)
        found = self.transformer(x, self.queries.weight.expand(len(x), -1, -1))
        return self.classes(found), self.boxes(found).sigmoid()


def matched(model: nn.Module, images: Tensor, classes: Tensor, boxes: Tensor) -> Tensor:
    """Takes targets in the order of the queries. The boxes have L1 and the generalised overlap."""
    logits, found = model(images)
    weight = torch.ones(CLASSES + 1, dtype=logits.dtype)
    weight[-1] = 0.1
    loss = functional.cross_entropy(logits.mT, classes, weight) + 5 * functional.l1_loss(found, boxes)
    one, other = (
        torch.cat([each[..., :2] - each[..., 2:] / 2, each[..., :2] + each[..., 2:] / 2], -1) for each in (found, boxes)
    )
    both = (
        (torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2]))
        .clamp(min=0)
        .prod(-1)
    )
    around = (torch.maximum(one[..., 2:], other[..., 2:]) - torch.minimum(one[..., :2], other[..., :2])).prod(-1)
    union = found[..., 2:].prod(-1) + boxes[..., 2:].prod(-1) - both
    return loss + 2 * (1 - both / union + (around - union) / around).mean()


def box_batch(count: int) -> tuple[Tensor, ...]:
    return torch.randn(count, 3, 32, 32), torch.randint(CLASSES + 1, (count, 6)), torch.rand(count, 6, 4) * 0.5 + 0.25


class Flow(nn.Module):
    """RAFT (Teed and Deng 2020): all pairs of places are correlated, looked up, and a GRU corrects the flow."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3), nn.InstanceNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1)
        )
        self.motion = nn.Conv2d(9 + 2, width, 3, padding=1)
        self.gates = nn.ModuleList(nn.Conv2d(2 * width, width, 3, padding=1) for _ in range(3))
        self.head = nn.Conv2d(width, 2, 3, padding=1)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        one, other = self.features(first), self.features(second)
        count, width, rows, columns = one.shape
        pairs = (one.flatten(2).mT @ other.flatten(2) / width**0.5).view(-1, 1, rows, columns)
        grid = torch.stack(torch.meshgrid(torch.arange(columns), torch.arange(rows), indexing="xy"), -1).to(one.dtype)
        near = torch.cartesian_prod(torch.arange(-1, 2), torch.arange(-1, 2)).to(one.dtype).view(1, 3, 3, 2)
        flow, hidden = one.new_zeros(count, 2, rows, columns), torch.tanh(one)
        for _ in range(2):
            places = (grid + flow.permute(0, 2, 3, 1)).reshape(-1, 1, 1, 2) + near
            scaled = 2 * places / torch.tensor([columns - 1, rows - 1], dtype=one.dtype) - 1
            found = functional.grid_sample(pairs, scaled, align_corners=True).view(count, rows, columns, 9)
            motion = functional.relu(self.motion(torch.cat([found.permute(0, 3, 1, 2), flow], 1)))
            update, reset = (torch.sigmoid(each(torch.cat([hidden, motion], 1))) for each in self.gates[:2])
            new = torch.tanh(self.gates[2](torch.cat([reset * hidden, motion], 1)))
            hidden = (1 - update) * hidden + update * new
            flow = flow + self.head(hidden)
        return functional.interpolate(flow, scale_factor=4.0, mode="bilinear", align_corners=True)


def flowed(model: nn.Module, first: Tensor, second: Tensor, flow: Tensor) -> Tensor:
    return functional.l1_loss(model(first, second), flow)
