"""The gradients that the kernels are timed on: the operators' own timed cases, as our call and as PyTorch's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np
import torch

from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import samples_of
from aclgrad.operators.values import ArgmaxRule, IndexRule
from aclgrad.products import Product
from tools.abi.acl import DATA_TYPES, Format, Library

Array = np.ndarray[Any, Any]

PRODUCT: Final = Product.ATLAS_A2
"""The default product of the host library."""
DTYPES: Final = ("float32", "float16", "bfloat16")
LINE_BYTES: Final = 64


def timed_cases(operator: str, size: str) -> Iterator[TypedCase]:
    """Yields the operator's case of this size with each of the timed types that it has."""
    spec = OPERATORS[operator]
    for dtype in DTYPES:
        if dtype in spec.inputs[0].dtypes[PRODUCT]:
            yield TypedCase(spec, samples_of(operator).timed[size], dtype)


class Contest:
    """One case, ready to be computed by us and by PyTorch."""

    def __init__(self, typed: TypedCase) -> None:
        self.typed = typed
        self._unread = {each.name for each in typed.spec.inputs if each.unread_on is not None}
        self.read = {name: array for name, array in typed.arrays().items() if name not in self._unread}
        output = typed.spec.output.infer(typed.arguments)
        self.out = np.empty(output.shape, output.dtype.numpy)
        self._rules = {each.name: each.values(typed.arguments, PRODUCT) for each in typed.spec.inputs}
        self._tensors = {name: as_tensor(array) for name, array in self.read.items()}
        for name in self._unread:
            self._tensors[name] = torch.empty(typed.case.shapes[name], dtype=self._tensors["grad_output"].dtype)

    @property
    def gathered(self) -> str | None:
        """The input whose values are gathered by index, if there is one."""
        return "grad_output" if any(isinstance(rule, IndexRule) for rule in self._rules.values()) else None

    @property
    def moved_bytes(self) -> int:
        """The bytes that must be read and written once; for a gather without the gathered input."""
        read = sum(array.nbytes for name, array in self.read.items() if name != self.gathered)
        return read + self.out.nbytes

    def touched_lines(self) -> Array | None:
        """The numbers of the cache lines that a gather must touch, in its order; None for other operators."""
        if self.gathered is None:
            return None
        (name, bound) = next((name, rule.bound) for name, rule in self._rules.items() if isinstance(rule, IndexRule))
        source, indices = self.read[self.gathered], self.read[name]
        planes = np.arange(source.size // bound).reshape(-1, 1) * bound
        lines = ((indices.reshape(len(planes), -1) + planes) * source.itemsize // LINE_BYTES).reshape(-1)
        return lines[np.diff(lines, prepend=-1) != 0]  # a line that was just touched costs no more time

    def run_rival(self) -> torch.Tensor:
        gradient: torch.Tensor = samples_of(self.typed.spec.name).pytorch(self._tensors, self.typed.attributes)
        return gradient

    def prepare(self, acl: Library, stack: ExitStack) -> Callable[[], None]:
        """Returns our call: phase 2 of a repeatable executor, on the arrays as they are, and the wait for its end."""
        spec = self.typed.spec
        inputs = [stack.enter_context(self._describe(acl, each.name)) for each in spec.inputs]
        given = [self.typed.attributes[each.name] for each in spec.attributes]
        rest = [stack.enter_context(acl.int_array(each)) if isinstance(each, tuple) else each for each in given]
        out = stack.enter_context(describe(acl, self.out, self.out.shape))
        size, executor = acl.plan(spec.symbol, *inputs, *rest, out)
        acl.call("aclSetAclOpExecutorRepeatable", executor)
        stack.callback(acl.call, "aclDestroyAclOpExecutor", executor)
        workspace = stack.enter_context(acl.buffer(size)) if size else None
        launch, wait = getattr(acl, spec.symbol), acl.aclrtSynchronizeStream

        def run() -> None:
            if launch(workspace, size, executor, None) != 0 or wait(None) != 0:
                raise RuntimeError(acl.message())

        return run

    def _describe(self, acl: Library, name: str) -> Any:
        shape = self.typed.case.shapes[name]
        if name in self._unread:
            return describe(acl, self.out, shape)
        array = self.read[name]
        if isinstance(self._rules[name], ArgmaxRule):
            # A mask of just the bytes that are read; the documented buffer is larger.
            return describe(acl, array.view(np.int8), (*shape[:2], 1, array.nbytes // prod(shape[:2])))
        return describe(acl, array, shape)


def describe(acl: Library, array: Array, shape: tuple[int, ...]) -> Any:
    format_ = Format.ND if len(shape) == 2 else Format.NCHW
    return acl.describe(shape, DATA_TYPES[array.dtype], address=array.ctypes.data, format_=format_)


def as_tensor(array: Array) -> torch.Tensor:
    """Shares the memory, except for indices, which PyTorch needs in 64 bits."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array.astype(np.int64) if array.dtype.kind == "i" else array)
