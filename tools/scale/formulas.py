"""Closed forms. Times are in units of the service time, rates in calls per unit, `load` is the utilisation.

Erlang C and M/M/c: A. K. Erlang, 1917; M/G/1: F. Pollaczek, 1930, and A. Y. Khinchine, 1932. Both are in
L. Kleinrock, Queueing Systems, volume 1 (1975), chapters 3 and 5. The tail at scale: J. Dean and L. A. Barroso,
Communications of the ACM 56 (2), 2013.
"""

import math
from typing import Final

from tools.scale.figures import (
    HOST_CORES,
    HOST_GBIT_S,
    PERIOD_S,
    RETRY_BURST,
    RETRY_SHARE,
    SPARE,
    TARGET,
    Load,
)

_BITS: Final = 8


def cores(rate: float, load: Load) -> float:
    """Returns the cores that carry this many gradients a second at the target utilisation."""
    return rate * load.cpu_ms / 1000 / TARGET


def gbit_s(rate: float, load: Load) -> float:
    """Returns the bandwidth that they take in each direction."""
    return rate * load.size_bytes * _BITS / 1e9


def hosts(rate: float, load: Load) -> int:
    """Returns the hosts for them, by cores or by network, whichever ends first, and the spare."""
    by_cores = cores(rate, load) / HOST_CORES
    by_network = gbit_s(rate, load) / (HOST_GBIT_S * TARGET)
    return math.ceil(max(by_cores, by_network)) + SPARE


def cards(rate: float, kernel_ms: float) -> int:
    """Returns the cards for kernels that take this long, one after the other, and the spare."""
    return math.ceil(rate * kernel_ms / 1000 / TARGET) + SPARE


def wait_of_one(load: float, variation: float) -> float:
    """Returns the mean wait before one server (M/G/1); `variation` is the squared one of the service time."""
    return load / (1 - load) * (1 + variation) / 2


def erlang_c(servers: int, load: float) -> float:
    """Returns the share of calls that wait where several servers share one queue (M/M/c)."""
    offered = servers * load
    blocked = 1.0
    # Erlang B by its recursion, which never overflows.
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked / (1 - load * (1 - blocked))


def wait_of_several(servers: int, load: float) -> float:
    """Returns the mean wait of M/M/c."""
    return erlang_c(servers, load) / (servers * (1 - load))


def met_by(calls: int, share: float) -> float:
    """Returns the share of steps of so many calls in which at least one meets what `share` of all calls meet."""
    return 1 - (1 - share) ** calls


def even_share(hosts: int) -> float:
    """Returns the share of calls at one host where all get as many."""
    return 1 / hosts


def weighted_share(hosts: int, slowness: float) -> float:
    """Returns the same for a slow host where each gets as many as it can do: weights are rate / utilisation."""
    return 1 / (slowness * (hosts - 1) + 1)


def load_after_loss(load: float, lost: float, retries: float = RETRY_SHARE) -> float:
    """Returns the utilisation of what is left, when this share of all servers is down and clients retry."""
    return load / (1 - lost) * (1 + retries)


def budget(rate: float) -> float:
    """Returns the retries that a client of a steady rate may make within a minute."""
    return RETRY_BURST + RETRY_SHARE * PERIOD_S * rate


def seconds_of_budget(rate: float, failing: float) -> float:
    """Returns how long the budget lasts while this share of the first attempts fails; infinite if it suffices.

    Within the first minute nothing comes back: what was spent is forgotten only then.
    """
    seconds = budget(rate) / (rate * failing)
    return seconds if seconds < PERIOD_S else math.inf
