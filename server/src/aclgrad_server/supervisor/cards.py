"""The cards of the host: how many there are, which of them each worker has, and what their runtime says of them."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a device library says of its cards, or why it says nothing."""

    count: int | None = None
    soc_name: str = ""
    host_pointers: bool = False
    """Whether devices read the host's memory."""
    problem: str = ""


def workers_of(settings: Settings, runtime: Callable[[], Runtime]) -> list[int]:
    """Returns the index of each worker's card; of a single one, it may be unknown whether the card exists.

    The runtime is asked if it matters. If it does not tell, a server that opens it knows better why.
    """
    if settings.workers == 1 or (settings.workers is None and len(settings.device) == 1):
        return [*settings.device, 0][:1]
    cards: Sequence[int] = settings.device or range(runtime().count or 1)
    return [cards[number % len(cards)] for number in range(settings.workers or len(cards))]


def probes_in_child(settings: Settings, runtime: Callable[[], Runtime]) -> bool:
    """Says whether a child process is to make the first calls. A device that reads the host's memory is no card."""
    return settings.probe_in_child == "on" or (settings.probe_in_child == "auto" and not runtime().host_pointers)


def ask_runtime(settings: Settings) -> Runtime:
    """Returns what the runtime says of its cards.

    A process of its own asks: the supervisor itself never loads a runtime, whose threads and contexts would be in it.
    """
    config, limit_s = str(settings.acl_config or ""), settings.hang_timeout_s
    # -P: a file of the working directory must not stand for a module.
    command = [sys.executable, "-P", "-m", "aclgrad_server.devices.library", settings.backend, config, str(limit_s)]
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            errors="replace",
        )
        # The last line, because libraries print, too.
        return Runtime(**json.loads(finished.stdout.strip().rpartition("\n")[2]))
    except subprocess.TimeoutExpired:
        problem = f"the runtime has not told its number of cards within {limit_s:g} s (--hang-timeout-s)"
        log.warning(problem)
        return Runtime(problem=problem)
    except OSError as error:
        return Runtime(problem=f"the process that asks the runtime cannot be started: {error.strerror or error}")
    except (ValueError, TypeError):
        return Runtime(problem=f"the process that asked the runtime ended with {finished.returncode}")
