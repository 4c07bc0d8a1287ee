"""The processors of a worker are those of its card's node, if the kernel tells both."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from aclgrad_server.devices.numa import bind_to_card

CARD = {"vendor": "0x19e5\n", "class": "0x120000\n"}
CARDS = {
    "0000:81:00.0": CARD | {"numa_node": "1\n"},
    "0000:01:00.0": CARD | {"numa_node": "0\n"},
    "0000:02:00.0": {"vendor": "0x19e5\n", "class": "0x020000\n", "numa_node": "1\n"},  # a network card
    "0000:03:00.0": {"vendor": "0x10de\n", "class": "0x120000\n", "numa_node": "1\n"},
    "0000:c1:00.0": CARD | {"numa_node": "-1\n"},
    "0000:c2:00.0": CARD,
    "0000:c3:00.0": CARD | {"numa_node": "5\n"},
}
"""Cards 0 and 1 have nodes; the others have none, or one that lists no processors."""
NODES = {0: "0-3,8\n", 1: "4-7,9\n", 2: "\n"}


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What the process was bound to, of ten processors."""
    found: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(10)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, processors: found.append(processors))
    return found


def tree(folder: Path, cards: Mapping[str, Mapping[str, str]] = CARDS) -> Path:
    """Returns a root as the kernel shows it: devices are links."""
    for number, processors in NODES.items():
        node = folder / f"devices/system/node/node{number}"
        node.mkdir(parents=True)
        (node / "cpulist").write_text(processors)
    bus = folder / "bus/pci/devices"
    bus.mkdir(parents=True)
    for name, files in cards.items():
        device = folder / "devices" / name
        device.mkdir(parents=True)
        for file, content in files.items():
            (device / file).write_text(content)
        (bus / name).symlink_to(device)
    return folder


@pytest.mark.parametrize(("card", "processors"), [("0", {0, 1, 2, 3, 8}), ("1", {4, 5, 6, 7, 9})])
def test_processors_of_the_node(
    tmp_path: Path, bound: list[set[int]], caplog: pytest.LogCaptureFixture, card: str, processors: set[int]
) -> None:
    caplog.set_level("INFO")
    bind_to_card(card, tree(tmp_path))
    assert bound == [processors]
    assert f"bound to the 5 processors of NUMA node {card}, where card {card} is" in caplog.text


@pytest.mark.parametrize("card", ["2", "3", "4", "5", "63", "-1", "", "x"])
def test_without_a_node_nothing_changes(tmp_path: Path, bound: list[set[int]], card: str) -> None:
    bind_to_card(card, tree(tmp_path))
    assert bound == []


def test_only_processors_that_are_allowed_and_not_for_nothing(
    tmp_path: Path, bound: list[set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path)
    for allowed, expected in (({0, 1, 4}, [{0, 1}]), ({0, 1}, []), ({4, 5}, [])):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, allowed=allowed: allowed)
        bind_to_card("0", root)
        assert bound == expected
        bound.clear()


def test_machine_without_a_bus(tmp_path: Path, bound: list[set[int]]) -> None:
    bind_to_card("0", tmp_path / "nothing")
    bind_to_card("0")
    assert bound == []
