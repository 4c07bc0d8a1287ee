"""Whether a client also reaches the other workers of a server's host."""

from functools import partial
from typing import Final

from aclgrad._client.server.status import ServerStatus
from aclgrad.commands.doctor.findings import STEP_S, begin, fine, noted, skipped
from aclgrad.commands.doctor.network import Route, connect, look_up, route_of
from aclgrad.commands.host import sibling_target
from aclgrad.judgement.rows import Finding, Verdict

_REMEDY: Final = "clients use only those that they reach: publish or open the ports after the first one, too"


def of_siblings(status: ServerStatus, target: str, route: Route | None) -> Finding:
    """Says which workers of the host take no connections from here."""
    if status.worker is None or not status.worker.siblings:
        return fine("none: one process serves")
    if route is not None and route.proxy is not None:
        return skipped("there is a proxy between")
    siblings = status.worker.siblings
    attempts = {each.index: begin(partial(_reason, each.addresses, target)) for each in siblings}
    missing = {index: reason for index, attempt in attempts.items() if (reason := attempt.result(2 * STEP_S + 1))}
    if not missing:
        return fine(f"all {1 + len(siblings)} workers take connections")
    told = "; ".join(f"worker {index}: {reason}" for index, reason in missing.items())
    return noted(f"{len(missing)} of {len(siblings)} other workers are not reached: {told}; {_REMEDY}")


def _reason(addresses: tuple[str, ...], target: str) -> str:
    """Returns why a worker at these addresses is not reached; empty if it is."""
    own = sibling_target(addresses, target)
    if own is None or (route := route_of(own)) is None:
        return f"{target} does not tell how to reach it"
    if not route.path:
        route, found = look_up(route)
        if not route.addresses:
            return found.message
    found = connect(route)[1]
    return found.message.partition(";")[0] if found.verdict is Verdict.FAILED else ""
