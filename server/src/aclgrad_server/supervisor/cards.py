"""The cards of the host: how many there are, and which of them each worker has."""

import logging
import subprocess
import sys
from collections.abc import Callable, Sequence

from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)


def workers_of(settings: Settings, count: Callable[[Settings], int | None] | None = None) -> list[int]:
    """Returns the index of each worker's card; of a single one, it may be unknown whether the card exists.

    `count` is asked how many cards there are, if that matters: the runtime by default.
    """
    if settings.workers == 1 or (settings.workers is None and len(settings.device) == 1):
        return [*settings.device, 0][:1]
    cards: Sequence[int] = settings.device or range((count or count_cards)(settings) or 1)
    return [cards[number % len(cards)] for number in range(settings.workers or len(cards))]


def count_cards(settings: Settings) -> int | None:
    """Returns how many cards the runtime shows; None if it does not tell: a server that opens it knows better why."""
    return number_of(ask_runtime(settings))


def number_of(told: str) -> int | None:
    """Returns the number of cards that the runtime told, or None."""
    number = told.partition(" ")[0]
    return int(number) if number.isascii() and number.isdigit() else None


def soc_of(told: str) -> str:
    """Returns the name of the SoC that the runtime told beside a number."""
    return told.partition(" ")[2]


def ask_runtime(settings: Settings) -> str:
    """Returns the number of cards that the runtime shows and the name of their SoC, or why it shows none.

    A process of its own asks: the supervisor itself never loads a runtime, whose threads and contexts would be in it.
    """
    config, limit_s = settings.acl_config or "", settings.hang_timeout_s
    command = [sys.executable, "-m", "aclgrad_server.devices.count", settings.backend, str(config), str(limit_s)]
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        told = f"the runtime has not told its number of cards within {limit_s:g} s (--hang-timeout-s)"
        log.warning(told)
        return told
    # The last line, because libraries print, too.
    told = finished.stdout.strip().rpartition("\n")[2]
    return told or f"the process that asked the runtime ended with {finished.returncode}"
