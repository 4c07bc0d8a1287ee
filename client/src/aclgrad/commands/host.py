"""Asks a server for its status, and all workers of its host if there are several: at once, with short limits."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from aclgrad._client.calls.exchange import status_message_query
from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad._client.sync.client import Client
from aclgrad._client.sync.transport import run
from aclgrad.commands.common import connection
from aclgrad.descriptions.hosts import DOES_NOT_ANSWER, WorkerAnswer, merge
from aclgrad.errors import AclgradError, DeadlinePassedError, ServerUnreachableError
from aclgrad.v1 import operator_service_pb2 as pb

ANSWER_S: Final = 1.0
MAX_THREADS: Final = 64
_UNIX: Final = "unix:"
_TCP: Final = re.compile(r"(?i:dns:(?://[^/]*/)?|ipv[46]:)?(?P<host>\[[^\[\]]+\]|[^:/,\[\]]+):(?P<port>[0-9]+)")
_THIS_HOST: Final = re.compile(r"0\.0\.0\.0|\[::\]|127\.[0-9.]+|\[::1\]|localhost")
"""A host's names for itself. A client uses the name by which it reached it, which is also the certificate's."""


def host_status(target: str, timeout_s: Timeout = DEFAULT) -> pb.GetServerStatusResponse:
    """Returns the status of the server at the target; if that is a worker with siblings, the status of their host.

    The siblings get the same credentials, and a second to answer; the server at the target has `timeout_s`.
    """
    with Client.from_env(**connection(target)) as client:
        status = _status_of(client, timeout_s)
    worker = status.worker
    if not worker.siblings:
        return status
    # The clients are closed before the threads are joined, so that Ctrl-C ends their calls.
    with ThreadPoolExecutor(min(len(worker.siblings), MAX_THREADS)) as threads, ExitStack() as clients:
        asked = [threads.submit(_ask, each, target, clients) for each in worker.siblings]
        answers = [each.result() for each in asked]
    return merge([_answer(worker, status), *answers])


def sibling_target(addresses: Sequence[str], target: str) -> str | None:
    """Returns the target at which a client of `target` finds a worker with these addresses, or None."""
    if target.startswith(_UNIX):
        return next((each for each in addresses if each.startswith(_UNIX)), None)
    here = _TCP.fullmatch(target)
    there = [found for found in map(_TCP.fullmatch, addresses) if found]
    if here is None or not there:
        return None
    # The listener at which the target was reached, if known.
    best = min(there, key=lambda each: (each["host"] != here["host"], not _THIS_HOST.fullmatch(each["host"])))
    return f"{(here if _THIS_HOST.fullmatch(best['host']) else best)['host']}:{best['port']}"


def _ask(sibling: pb.SiblingWorker, target: str, clients: ExitStack) -> WorkerAnswer:
    own = sibling_target(sibling.addresses, target)
    if own is None:
        return _silent(sibling, f": {target} does not say how to reach it")
    try:
        # Shorter than the call's limit, so that the error says that nobody is there.
        settings = connection(own) | {"retries": 0, "connect_timeout_s": ANSWER_S / 2}
        client = clients.enter_context(Client.from_env(**settings))
        status = _status_of(client, ANSWER_S)
    except DeadlinePassedError:
        return _silent(sibling, f" within {ANSWER_S:g} s")
    except ServerUnreachableError:
        return _silent(sibling, f": no server is at {own}")
    except AclgradError as error:
        return _silent(sibling, f": {error}")
    if not status.HasField("worker") or status.worker.index != sibling.index:
        return _silent(sibling, f": another server is at {own}")
    return _answer(status.worker, status)


def _status_of(client: Client, timeout_s: Timeout = DEFAULT) -> pb.GetServerStatusResponse:
    # The message, because its dataclass cannot be merged.
    status: pb.GetServerStatusResponse = run(client._ask, status_message_query(), timeout_s)  # noqa: SLF001
    return status


def _silent(sibling: pb.SiblingWorker, why: str) -> WorkerAnswer:
    return WorkerAnswer(sibling.index, reason=DOES_NOT_ANSWER + why, addresses=sibling.addresses)


def _answer(worker: pb.WorkerStatus, status: pb.GetServerStatusResponse) -> WorkerAnswer:
    restart_count = worker.restart_count if worker.HasField("restart_count") else None
    return WorkerAnswer(worker.index, status, addresses=worker.addresses, restart_count=restart_count)
