"""The cards of the host: their number, the card of each worker, and the runtime's description."""

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
    """A device library's description of its cards, or why there is none."""

    count: int | None = None
    soc_name: str = ""
    host_pointers: bool = False
    """Whether devices read the host's memory."""
    problem: str = ""


def workers_of(settings: Settings, runtime: Callable[[], Runtime]) -> list[int]:
    """Returns the index of each worker's card; a single worker's card may not exist.

    Asks the runtime only if necessary. If that fails, the server that opens the card reports the cause better.
    """
    if settings.workers == 1 or (settings.workers is None and len(settings.device) == 1):
        return [*settings.device, 0][:1]
    cards: Sequence[int] = settings.device or range(runtime().count or 1)
    return [cards[number % len(cards)] for number in range(settings.workers or len(cards))]


def probes_in_child(settings: Settings, runtime: Callable[[], Runtime]) -> bool:
    """Returns whether a child process makes the first calls; not for a device that reads the host's memory."""
    return settings.probe_in_child == "on" or (settings.probe_in_child == "auto" and not runtime().host_pointers)


def ask_runtime(settings: Settings) -> Runtime:
    """Returns the runtime's description of its cards.

    Asks in a process of its own, so that the runtime's threads and contexts are never in the supervisor.
    """
    config, limit_s = str(settings.acl_config or ""), settings.hang_timeout_s
    # -P: no modules from the working directory.
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
        problem = f"the runtime has not reported its number of cards within {limit_s:g} s (--hang-timeout-s)"
        log.warning(problem)
        return Runtime(problem=problem)
    except OSError as error:
        return Runtime(problem=f"the process that asks the runtime cannot be started: {error.strerror or error}")
    except (ValueError, TypeError):
        return Runtime(problem=f"the process that asked the runtime ended with {finished.returncode}")
