"""A thin ctypes wrapper: raw functions by name, and owning objects that release what they create."""

import ctypes
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np

from .prototypes import read_prototypes


class DataType(IntEnum):
    """aclDataType."""

    FLOAT = 0
    FLOAT16 = 1
    INT8 = 2
    INT32 = 3
    UINT8 = 4
    INT16 = 6
    UINT16 = 7
    INT64 = 9
    DOUBLE = 11
    BOOL = 12
    COMPLEX64 = 16
    COMPLEX128 = 17
    BF16 = 27


class Format(IntEnum):
    """aclFormat."""

    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    NCL = 47


DATA_TYPES = {
    np.dtype(np.float32): DataType.FLOAT,
    np.dtype(np.float16): DataType.FLOAT16,
    np.dtype(np.float64): DataType.DOUBLE,
    np.dtype(np.int8): DataType.INT8,
    np.dtype(np.uint8): DataType.UINT8,
    np.dtype(np.int16): DataType.INT16,
    np.dtype(np.int32): DataType.INT32,
    np.dtype(np.int64): DataType.INT64,
    np.dtype(np.complex64): DataType.COMPLEX64,
    np.dtype(np.complex128): DataType.COMPLEX128,
    np.dtype(ml_dtypes.bfloat16): DataType.BF16,
    np.dtype(np.bool_): DataType.BOOL,
}

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2

# The attributes of ctypes crash for a function that the strict library exports and its libraries lack (Python 3.11).
_dlsym = ctypes.CDLL(None).dlsym
_dlsym.restype, _dlsym.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)


class AclError(Exception):
    """A function returned a code other than 0."""

    def __init__(self, function: str, code: int, message: str) -> None:
        super().__init__(f"{function} returned {code}: {message}")
        self.code = code
        self.message = message


class Library:
    """The functions of a library, or of several that belong together, as attributes that return their code."""

    def __init__(self, paths: str, optional: Collection[str] = ()) -> None:
        """Opens the files, which stand in the form of PATH; the first that has a function is asked."""
        self._libraries = libraries = [ctypes.CDLL(path) for path in paths.split(os.pathsep)]
        for name, prototype in read_prototypes().items():
            found = [library for library in libraries if _dlsym(library._handle, name.encode())]  # noqa: SLF001
            if not found and name in optional:
                continue
            if not found:
                raise AttributeError(f"{paths} has no {name}")
            function = getattr(found[0], name)
            function.restype = prototype.result
            function.argtypes = prototype.arguments
            setattr(self, name, function)

    def undeclared(self, name: str) -> Any:
        """Returns a function that our headers do not declare, without types, or None if no file has it."""
        having = (library for library in self._libraries if _dlsym(library._handle, name.encode()))  # noqa: SLF001
        return next((getattr(library, name) for library in having), None)

    def message(self) -> str:
        """Returns and clears the thread's message."""
        return (self.aclGetRecentErrMsg() or b"").decode(errors="replace")

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function that must succeed."""
        self.expect(name, getattr(self, name)(*arguments))

    def expect(self, name: str, code: int) -> None:
        """Raises AclError unless the function's code is that of success."""
        if code != 0:
            raise AclError(name, code, self.message())

    def create(self, name: str, *arguments: object) -> ctypes.c_void_p:
        """Calls a function whose first parameter receives a handle or an address."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    @contextmanager
    def stream(self) -> Iterator[ctypes.c_void_p]:
        handle = self.create("aclrtCreateStream")
        try:
            yield handle
        finally:
            self.call("aclrtDestroyStream", handle)

    @contextmanager
    def event(self) -> Iterator[ctypes.c_void_p]:
        handle = self.create("aclrtCreateEvent")
        try:
            yield handle
        finally:
            self.call("aclrtDestroyEvent", handle)

    @contextmanager
    def buffer(self, size_bytes: int) -> Iterator[int]:
        """Yields the address of device memory."""
        address = self.create("aclrtMalloc", size_bytes, 0)
        try:
            yield address.value
        finally:
            self.call("aclrtFree", address)

    def upload(self, address: int, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array)
        if array.nbytes:
            self.call("aclrtMemcpy", address, array.nbytes, array.ctypes.data, array.nbytes, HOST_TO_DEVICE)

    def download(self, address: int, array: np.ndarray) -> np.ndarray:
        if array.nbytes:
            self.call("aclrtMemcpy", array.ctypes.data, array.nbytes, address, array.nbytes, DEVICE_TO_HOST)
        return array

    @contextmanager
    def describe(
        self,
        shape: tuple[int, ...],
        data_type: DataType = DataType.FLOAT,
        *,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        format_: Format = Format.NCHW,
        storage: tuple[int, ...] | None = None,
        address: int | None = None,
    ) -> Iterator[ctypes.c_void_p]:
        """Yields an aclTensor."""
        handle = self.create_tensor(
            shape, data_type, strides=strides, offset=offset, format_=format_, storage=storage, address=address
        )
        try:
            yield handle
        finally:
            self.call("aclDestroyTensor", handle)

    def create_tensor(
        self,
        shape: tuple[int, ...],
        data_type: DataType = DataType.FLOAT,
        *,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        format_: Format = Format.NCHW,
        storage: tuple[int, ...] | None = None,
        address: int | None = None,
    ) -> ctypes.c_void_p:
        """Returns an aclTensor, which the caller destroys or gives to a list."""
        storage = shape if storage is None else storage
        handle = self.aclCreateTensor(
            int64s(shape), len(shape), data_type, None if strides is None else int64s(strides), offset, format_,
            int64s(storage), len(storage), address,
        )  # fmt: skip
        assert handle, self.message()
        return ctypes.c_void_p(handle)

    @contextmanager
    def tensor_list(self, tensors: Sequence[ctypes.c_void_p | None]) -> Iterator[ctypes.c_void_p]:
        """Yields an aclTensorList, which destroys the tensors at the end."""
        handle = self.aclCreateTensorList((ctypes.c_void_p * len(tensors))(*tensors), len(tensors))
        assert handle, self.message()
        try:
            yield ctypes.c_void_p(handle)
        finally:
            self.call("aclDestroyTensorList", handle)

    @contextmanager
    def int_array(self, values: tuple[int, ...]) -> Iterator[ctypes.c_void_p]:
        """Yields an aclIntArray."""
        handle = self.aclCreateIntArray(int64s(values), len(values))
        assert handle, self.message()
        try:
            yield ctypes.c_void_p(handle)
        finally:
            self.call("aclDestroyIntArray", handle)

    @contextmanager
    def bool_array(self, values: tuple[bool, ...]) -> Iterator[ctypes.c_void_p]:
        """Yields an aclBoolArray."""
        handle = self.aclCreateBoolArray((ctypes.c_bool * len(values))(*values), len(values))
        assert handle, self.message()
        try:
            yield ctypes.c_void_p(handle)
        finally:
            self.call("aclDestroyBoolArray", handle)

    @contextmanager
    def scalar(self, scalar: "Scalar") -> Iterator[ctypes.c_void_p]:
        """Yields an aclScalar."""
        element = np.array(scalar.value, scalar.dtype)
        handle = self.aclCreateScalar(element.ctypes.data, DATA_TYPES[element.dtype])
        assert handle, self.message()
        try:
            yield ctypes.c_void_p(handle)
        finally:
            self.call("aclDestroyScalar", handle)

    @contextmanager
    def value(self, value: object) -> Iterator[object]:
        """Yields an attribute as a function takes it: an array of bools or of integers for a tuple."""
        if isinstance(value, Scalar):
            with self.scalar(value) as handle:
                yield handle
            return
        if not isinstance(value, tuple):
            yield value.encode() if isinstance(value, str) else value
            return
        is_mask = value is NO_BOOLS or (bool(value) and all(isinstance(each, bool) for each in value))
        with self.bool_array(value) if is_mask else self.int_array(value) as handle:
            yield handle

    @contextmanager
    def tensor(
        self, storage: np.ndarray, view: np.ndarray | None = None, format_: Format = Format.NCHW
    ) -> Iterator["DeviceTensor"]:
        """Yields a device copy of a contiguous storage, seen as the given numpy view of it."""
        with self._uploaded(storage, view, format_) as tensor:
            try:
                yield tensor
            finally:
                self.call("aclDestroyTensor", tensor.handle)

    @contextmanager
    def list_of(self, views: Sequence[np.ndarray], format_: Format = Format.NCHW) -> Iterator[ctypes.c_void_p]:
        """Yields an aclTensorList of device copies of arrays, each a view of its base, which is contiguous."""
        with ExitStack() as stack:
            bases = [view if view.base is None else view.base for view in views]
            made = [stack.enter_context(self._uploaded(*each, format_)) for each in zip(bases, views, strict=True)]
            yield stack.enter_context(self.tensor_list([each.handle for each in made]))

    @contextmanager
    def _uploaded(self, storage: np.ndarray, view: np.ndarray | None, format_: Format) -> Iterator["DeviceTensor"]:
        """Yields a tensor that its caller destroys."""
        view = storage if view is None else view
        item = storage.itemsize
        with self.buffer(max(storage.nbytes, 1)) as address:
            self.upload(address, storage)
            handle = self.create_tensor(
                view.shape,
                DATA_TYPES[storage.dtype],
                strides=tuple(stride // item for stride in view.strides),
                offset=(view.ctypes.data - storage.ctypes.data) // item,
                format_=format_,
                storage=(storage.size,),
                address=address,
            )
            yield DeviceTensor(self, handle, address, storage)

    def run(self, name: str, *arguments: object, stream: object = None) -> None:
        """Runs both phases of an operator and waits for the result."""
        size, executor = self.plan(name, *arguments)
        if size == 0:
            self.call(name, None, 0, executor, stream)
            self.call("aclrtSynchronizeStream", stream)
            return
        with self.buffer(size) as workspace:
            self.call(name, workspace, size, executor, stream)
            self.call("aclrtSynchronizeStream", stream)

    def plan(self, name: str, *arguments: object) -> tuple[int, ctypes.c_void_p]:
        """Runs phase 1; returns the workspace size and the executor."""
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        self.call(f"{name}GetWorkspaceSize", *arguments, ctypes.byref(size), ctypes.byref(executor))
        return size.value, executor


@dataclass(frozen=True)
class Scalar:
    """The arguments of aclCreateScalar."""

    value: complex
    dtype: str = "float64"


class _NoBools(tuple[bool, ...]):
    __slots__ = ()


NO_BOOLS = _NoBools()
"""An empty array of bools; any other empty tuple is one of integers."""


class DeviceTensor:
    """An aclTensor, the device memory behind it and the host array that it was made from."""

    def __init__(self, library: Library, handle: ctypes.c_void_p, address: int, storage: np.ndarray) -> None:
        self._library = library
        self.handle = handle
        self.address = address
        self._storage = storage

    def read_storage(self) -> np.ndarray:
        """Returns the current content of the device memory."""
        return self._library.download(self.address, np.empty_like(self._storage))


def int64s(values: tuple[int, ...]) -> ctypes.Array:
    """An int64_t array."""
    return (ctypes.c_int64 * len(values))(*values)
