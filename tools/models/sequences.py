"""Networks of sequences and of things that are linked, small: recurrent, speech, tables, graphs, points."""

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS = 97


class Recurrent(nn.Module):
    """A language model of an LSTM or a GRU."""

    def __init__(self, layer: type[nn.Module], width: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.layer = layer(width, width, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(self.words(tokens))[0])
        return logits


class _Causal(nn.Module):
    """A dilated convolution that sees the past alone."""

    def __init__(self, channels: int, width: int, dilation: int) -> None:
        super().__init__()
        self.past = dilation
        self.convolution = nn.Conv1d(channels, width, 2, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.convolution(functional.pad(x, (self.past, 0)))
        return made


class TCN(nn.Module):
    """A temporal convolutional network (Bai et al. 2018) that tells the next value of a series."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv1d(1, width, 1), nn.Conv1d(width, 1, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(
                _Causal(width, width, rate), nn.ReLU(), nn.Dropout(0.1), _Causal(width, width, rate), nn.ReLU()
            )
            for rate in (1, 2, 4)
        )

    def forward(self, series: Tensor) -> Tensor:
        x = self.stem(series)
        for each in self.layers:
            x = functional.relu(x + each(x))
        made: Tensor = self.head(x)
        return made


def forecast(model: nn.Module, series: Tensor) -> Tensor:
    return functional.smooth_l1_loss(model(series)[..., :-1], series[..., 1:])


class WaveNet(nn.Module):
    """Van den Oord et al. 2016: gated convolutions, and a class for each sample of sound."""

    def __init__(self, width: int = 8, levels: int = 16) -> None:
        super().__init__()
        self.levels = nn.Embedding(levels, width)
        self.gated = nn.ModuleList(_Causal(width, 2 * width, rate) for rate in (1, 2, 4))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, levels, 1))

    def forward(self, sound: Tensor) -> Tensor:
        x = self.levels(sound).mT
        skipped = torch.zeros_like(x)
        for gated, skip in zip(self.gated, self.skips, strict=True):
            one, gate = gated(x).chunk(2, 1)
            found = skip(torch.tanh(one) * torch.sigmoid(gate))
            skipped, x = skipped + found, x + found
        logits: Tensor = self.head(skipped).mT
        return logits


class Speech(nn.Module):
    """Deep Speech 2 (Amodei et al. 2015): convolutions, a recurrent layer, and CTC over the letters."""

    def __init__(self, letters: int = 12) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 4, (5, 3), (2, 2), (2, 1)), nn.BatchNorm2d(4), nn.Hardtanh(0, 20),
            nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Hardtanh(0, 20),
        )  # fmt: skip
        self.layer = nn.GRU(32, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, letters)

    def forward(self, sound: Tensor) -> Tensor:
        x = self.convolutions(sound[:, None]).flatten(1, 2).mT
        logits: Tensor = self.head(self.layer(x)[0])
        return logits


def transcribed(model: nn.Module, sound: Tensor, letters: Tensor) -> Tensor:
    shares = model(sound).log_softmax(-1).transpose(0, 1)
    times = torch.full((len(letters),), len(shares), dtype=torch.int64)
    return functional.ctc_loss(shares, letters, times, torch.full((len(letters),), letters.shape[1], dtype=torch.int64))


class Recommender(nn.Module):
    """DLRM (Naumov et al. 2019): products between embeddings of users and things."""

    def __init__(self, tables: int = 4, width: int = 8) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(50, width, mode="sum") for _ in range(tables))
        self.numbers = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.head = nn.Sequential(nn.Linear(width + pairs, 16), nn.ReLU(), nn.Linear(16, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, numbers: Tensor, kinds: Tensor) -> Tensor:
        dense = self.numbers(numbers)
        all_of = torch.stack([dense, *(table(kinds[:, at]) for at, table in enumerate(self.tables))], 1)
        products = (all_of @ all_of.mT)[:, self.pairs[0], self.pairs[1]]
        logits: Tensor = self.head(torch.cat([dense, products], -1)).squeeze(-1)
        return logits


def clicked(model: nn.Module, numbers: Tensor, kinds: Tensor, is_clicked: Tensor) -> Tensor:
    return functional.binary_cross_entropy(torch.sigmoid(model(numbers, kinds)), is_clicked)


class GCN(nn.Module):
    """Kipf and Welling 2016: each point takes the mean of its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, points: Tensor, edges: Tensor) -> Tensor:
        for layer in (self.first, self.second):
            points = layer(points)
            summed = torch.zeros_like(points).index_add(0, edges[1], points[edges[0]])
            count = points.new_zeros(len(points)).index_add(0, edges[1], points.new_ones(edges.shape[1]))
            points = summed / count.clamp(min=1)[:, None]
            points = functional.relu(points) if layer is self.first else points
        return points


class GAT(nn.Module):
    """Veličković et al. 2017: how much of each neighbour a point takes is learned."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.values, self.head = nn.Linear(8, width), nn.Linear(width, 4)
        self.of_source, self.of_target = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, points: Tensor, edges: Tensor) -> Tensor:
        values = self.values(points)
        scores = self.of_source(values).squeeze(-1)[edges[0]] + self.of_target(values).squeeze(-1)[edges[1]]
        shares = functional.leaky_relu(scores, 0.2).exp()
        total = shares.new_zeros(len(points)).scatter_add(0, edges[1], shares)
        weights = shares / total[edges[1]]
        mixed = torch.zeros_like(values).index_add(0, edges[1], weights[:, None] * values[edges[0]])
        logits: Tensor = self.head(functional.elu(mixed))
        return logits


def labelled(model: nn.Module, points: Tensor, edges: Tensor, classes: Tensor) -> Tensor:
    return functional.cross_entropy(model(points, edges), classes)


def graph_batch(count: int) -> tuple[Tensor, ...]:
    points = 8 * count
    ring = torch.stack([torch.arange(points), torch.arange(1, points + 1) % points])
    return (
        torch.randn(points, 8),
        torch.cat([ring, torch.randint(points, (2, 3 * points))], 1),
        torch.randint(4, (points,)),
    )


class PointNet(nn.Module):
    """Qi et al. 2016: the largest of what each point of a cloud says."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1), nn.BatchNorm1d(32), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 10))

    def forward(self, clouds: Tensor) -> Tensor:
        logits: Tensor = self.head(self.points(clouds).amax(-1))
        return logits
