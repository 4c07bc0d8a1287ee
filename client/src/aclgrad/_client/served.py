"""What the server of a client serves: which of two operators for one gradient, and by which product's rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError, OperatorNotSupportedError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.validation import check_call
from aclgrad.products import Product
from aclgrad.tensors import TensorType, TensorView
from aclgrad.wire.messages import AttributeValue, OperatorCall

MAX_POOL2D: Final = ("max_pool2d_with_mask_backward", "max_pool2d_with_indices_backward")
"""Two operators for one gradient, with the same arguments. A product has one or both; the first takes more dtypes."""

REFUSALS: Final = (InvalidFieldError, OperatorNotSupportedError)
"""What `Served.check` raises."""


@dataclass(frozen=True, slots=True)
class Served:
    """The operators that the server lists, and its product; None if the server does not tell a known one."""

    operators: frozenset[str]
    product: Product | None

    def operator(self, name: str) -> str:
        """Returns the operator, or of the two for max pooling one that the server lists."""
        if name not in MAX_POOL2D:
            return name
        return next((each for each in MAX_POOL2D if each in self.operators), name)

    def check(self, name: str, inputs: Mapping[str, TensorType], attributes: Mapping[str, AttributeValue]) -> None:
        """Raises one of REFUSALS for a call that the server would refuse, as far as types and attributes tell.

        If the product is not known, a call is refused that every product refuses.
        """
        if name not in self.operators:
            problem = f"operator {name} is not served"
            raise OperatorNotSupportedError(problem, field="operator", remedy="use a server that lists it")
        spec = OPERATORS[name]
        views = tuple(TensorView(each, type) for each, type in inputs.items())
        error: InvalidFieldError | None = None
        for product in (self.product,) if self.product else spec.products:
            try:
                check_call(OperatorCall(name, views, dict(attributes)), spec, product)
            except InvalidFieldError as violated:
                error = violated
            else:
                return
        if error is not None:
            raise error


_served: Final[WeakKeyDictionary[Client, Served]] = WeakKeyDictionary()


def served_by(client: Client) -> Served:
    """Returns what the client's server serves; asks it at the first time."""
    served = _served.get(client)
    if served is None:
        names = frozenset(each.name for each in client.list_operators())
        served = _served[client] = Served(names, _product_of(client))
    return served


def _product_of(client: Client) -> Product | None:
    # A newer server may have a product that this client does not know.
    name = client.server_status().product
    return next((product for product in Product if product == name), None)


def served_operator(operator: str, client: Client) -> str:
    """Returns the operator, or of the two for max pooling one that the client's server lists."""
    return served_by(client).operator(operator) if operator in MAX_POOL2D else operator
