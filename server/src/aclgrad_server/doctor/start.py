"""What the start of a server would refuse or warn of, all of it at once."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from aclgrad_server.access.identities import read_identities
from aclgrad_server.doctor.subject import Found, Subject, bad, fine, noted
from aclgrad_server.edge.memory_limit import check_memory, memory_limit
from aclgrad_server.edge.tls import open_certificates
from aclgrad_server.exits import StartError
from aclgrad_server.files import UnusableFileError
from aclgrad_server.listen_addresses import dangers
from aclgrad_server.place import share_of

_DAY_S: Final = 86400


def start(subject: Subject) -> Iterator[Found]:
    """The memory that the workers may use, the files of TLS and of identities, and who reaches the listeners."""
    settings, count = subject.settings, len(subject.cards)

    def memory() -> str:
        check_memory(processes=count)
        limit = memory_limit(settings.memory_limit_bytes)
        each = f", {share_of(limit, count) / 2**20:.0f} for each of {count} workers" if count > 1 else ""
        return f"{limit / 2**20:.0f} MiB{each}"

    def certificate() -> str:
        if (made := open_certificates(settings)) is None:
            return "no TLS"
        names, days = ", ".join(made.names) or "no name", (made.expires_at - time.time()) / _DAY_S
        return f"fits its key; for {names}, valid for {days:.0f} days"

    def identities() -> str:
        if settings.identities is None:
            return "everybody may call"
        read_identities(settings.identities)
        return f"{settings.identities} can be used"

    yield from _judged("memory", memory, "give the container more memory")
    yield from _judged("--tls-certificate", certificate, "the server would not start")
    yield from _judged("--identities", identities, "the server would not start")
    for danger in dangers(settings.listen, *map(bool, (settings.tls_key, settings.tls_client_ca, settings.identities))):
        yield "--listen", noted(danger)


def _judged(name: str, check: Callable[[], str], remedy: str) -> Iterator[Found]:
    try:
        yield name, fine(check())
    except (StartError, UnusableFileError) as error:
        yield name, bad(str(error), remedy)
