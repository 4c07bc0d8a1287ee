"""Binds a worker's threads to the NUMA node of its card, where memory and card are near."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_ROOT: Final = Path("/sys")
_HUAWEI: Final = "0x19e5"
_ACCELERATOR: Final = "0x1200"  # the class of processing accelerators, without the interface


def bind_to_card(card: str, root: Path = _ROOT) -> None:
    """Binds this process, and so its future threads, to the processors of the card's node if the kernel knows it.

    `card` is the number of the card on its host: cards are numbered in the order of their bus addresses.
    """
    nodes = list(_nodes_of_cards(root))
    if not card.isdigit() or int(card) >= len(nodes) or nodes[int(card)] < 0:
        return
    node = nodes[int(card)]
    allowed = os.sched_getaffinity(0)
    near = _processors(_text(root / f"devices/system/node/node{node}/cpulist")) & allowed
    if near and near != allowed:
        os.sched_setaffinity(0, near)
        log.info("bound to the %d processors of NUMA node %d, where card %s is", len(near), node, card)


def _nodes_of_cards(root: Path) -> Iterator[int]:
    """Yields the node of each card in the order of bus addresses; -1 if it has none."""
    for device in sorted((root / "bus/pci/devices").glob("*")):
        is_card = _text(device / "vendor") == _HUAWEI and _text(device / "class").startswith(_ACCELERATOR)
        if is_card:
            yield int(_text(device / "numa_node") or -1)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _processors(ranges: str) -> set[int]:
    """Returns the numbers of a list such as `0-3,8`."""
    found: set[int] = set()
    for each in filter(None, ranges.strip().split(",")):
        first, _, last = each.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
