"""The workers that a server would have here, and what their supervisor needs."""

import glob
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aclgrad_server.devices.visible import VISIBLE, visible_cards
from aclgrad_server.doctor.subject import Found, Subject, fine, judged
from aclgrad_server.settings import Settings
from aclgrad_server.supervisor.cards import workers_of

NODES: Final = "/dev/davinci[0-9]*"


def cards_of(settings: Settings, environment: Mapping[str, str], is_ascend: bool) -> Sequence[int]:
    """Returns the device of each worker. Nodes tell how many cards there are: a driver may hang, and is not asked."""
    if is_ascend and not settings.device:
        count = len(glob.glob(NODES))
        if (visible := environment.get(VISIBLE)) is not None:
            count = min(count, len(visible_cards(visible)))
        settings = settings.model_copy(update={"device": tuple(range(count or 1))})
    return workers_of(settings)


def workers(subject: Subject) -> Iterator[Found]:
    """The workers and their devices, and the folder in which they answer their supervisor."""
    cards = subject.cards
    if len(cards) == 1:
        yield "", fine(f"one process, which serves device {cards[0]}", workers=1)
        return
    found = f"{len(cards)} and a supervisor, on the devices {', '.join(map(str, cards))}"
    if len(set(cards)) < len(cards):
        found += "; those that share a device divide its pool and --streams"
    yield "", fine(found, workers=len(cards))
    try:
        found, is_there = tempfile.gettempdir(), True
    except FileNotFoundError as error:
        found, is_there = str(error), False
    yield "TMPDIR", judged(is_there, found, "mount a small file system on /tmp, or name another folder by TMPDIR")
