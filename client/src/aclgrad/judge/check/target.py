"""The server to check, by its own description, and the sample calls, which have fixed seeds."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import aclgrad
from aclgrad._client.channel.servers import SERVICE_CONFIG
from aclgrad._client.settings.environment import unless_set
from aclgrad._client.sync.client import Client
from aclgrad.descriptions.operators import OperatorDescription
from aclgrad.descriptions.status import ServerStatus
from aclgrad.judge.findings.rows import Finding, Origin, Task
from aclgrad.operators.cases import TypedCase, served_dtypes, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.samples import PLANES, Arrays
from aclgrad.operators.spec import list_of
from aclgrad.products import Product

CONNECT_TIMEOUT_S: Final = 5.0
_PATTERN: Final = 0xCB
"""A byte pattern that is neither zero nor NaN nor a likely value in any dtype."""
_QUICK_BYTES: Final = 2**16


class CheckError(ValueError):
    """The check cannot be made as asked; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """One server. `client` calls it like programs; `sender` sends every array, and shapes only on request."""

    origin: Origin
    product: Product
    status: ServerStatus
    described: Mapping[str, OperatorDescription]
    client: Client
    sender: Client

    @property
    def executor_cache(self) -> bool:
        return self.status.executor_cache

    @property
    def unknown_operators(self) -> list[str]:
        """The server's operators that this client does not know."""
        return sorted(set(self.described) - set(OPERATORS))

    @property
    def expected_operators(self) -> list[str]:
        """The operators that the product has."""
        return sorted(name for name, spec in OPERATORS.items() if self.product in spec.products)

    @property
    def turned_off(self) -> list[str]:
        """The operators that failed the server's self-test, each with the dtypes that are refused unless all are."""
        return [
            f"{each.name} ({', '.join(each.data_types)})" if each.data_types else each.name
            for each in self.status.turned_off_operators
        ]

    def why_off(self, operator: str, dtype: str | None = None) -> str:
        """Returns why the server refuses an operator of its product, with this dtype or at all; empty if it does not.

        It then lists neither.
        """
        return "; ".join(
            each.reason
            for each in self.status.turned_off_operators
            if each.name == operator and (dtype is None or not each.data_types or dtype in each.data_types)
        )

    def cases(self) -> Iterator[TypedCase]:
        """Yields the sample calls that the server takes, in the same order at every run."""
        return filter(self.serves, typed_cases(self.product))

    def serves(self, typed: TypedCase) -> bool:
        """Returns whether the server lists the operator with the dtypes of the call."""
        described = self.described.get(typed.spec.name)
        if described is None:
            return False
        taken = {input.name: input.dtypes for input in described.inputs}
        types = typed.arguments.inputs
        return all(type.dtype in taken.get(name, taken.get(list_of(name), ())) for name, type in types.items())

    def takes_shape(self, operator: str, input: str) -> bool:
        """Returns whether the server takes the shape of this input instead of its values."""
        return any(each.shape_only for each in self.described[operator].inputs if each.name == input)

    def missing_dtypes(self, operator: str) -> list[str]:
        """The product's dtypes of a listed operator that the server does not list."""
        spec = OPERATORS[operator]
        inputs = (each for each in self.described[operator].inputs if each.name == spec.leading_input.name)
        listed = {dtype.name for each in inputs for dtype in each.dtypes}
        return [dtype for dtype in spec.dtypes_on(self.product) if dtype not in listed]

    def unknown_dtypes(self, operator: str) -> list[int]:
        """The numbers of an operator's dtypes that the server lists and this client does not know."""
        return sorted({number for input in self.described[operator].inputs for number in input.unknown_dtypes})


@contextmanager
def open_target(address: str, timeout_s: float) -> Iterator[Target]:
    """Yields the server; raises CheckError for an unknown product, and an AclgradError without an answer."""
    settings: dict[str, Any] = {
        "target": address,
        "timeout_s": timeout_s,
        # Without its siblings, because one server's results are compared with its own status.
        "channel_options": [(SERVICE_CONFIG, "{}")],
        **unless_set(connect_timeout_s=CONNECT_TIMEOUT_S),
    }
    with Client.from_env(**settings) as client, Client.from_env(**settings, shape_only=False) as sender:
        status = client.server_status()
        described = {each.name: each for each in client.list_operators()}
        origin = Origin.of(address, status)
        yield Target(origin, _product(status), status, described, client, sender)


def _product(status: ServerStatus) -> Product:
    try:
        return Product(status.product)
    except ValueError:
        known = ", ".join(Product)
        raise CheckError(
            f"the server's product {status.product!r} is not known to aclgrad {aclgrad.__version__}, which knows "
            f"{known}; upgrade aclgrad to the server's version {status.version}"
        ) from None


SIZES: Final = tuple(PLANES)[:-1]
"""The sizes of timed calls. The definitions would take minutes for the largest."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The sample calls of one server. `is_quick` leaves out large calls, and most of the dtypes after the first."""

    target: Target
    is_quick: bool

    def all(self) -> Iterator[TypedCase]:
        """Yields every case with every dtype; the quick form has small calls, and two cases of each further dtype."""
        counts: dict[tuple[str, str], int] = {}
        for typed in self.target.cases():
            key = (typed.spec.name, typed.dtype)
            counts[key] = counts.get(key, 0) + 1
            if not self.is_quick or (_is_small(typed) and (_is_first_dtype(self.target, typed) or counts[key] <= 2)):
                yield typed

    def named(self) -> Iterator[tuple[str, TypedCase]]:
        """Yields every case under its name, and unless the form is quick a larger call of each operator."""
        yield from ((typed.case.name, typed) for typed in self.all())
        if not self.is_quick:
            yield from self.timed("6 MB")

    def of_first_dtype(self) -> Iterator[TypedCase]:
        """Yields the cases with the first dtype of their operator, and the first case with each other dtype."""
        seen: set[tuple[str, str]] = set()
        for typed in self.all():
            key = (typed.spec.name, typed.dtype)
            if _is_first_dtype(self.target, typed) or key not in seen:
                yield typed
            seen.add(key)

    def timed(self, *sizes: str) -> Iterator[tuple[str, TypedCase]]:
        """Yields the calls of these sizes, with the first dtype of their operator."""
        specs = {typed.spec.name: typed.spec for typed in self.target.cases()}
        for spec in specs.values():
            for size in sizes:
                case = samples_of(spec.name).timed[size]
                for dtype in served_dtypes(spec, case, self.target.product)[:1]:
                    typed = TypedCase(spec, case, dtype)
                    if self.target.serves(typed):
                        yield size, typed


def task(target: Target, check: str, typed: TypedCase, judge: Callable[[], Finding], case: str = "") -> Task:
    """Returns the task about one call."""
    return Task(target.origin, check, typed.spec.name, typed.dtype, _shape(typed), case or typed.case.name, judge)


def free_inputs(target: Target, typed: TypedCase) -> list[str]:
    """Returns the names of the inputs that may have any values."""
    types = typed.arguments.inputs
    given = [input for input in typed.spec.inputs if input.name in types and types[input.name].dtype.name != "bool"]
    return [input.name for input in given if input.values(typed.arguments, target.product) is None]


def patterned(arrays: Arrays, names: list[str]) -> Arrays:
    """Returns the arrays, the named ones filled with a pattern of bytes."""
    filled = {name: arrays[name].copy() for name in names}
    for array in filled.values():
        array.reshape(-1).view("u1")[...] = _PATTERN
    return {**arrays, **filled}


def _shape(typed: TypedCase) -> tuple[int, ...]:
    return next(iter(typed.outputs.values())).shape


def _is_first_dtype(target: Target, typed: TypedCase) -> bool:
    return typed.dtype == typed.spec.dtypes_on(target.product)[0]


def _is_small(typed: TypedCase) -> bool:
    return max(math.prod(shape) for shape in typed.case.shapes.values()) <= _QUICK_BYTES
