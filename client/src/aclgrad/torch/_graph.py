"""The backward passes of a block, from autograd's graph: each node counts once, for the block that saw its creation.

While the block is open, calls of functions label the nodes that they create: the function, its layer, and why its
gradient is not the server's. When the graph is walked, each label is noted in its block's account. Nodes without a
label, such as TorchScript's, go by their own names.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType
from typing import Any, Final
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import functional

from aclgrad.torch._account import Account, CallSite, layer_of
from aclgrad.torch._flops import flops_of
from aclgrad.torch._nodes import Kind, base_of, kernel_of, kind_of, own_call_site

BACKWARD: Final = (Tensor.backward, torch.autograd.backward, torch.autograd.grad)
UNSEEN: Final = "TorchScript, or code outside of the block, has called it"
_DERIVED: Final = {each.__name__ for each in BACKWARD}
_RECURRENT: Final = {f"{rule}{cell}" for rule in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell")}
_NAMED: Final = {name for name, each in vars(functional).items() if callable(each)} | _RECURRENT
"""Functions whose names say more than those of their kernels."""
_LABEL: Final = "aclgrad"
_WALKED: Final = ()
_LEAF: Final = 2**64 - 1
_LOCK: Final = threading.Lock()


def nodes_made() -> int:
    """Returns how many nodes this thread has created."""
    count: int = torch._C._autograd._get_sequence_nr()  # noqa: SLF001 - PyTorch has no other count
    return count


def missing(function: str) -> str:
    """Returns the reason of a function that has no row."""
    return f"there is no operator for {function}"


class Graph:
    """The graphs of a block's results.

    `rows` are the names of the functions that the block replaces. `opaque` has, by name, the reasons why nodes that run
    other nodes' backward passes count as calls.
    """

    def __init__(self, account: Account, rows: Iterable[str], opaque: Mapping[str, str] | None = None) -> None:
        self.account = account
        self._rows = frozenset(rows)
        self._opaque = opaque or {}
        # By kernel, its derivatives' included, of the last call of a row that stayed local.
        self._reasons: dict[str, str] = {}
        # Weakly, so that the block keeps no graph alive.
        self._results: WeakValueDictionary[int, Tensor] = WeakValueDictionary()

    def label(
        self, result: Any, since: int, function: str, frame: FrameType, because: str | None = None, *, is_row: bool
    ) -> list[CallSite]:
        """Labels the nodes that a call has added to the graph, and returns the labels.

        `since` is the number of earlier nodes, and `because` why a row of the block stayed local.
        """
        results = list(_flat(result))
        for each in results:
            self._results[id(each)] = each
        nodes = _made(results, since)
        kinds = {node: kind_of(node) for node in nodes}
        labelled = [node for node in nodes if self._is_call(node, kinds[node])]
        function = function.strip("_")
        is_one = because is not None or (function in _NAMED and not is_row)
        if is_one and not labelled:
            labelled = [node for node in nodes if kinds[node] is Kind.ARITHMETIC]
        if because is not None and not labelled:
            labelled = nodes[:1]  # a pad by copies
        layer = layer_of(frame) if labelled else ""
        sites = []
        for node in labelled:
            if because is not None:
                self._reasons[_derived_from(kernel_of(node))] = because
            if is_one:
                site = own_call_site(node) or CallSite(function, layer, because or missing(function))
            else:
                site = self._call_site(node, layer, function)
            node.metadata[_LABEL] = (self.account, site)
            sites.append(site)
        return sites

    def walk(self, tensors: Any = None) -> None:
        """Notes the backward passes of these tensors, by default of all living results."""
        if tensors is None:
            tensors = [each for reference in self._results.valuerefs() if (each := reference()) is not None]
        with _LOCK:
            for node in _behind(_flat(tensors)):
                self._note(node)

    def _note(self, node: Node) -> None:
        account, site = node.metadata.get(_LABEL) or (self.account, None)
        node.metadata[_LABEL] = _WALKED
        kind = kind_of(node)
        if site is not None or self._is_call(node, kind):
            account.note(site or self._call_site(node), node.name(), flops_of(node))
        elif kind is Kind.ARITHMETIC:
            account.note_arithmetic()

    def _is_call(self, node: Node, kind: Kind) -> bool:
        return kind is Kind.KERNEL or (kind is Kind.CONTAINER and base_of(node) in self._opaque)

    def _call_site(self, node: Node, layer: str = "", function: str = "") -> CallSite:
        if kind_of(node) is Kind.CONTAINER:
            return CallSite(base_of(node), layer, self._opaque[base_of(node)])
        name, unseen = kernel_of(node), UNSEEN
        if function in _DERIVED:
            unseen = self._reasons.get(_derived_from(name), UNSEEN)
        elif name in self._rows and function and function not in self._rows:
            name = function  # which consists of it
        return own_call_site(node) or CallSite(name, layer, unseen if name in self._rows else missing(name))


def _derived_from(kernel: str) -> str:
    """Returns a name that a kernel shares with the kernels of its derivatives."""
    return "matmul" if kernel == "linear" else kernel


def _flat(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        if values.requires_grad:
            yield values
    elif isinstance(values, tuple | list):
        for each in values:
            yield from _flat(each)


def _made(results: list[Tensor], since: int) -> list[Node]:
    """Returns the nodes of the results' graph that this thread has created since then."""
    nodes = [each.grad_fn for each in results if each.grad_fn is not None]
    if nodes_made() == since + 1:
        return nodes[:1]  # directly, as for most calls
    made = dict.fromkeys(nodes)
    waiting = list(made)
    while waiting:
        for following, _ in waiting.pop().next_functions:
            # Leaves have the largest number.
            if following is not None and since <= following._sequence_nr() < _LEAF and following not in made:  # noqa: SLF001
                made[following] = None
                waiting.append(following)
    return list(made)


def _behind(tensors: Iterable[Tensor]) -> Iterator[Node]:
    """Yields the nodes of the tensors' graph, except those that were walked before."""
    seen = {each.grad_fn for each in tensors if each.grad_fn is not None}
    waiting = list(seen)
    while waiting:
        node = waiting.pop()
        if node.metadata.get(_LABEL) == _WALKED:
            continue
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
