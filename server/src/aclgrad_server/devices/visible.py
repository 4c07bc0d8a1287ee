"""Which card a process is to see. Neither grpc nor the native runtime is imported here: the supervisor asks too."""

from collections.abc import Mapping
from typing import Final

VISIBLE: Final = "ASCEND_RT_VISIBLE_DEVICES"


def visible_card(environment: Mapping[str, str], index: int) -> str:
    """Returns the value of ASCEND_RT_VISIBLE_DEVICES that shows one card alone.

    If the variable is set, indices count its entries. Raises ValueError, with the remedy, for an index beyond them.
    """
    if (visible := environment.get(VISIBLE)) is None:
        return str(index)
    cards = visible_cards(visible)
    if not 0 <= index < len(cards):
        remedy = f"see --device, and give {VISIBLE} ascending indices with commas and without spaces"
        raise ValueError(f"there is no device {index}: {VISIBLE}={visible!r} shows {len(cards)}; {remedy}")
    return cards[index]


def visible_cards(visible: str) -> list[str]:
    """Returns the indices that CANN takes: it stops at the first that is no number or does not ascend."""
    cards: list[str] = []
    for word in visible.split(","):
        if not (word.isascii() and word.isdecimal()) or (cards and int(word) <= int(cards[-1])):
            break
        cards.append(word)
    return cards
