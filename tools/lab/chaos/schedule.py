"""Which faults come, in what order and with what parameters: drawn from a seed alone, the same every time."""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count, islice

WORKERS = 3
HOST_A = tuple(f"A/{number}" for number in range(WORKERS))
HOST_B = "B/0"
RELAYS = {"relay/A": HOST_A[0], "relay/B": HOST_B}
"""Ways to a server that a relay of ours can cut, and the server at the end of each."""
SHORT_SEED = 1
"""That of the short form. It has found calls that stayed with half-open connections and failed."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault. `hits` is what it may make useless: a worker of A, all of A, B, or the way by a relay.

    `needs` names what the machine has to have. One that `is_long` takes more time than the short form has.
    """

    name: str
    hits: str = ""
    needs: str = ""
    is_long: bool = False
    ends_worker: bool = False


KINDS = (
    Kind("kill", "worker", ends_worker=True),
    Kind("stop", "worker", is_long=True, ends_worker=True),
    Kind("pause", "worker"),
    Kind("device_lost", "worker", ends_worker=True),
    Kind("hang_kernel", "worker", ends_worker=True),
    Kind("hang_copy", "worker", is_long=True, ends_worker=True),
    Kind("copy_error", "worker", is_long=True, ends_worker=True),
    Kind("out_of_memory", "worker", is_long=True, ends_worker=True),
    Kind("slow_device", "worker", is_long=True, ends_worker=True),
    Kind("renew", "A in turn", is_long=True),
    Kind("supervisor_killed", "A", is_long=True),
    Kind("host_killed", "B"),
    Kind("certificate"),
    Kind("identities"),
    Kind("full_log_disk", needs="mount"),
    Kind("clock_jump", needs="libfaketime"),
    Kind("partition", "B", needs="iptables"),
    Kind("relay_silent", "relay"),
    Kind("relay_throttled", "relay"),
    Kind("relay_half_open", "relay"),
)
"""Kinds of the device end their worker once before: the plan of a device's faults is read when its process starts."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault of a schedule: it lasts for `seconds` if nothing else ends it, and a device fails at `launch`."""

    number: int
    kind: Kind
    worker: int
    relay: str
    launch: int
    seconds: float
    pause_s: float
    """Before it."""

    @property
    def hits(self) -> list[str]:
        """The servers that it may make useless, and the relays that lead to them."""
        servers = {
            "": (),
            "worker": (HOST_A[self.worker],),
            "A": HOST_A,
            "A in turn": HOST_A,
            "B": (HOST_B,),
            "relay": (self.relay,),
        }[self.kind.hits]
        return sorted({*servers, *(relay for relay, server in RELAYS.items() if server in servers)})

    @property
    def at_once(self) -> int:
        """How many of what it hits are useless at any moment; 0 for all. A relay leads to one of the servers."""
        return 1 if self.kind.hits == "A in turn" else 0

    def __str__(self) -> str:
        where = {"worker": f" of {HOST_A[self.worker]}", "relay": f" of {self.relay}"}.get(self.kind.hits, "")
        return f"{self.number} {self.kind.name}{where}"


def draw(seed: int, faults: int, *, is_short: bool = False, only: Collection[str] = ()) -> list[Planned]:
    """Returns so many faults, each kind once before any comes again; workers take turns, so that each can settle.

    With `only`, they are of the kinds with these names. Raises ValueError if there is no fault to draw.
    """
    kinds = [kind for kind in KINDS if not (is_short and kind.is_long) and (not only or kind.name in only)]
    if not kinds:
        raise ValueError(f"the short form has no fault of the kind {', '.join(only)}: leave out --short")
    if faults < 1:
        raise ValueError(f"there are to be {faults} faults: give one or more")
    return list(islice(_drawn(random.Random(seed), kinds, is_short), faults))


def _drawn(source: random.Random, kinds: list[Kind], is_short: bool) -> Iterator[Planned]:
    workers = source.sample(range(WORKERS), WORKERS)
    ended = 0
    number = count(1)
    while True:
        for kind in source.sample(kinds, len(kinds)):
            worker = workers[ended % WORKERS] if kind.ends_worker else source.randrange(WORKERS)
            ended += kind.ends_worker
            relay = source.choice(sorted(RELAYS))
            launch = source.randint(1, 30)
            seconds = source.uniform(1.0, 2.0) if is_short else source.uniform(1.0, 6.0)
            pause_s = source.uniform(0.2, 0.6) if is_short else source.uniform(0.5, 3.0)
            yield Planned(next(number), kind, worker, relay, launch, round(seconds, 2), round(pause_s, 2))
