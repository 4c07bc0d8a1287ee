"""The gradients that the kernels are timed on: the operators' own timed cases, as our call and as PyTorch's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np
import torch

from aclgrad.operators.cases import TypedCase, arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.operators.spec import OperatorSpec
from aclgrad.operators.values import ArgmaxRule
from aclgrad.products import Product
from aclgrad.tensors import DType
from tools.abi.acl import DATA_TYPES, DataType, Format, Library, Scalar
from tools.abi.prototypes import read_prototypes

Array = np.ndarray[Any, Any]

PRODUCT: Final = Product.ATLAS_A2
"""The default product of the host library."""
DTYPES: Final = ("float32", "float16", "bfloat16")


def timed_cases(operator: str, size: str) -> Iterator[TypedCase]:
    """Yields the operator's case of this size with each of the timed types that it has."""
    spec = OPERATORS[operator]
    for dtype in DTYPES:
        if dtype in spec.dtypes_on(PRODUCT):
            yield TypedCase(spec, samples_of(operator).timed[size], dtype)


class Contest:
    """One case, ready to be computed by us and by PyTorch."""

    def __init__(self, typed: TypedCase) -> None:
        self.typed = typed
        self._unread = {each.name for each in typed.spec.inputs if each.unread_on is not None}
        self.read = {name: array for name, array in typed.arrays().items() if name not in self._unread}
        types = [each.infer(typed.arguments) for each in typed.spec.outputs]
        self.outs = [np.empty(type.shape, type.dtype.numpy) for type in types]
        given = typed.case.shapes
        self._rules = {
            each.name: each.values(typed.arguments, PRODUCT) for each in typed.spec.inputs if each.name in given
        }
        self._tensors = {name: as_tensor(array) for name, array in self.read.items()}
        for name in self._unread & set(given):
            self._tensors[name] = torch.empty(given[name], dtype=self._tensors["grad_output"].dtype)

    @property
    def moved_bytes(self) -> int:
        """The bytes that must be read and written once."""
        return sum(each.nbytes for each in (*self.read.values(), *self.outs))

    def run_rival(self) -> tuple[torch.Tensor, ...]:
        return self._run_pytorch(self._tensors)

    def run_wide_rival(self) -> tuple[torch.Tensor, ...]:
        """Returns PyTorch's results of the same values in float32 at least: it rounds 16 bits after each addition."""
        halves = (torch.float16, torch.bfloat16)
        return self._run_pytorch(
            {name: each.float() if each.dtype in halves else each for name, each in self._tensors.items()}
        )

    def _run_pytorch(self, tensors: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return arrays_of(samples_of(self.typed.spec.name).pytorch(tensors, self.typed.attributes))

    def prepare(self, acl: Library, stack: ExitStack) -> Callable[[], None]:
        """Returns our call: phase 2 of a repeatable executor, on the arrays as they are, and the wait for its end."""
        spec = self.typed.spec
        given = [stack.enter_context(each) for each in self._arguments(acl)]
        size, executor = acl.plan(spec.symbol, *given)
        acl.call("aclSetAclOpExecutorRepeatable", executor)
        stack.callback(acl.call, "aclDestroyAclOpExecutor", executor)
        workspace = stack.enter_context(acl.buffer(size)) if size else None
        launch, wait = getattr(acl, spec.symbol), acl.aclrtSynchronizeStream

        def run() -> None:
            if launch(workspace, size, executor, None) != 0 or wait(None) != 0:
                raise RuntimeError(acl.message())

        return run

    def _arguments(self, acl: Library) -> Iterator[Any]:
        """Yields the arguments of phase 1, each kind in the operator's order."""
        spec, arguments, listed = self.typed.spec, self.typed.arguments, list[Array | None](self.outs)
        for place in spec.null_outputs:
            listed.insert(place, None)
        passed = (each.given(arguments, PRODUCT) for each in spec.attributes)
        values = iter(spec.passes(arguments, PRODUCT) if spec.passes else passed)
        inputs, outs = iter(spec.taken_of(arguments.inputs)), iter(listed)
        for kind in parameters_of(spec):
            if kind == "aclBoolArray":
                yield acl.value((True,) * len(self.outs))
            elif kind != "aclTensor":
                given = next(values)
                value = DataType(given.acl) if isinstance(given, DType) else given
                yield acl.value(Scalar(value) if kind == "aclScalar" else value)
            elif (input := next(inputs, None)) is not None:
                yield self._describe(acl, input.name) if input.name in self._rules else nullcontext()
            else:
                out = next(outs)
                yield nullcontext() if out is None else self._tensor(acl, out, out.shape)

    def _describe(self, acl: Library, name: str) -> Any:
        shape = self.typed.case.shapes[name]
        if name in self._unread:
            return self._tensor(acl, self.outs[0], shape)
        array = self.read[name]
        if isinstance(self._rules[name], ArgmaxRule):
            # A mask of just the bytes that are read; the documented buffer is larger.
            return self._tensor(acl, array.view(np.int8), (*shape[:2], 1, array.nbytes // prod(shape[:2])))
        return self._tensor(acl, array, shape)

    def _tensor(self, acl: Library, array: Array, shape: tuple[int, ...]) -> Any:
        format_ = Format.ND if len(shape) == 2 or not self.typed.spec.is_spatial else Format.NCHW
        return acl.describe(shape, DATA_TYPES[array.dtype], address=array.ctypes.data, format_=format_)


def parameters_of(spec: OperatorSpec) -> tuple[str, ...]:
    """Returns the types of phase 1's parameters, without the workspace's size and the executor."""
    return read_prototypes()[f"{spec.symbol}GetWorkspaceSize"].declared[:-2]


def as_tensor(array: Array) -> torch.Tensor:
    """Shares the memory, except for indices, which PyTorch needs in 64 bits."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array.astype(np.int64) if array.dtype.kind == "i" else array)
