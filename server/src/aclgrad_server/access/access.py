"""Who a caller is and whether it may make a call, checked at each call against the current identities."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aclgrad.errors import NotAuthenticatedError, PermissionDeniedError
from aclgrad_server.access.identities import SAN_KINDS, Identities, Identity, Right
from aclgrad_server.bounds import Bounds
from aclgrad_server.calls.call import UNIX, Call, Context, address_of, busy
from aclgrad_server.calls.gate import RETRY_AFTER_S
from aclgrad_server.calls.open_calls import Throttle
from aclgrad_server.files import Reloaded
from aclgrad_server.limits import LONGEST_REFUSAL_S, REFUSALS_PER_S
from aclgrad_server.logs import UNKNOWN, fields

WINDOW_S: Final = 10.0
"""The audit has one line per caller and reason in this time."""
MAX_CALLERS: Final = 500
"""Callers with audit lines in one window: an attacker may have any number of addresses."""
audit = logging.getLogger("aclgrad_server.access.audit")

AUTHORIZATION: Final = "authorization"
_REMEDY: Final = (
    "send a token that this server knows as the metadata 'authorization: Bearer TOKEN' "
    "(aclgrad.Credentials(token=...) or ACLGRAD_TOKEN)"
)
_REMEDY_CERTIFICATE: Final = f"{_REMEDY}, or connect with a certificate that it knows"
_NEEDED: Final = {"GetServerStatus": frozenset(Right)}
"""Methods that other rights than execute open; one of them is enough."""
_EXECUTE: Final = frozenset({Right.EXECUTE})
_PROPERTIES: Final = [(f"peer_{kind}", kind) for kind in SAN_KINDS]


class FirstRefusals:
    """Lets one line of each caller and reason through, so that nobody floods the log. The metrics count them all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: set[tuple[str, str, str]] = set()
        self._since = clock()

    def take(self, address: str, identity: str, reason: str) -> bool:
        if self._clock() - self._since >= WINDOW_S:
            self._seen.clear()
            self._since = self._clock()
        caller = address, identity, reason
        if caller in self._seen or len(self._seen) >= MAX_CALLERS:
            return False
        self._seen.add(caller)
        return True


class Access:
    """Lets in calls of known identities, each with as many in flight as it may have."""

    def __init__(self, identities: Reloaded[Identities]) -> None:
        self._identities = identities
        self._in_flight: Counter[str] = Counter()
        self.bounds: dict[str, Bounds] = {}
        """The bounds of each identity in admission, by its key, as of its last call."""
        self._pace = Throttle(REFUSALS_PER_S, LONGEST_REFUSAL_S)
        self._first = FirstRefusals()
        self.refusals = Counter(identity=0, share=0)
        """How many callers were unknown or lacked the right, and how many had as many calls as they may have."""

    def admit(self, call: Call) -> None:
        """Sets the call's identity; raises an error if the caller is unknown, lacks the right or has too many calls."""
        identity = self.check(call.context, call.method, call.peer, call.request_id, call.trace_id)
        call.identity = identity.name
        call.sees_details = Right.STATUS in identity.rights
        call.caller = identity.key
        self.bounds[identity.key] = identity.bounds
        if (count := self._in_flight[identity.key]) >= identity.max_calls:
            self.refusals["share"] += 1
            problem = f"identity {identity.name} has as many calls in flight as it may have, {count}"
            raise busy(problem, RETRY_AFTER_S, limit=identity.max_calls)
        self._in_flight[identity.key] = count + 1
        call.at_end(partial(self._in_flight.subtract, (identity.key,)))

    def check(
        self, context: Context, method: str, peer: str, request_id: str = UNKNOWN, trace_id: str = UNKNOWN
    ) -> Identity:
        """Returns the caller's identity, or audits and raises NotAuthenticatedError or PermissionDeniedError."""
        identity = None
        try:
            identity = self._identify(context, peer)
            if not identity.rights & _NEEDED.get(method, _EXECUTE):
                needed = " or ".join(sorted(_NEEDED.get(method, _EXECUTE)))
                problem = f"identity {identity.name} has no right to {method}"
                raise PermissionDeniedError(problem, remedy=f"ask for the right {needed} in the server's identities")
        except (NotAuthenticatedError, PermissionDeniedError) as error:
            self.refusals["identity"] += 1
            who = identity.name if identity else "unknown"
            why = error.message.partition(";")[0]
            if self._first.take(address_of(peer), who, why):
                # The client chose the request id, so it comes last.
                told = {"why": why, "identity": who, "peer": peer, "method": method, "request_id": request_id}
                extra = fields(told | {"trace_id": trace_id})
                audit.warning("refused %s: identity %s of %s, %s %s", *told.values(), extra=extra)
            raise
        return identity

    async def slow_down(self, peer: str) -> None:
        """Delays a refusal if its address has had many: a flood would delay other calls."""
        address = address_of(peer)
        self._pace.spend(address, 1)
        await asyncio.sleep(max(0.0, self._pace.delay_s(address) - 1 / REFUSALS_PER_S))

    def _identify(self, context: Context, peer: str) -> Identity:
        """Returns the caller's identity: by its token if there is one, else its certificate, else the unix socket."""
        identities = self._identities.value
        if values := [value for key, value in context.invocation_metadata() if key == AUTHORIZATION]:
            scheme, _, token = str(values[0]).partition(" ")
            if len(values) > 1 or scheme.lower() != "bearer" or not token:
                raise NotAuthenticatedError("the metadata 'authorization' is no bearer token", remedy=_REMEDY)
            identity = identities.of_token(token.strip().encode())
            if identity is None:
                raise NotAuthenticatedError("the token is not known", remedy=_REMEDY)
            return identity
        if address_of(peer) == UNIX:
            if identities.of_unix_sockets is None:
                raise NotAuthenticatedError("the call has no token", remedy=_REMEDY)
            return identities.of_unix_sockets
        properties: Any = context.auth_context()
        names = [(kind, value) for name, kind in _PROPERTIES for value in properties.get(name, ())]
        if not names:
            raise NotAuthenticatedError("the call has neither token nor certificate", remedy=_REMEDY_CERTIFICATE)
        found = identities.of_sans(names)
        if len(found) != 1:
            problem = "the certificate names several identities" if found else "no name in the certificate is known"
            raise NotAuthenticatedError(problem, remedy=_REMEDY_CERTIFICATE)
        return found.pop()
