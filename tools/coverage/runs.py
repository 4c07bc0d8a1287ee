"""One training step of a model in four ways: by PyTorch, in float64, in a block, and as a program."""

import copy
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import aclgrad.torch
from tools.coverage.counting import ARITHMETIC, CountingClient, LocalWork, graph_of
from tools.coverage.shares import Shares
from tools.coverage.work import Work
from tools.models import Known

EXAMPLES: Final = 2
SEED: Final = 2


class MiscountError(Exception):
    """The bridge's account is not what was counted."""


class _Float32Noise(TorchFunctionMode):
    """Draws noise in float32, whatever it is for: the generator gives float64 other numbers."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is torch.randn_like:
            return torch.randn(args[0].shape, dtype=torch.float32).to(args[0].dtype)
        return function(*args, **(kwargs or {}))


class Trial:
    """A model with its batch, and the gradients that PyTorch computes in float32 and in float64."""

    def __init__(self, known: Known, client: CountingClient) -> None:
        torch.manual_seed(1)
        self._loss = known.loss
        self._model = known.make(True)
        self._batch = known.batch(True, EXAMPLES)
        self._client = client
        wide, batch = copy.deepcopy(self._model).double(), [_wide(each) for each in self._batch]
        with _Float32Noise():
            self._begin().loss(wide, batch).backward()
        self._truth = _gradients(wide)
        own = copy.deepcopy(self._model)
        self.own = LocalWork()
        """What PyTorch computes in a step of its own."""
        with self._begin().own:
            self.loss(own, self._batch).backward()
        self._own_error = _error(_gradients(own), self._truth)

    def _begin(self) -> "Trial":
        torch.manual_seed(SEED)
        return self

    def loss(self, model: nn.Module, batch: Sequence[Tensor]) -> Tensor:
        return self._loss(model, *batch)

    def in_block(self) -> Shares:
        """Returns the shares of the backward pass in a block; raises MiscountError if its account differs."""
        model = copy.deepcopy(self._model)
        local, client = LocalWork(), self._client
        self._begin()
        with aclgrad.torch.remote_backward(client) as remote:
            loss = self.loss(model, self._batch)
            graph = graph_of(loss)
            client.begin()
            with local:
                loss.backward()
        calls = local.calls(graph)
        sent = [each for call in client.sent for each in call]
        shares = self._shares(model, local.work, sent)
        shares.calls, shares.remote_calls = len(client.ended) + len(calls), len(client.ended)
        for node, names in calls:
            if not names <= ARITHMETIC:
                shares.local[_name(node.name())] += 1
        account = remote.account
        whose = Counter(site.whose for site in account.calls.elements())
        of_account = sum(n for site, n in account.flops.items() if site.whose == "remote")
        _check("calls of the server", len(client.ended), len(client.sent), whose["remote"])
        _check("backward calls", shares.calls, whose["remote"] + whose["local"] + account.arithmetic)
        _check("operations", shares.operations, account.flops.total())
        _check("operations of the server", shares.remote_operations, of_account)
        return shares

    def in_step(self) -> Shares:
        """Returns the shares of a step as a program; raises MiscountError if its account differs."""
        model = copy.deepcopy(self._model)
        local, client = LocalWork(), self._client
        step = aclgrad.torch.remote_step(model, self._loss, client, verify_every=0)
        state = copy.deepcopy(model.state_dict())
        step(*self._batch)  # which traces it
        model.zero_grad()
        model.load_state_dict(state)
        client.begin()
        self._begin()
        with local:
            step(*self._batch)
        sent = [each for call in client.sent for each in call]
        shares = self._shares(model, local.work, sent)
        shares.calls = len(self.own.work)
        shares.remote_calls = max(shares.calls - len(local.work), 0)
        shares.programs = len(client.ended)
        shares.local.update(each.name for each in local.work)
        explained = step.explain()
        programs, operators = (int(each) for each in re.findall(r"(\d+) (?:program|operator)", explained)[:2])
        _check("programs", len(client.ended), len(client.sent), programs)
        _check("operators", len(sent), operators)
        return shares

    def _shares(self, model: nn.Module, local: Sequence[Work], remote: Sequence[Work]) -> Shares:
        operations, size_bytes = (
            [sum(getattr(each, name) for each in some) for some in (local, remote)]
            for name in ("operations", "size_bytes")
        )
        error = _error(_gradients(model), self._truth)
        ratio = error / self._own_error if self._own_error else float(error > 0)
        return Shares(0, 0, sum(operations), operations[1], sum(size_bytes), size_bytes[1], ratio)


def _check(what: str, counted: int, *others: int) -> None:
    if any(counted != each for each in others):
        raise MiscountError(f"{what}: {counted} were counted, and the bridge says {' and '.join(map(str, others))}")


def _name(node: str) -> str:
    return re.sub(r"Backward\d*$", "", node.rpartition("::")[2])


def _wide(value: Tensor) -> Tensor:
    return value.double() if value.is_floating_point() else value


def _gradients(model: nn.Module) -> list[Tensor]:
    return [each.grad for each in model.parameters() if each.grad is not None]


def _error(found: Sequence[Tensor], truth: Sequence[Tensor]) -> float:
    """Returns the norm of all errors, to that of the true values."""
    pairs = list(zip(found, truth, strict=True))
    wrong = sum(float((one.double() - other).square().sum()) for one, other in pairs)
    return float((wrong / sum(float(other.square().sum()) for _, other in pairs)) ** 0.5)
