"""Trainings of transformers: all kernels are the server's, and the steps stay with those of PyTorch."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch

from .conftest import RecordingClient
from .table import random
from .transformers import CLASSES, WORDS, Gpt, Llama, Vit

GENERATOR = torch.Generator().manual_seed(5)
SENTENCES = torch.randint(WORDS, (4, 8), generator=GENERATOR)
NEXT = SENTENCES.roll(-1, 1).flatten()
MODELS: dict[str, tuple[Callable[[], nn.Module], Tensor, Tensor]] = {
    "gpt": (Gpt, SENTENCES, NEXT),
    "llama": (Llama, SENTENCES, NEXT),
    "vit": (Vit, random(6, 3, 8, 8), torch.arange(6) % CLASSES),
}
NORMS = {"gpt": ("layer_norm_backward", 3), "llama": ("rms_norm_grad", 5), "vit": ("layer_norm_backward", 5)}
ATTENTION = {
    "gpt": {"matmul_backward": 2, "softmax_backward": 1, "dropout_do_mask": 4},
    "llama": {"flash_attention_score_grad": 2},
    "vit": {"flash_attention_score_grad": 2},
}


def trained(name: str, block: Any, steps: int) -> Tensor:
    """Returns the losses."""
    torch.manual_seed(3)
    make, inputs, labels = MODELS[name]
    model, losses = make(), []
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        with block:
            loss = functional.cross_entropy(model(inputs), labels)
            loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.parametrize("name", MODELS)
def test_all_kernels_are_the_servers(client: RecordingClient, name: str) -> None:
    remote = aclgrad.torch.remote_backward(client, strict=True)
    trained(name, remote, 1)
    assert {site.whose for site in remote.account.calls} == {"remote"}
    assert "\n100.0% of " in str(remote)
    assert not remote.account.left_alone
    calls = Counter(client.called)
    assert calls[NORMS[name][0]] == NORMS[name][1]
    assert {each: calls[each] for each in ATTENTION[name]} == ATTENTION[name]


@pytest.mark.parametrize("name", MODELS)
def test_fifty_steps_stay_with_those_of_pytorch(client: RecordingClient, name: str) -> None:
    found = trained(name, aclgrad.torch.remote_backward(client, strict=True), 50)
    expected = trained(name, nullcontext(), 50)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    assert expected[-1] < expected[0]
