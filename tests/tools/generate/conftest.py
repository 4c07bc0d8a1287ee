"""A checkout without operators of ours, whose stubs are importable."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aclgrad.operators as package

from .stub_trees import Tree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tree.python)])
    before = set(sys.modules)
    yield tree
    for name in set(sys.modules) - before:
        if "made_up" in name:
            del sys.modules[name]
