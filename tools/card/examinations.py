"""What is examined of a card: the rules that the runtime relies on, and the cost of calls."""

import ctypes
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import c_int32
from typing import Final

from aclgrad.judge.findings.rows import Finding
from tools.card.batch_norm import batch_norm
from tools.card.card import D2D, D2H, H2D, HUGE_FIRST, Card
from tools.card.findings import Found, fine, judged, noted

_SIZES: Final = (1, 2, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257)
_OFFSETS: Final = range(64)
_CHARGED: Final = {1: 64, 32: 64, 33: 64, 4096: 64, 2 * 2**20: 4, 20 * 2**20: 2}
"""Sizes, with the number of allocations: a device counts small ones by the page."""
_FLAGS: Final = {"plain": 0, "FAST_LAUNCH": 1, "FAST_SYNC": 2, "both flags": 3}
_REPEATS: Final = 200
_LARGE_BYTES: Final = 64 * 2**20
_QUEUED: Final = 64
_STREAM_LIMIT: Final = 4096
_TIMED_OUT: Final = 507046
_OUT_OF_MEMORY: Final = 207001
_NO_CONTEXT: Final = 107002
_NO_STREAM: Final = 207008
_REPEATED_INIT: Final = 100002
_ALONE: Final = "make sure that nobody else uses the device"


def charges(card: Card) -> Iterator[Found]:
    """The memory that allocations take from the device, and whether it is returned."""
    start, total = card.free_memory()
    yield "free", fine(f"{start / 2**20:.0f} of {total / 2**20:.0f} MiB", free_bytes=start, total_bytes=total)
    for size, count in _CHARGED.items():
        before, _ = card.free_memory()
        blocks = [card.make("aclrtMallocAlign32", size, HUGE_FIRST) for _ in range(count)]
        held, _ = card.free_memory()
        for block in blocks:
            card.call("aclrtFree", block)
        after, _ = card.free_memory()
        charge = (before - held) / count
        found = f"{charge:g} bytes each, of {count}"
        if after != before:
            found += f"; {before - after} bytes did not come back"
        yield f"charge of {size} bytes", judged(after >= before, found, _ALONE, charged_bytes=charge)


def waits(card: Card) -> Iterator[Found]:
    """The cost of waiting for a stream and of querying it."""
    for name, flags in _FLAGS.items():
        with card.stream_of(flags) as stream:
            state = c_int32()
            idle = _median_us(lambda: card.wait(stream))
            query = _median_us(lambda: card.call("aclrtStreamQuery", stream, ctypes.byref(state)))  # noqa: B023
        found = f"a wait takes {idle:.1f} us, a query {query:.1f} us"
        yield f"idle stream, {name}", fine(found, wait_us=idle, query_us=query)
    yield "wait that times out", _timed_out_wait(card)


def _timed_out_wait(card: Card) -> Finding:
    """Waits for 1 ms for work that takes longer, and then until it ends."""
    half = _LARGE_BYTES // 2
    with card.memory(_LARGE_BYTES) as block, card.stream_of(0) as stream:
        for _ in range(_QUEUED):
            card.call("aclrtMemcpyAsync", block, half, block + half, half, D2D, stream)
        begin = time.perf_counter()
        code = card.code("aclrtSynchronizeStreamWithTimeout", stream, 1)
        waited = time.perf_counter()
        card.message()
        told = time.perf_counter()
        card.wait(stream, 60_000)
    figures = {"wait_ms": (waited - begin) * 1e3, "text_us": (told - waited) * 1e6}
    found = f"code {code} after {figures['wait_ms']:.2f} ms, its text took {figures['text_us']:.0f} us"
    if code == 0:
        return noted(f"the work ended within 1 ms, so nothing was measured: {found}", **figures)
    return judged(code == _TIMED_OUT, found, f"expected {_TIMED_OUT}; report it with the CANN version", **figures)


def bandwidth(card: Card) -> Iterator[Found]:
    """The speed of copies: blocking ones from pinned and pageable memory, and asynchronous ones with their wait."""
    pageable = ctypes.create_string_buffer(_LARGE_BYTES)
    with card.memory(_LARGE_BYTES) as device, card.pinned(_LARGE_BYTES) as pinned, card.stream_of(0) as stream:

        def copy_asynchronously(target: int, source: int, size_bytes: int, kind: int) -> None:
            card.call("aclrtMemcpyAsync", target, size_bytes, source, size_bytes, kind, stream)
            card.wait(stream)

        kinds = {
            "pinned memory": (card.copy, pinned),
            "pageable memory": (card.copy, ctypes.addressof(pageable)),
            "pinned memory, asynchronous": (copy_asynchronously, pinned),
        }
        for name, (copy, host) in kinds.items():
            to_device, to_host = (
                _LARGE_BYTES / _median_us(lambda: copy(*arguments), repeats=5) / 1e3  # noqa: B023
                for arguments in ((device, host, _LARGE_BYTES, H2D), (host, device, _LARGE_BYTES, D2H))
            )
            figures = {"to_device_gb_per_s": to_device, "to_host_gb_per_s": to_host}
            yield name, fine(f"{to_device:.1f} GB/s in, {to_host:.1f} GB/s out", **figures)


def refusals(card: Card) -> Iterator[Found]:
    """Safe drills: each is refused with its code, and the next good call succeeds."""
    free, _ = card.free_memory()
    handle = ctypes.c_void_p()

    def allocate(size_bytes: int) -> Callable[[], int]:
        return lambda: card.code("aclrtMallocAlign32", ctypes.byref(handle), size_bytes, HUGE_FIRST)

    yield "no bytes", _drill(card, allocate(0), None)
    yield "more memory than there is", _drill(card, allocate(2 * free), _OUT_OF_MEMORY)
    yield "second aclInit", _drill(card, lambda: card.code("aclInit", None), _REPEATED_INIT)
    card.release()
    yield "thread without a device", _drill(card, lambda: _in_thread(allocate(64)), _NO_CONTEXT)
    streams: list[int] = []

    def use_up_streams() -> int:
        while len(streams) < _STREAM_LIMIT:
            if code := card.code("aclrtCreateStreamWithConfig", ctypes.byref(handle), 0, 0):
                return code
            streams.append(handle.value or 0)
        return 0

    code = use_up_streams()
    text = card.message()
    for stream in streams:
        card.call("aclrtDestroyStream", stream)
    found = f"code {code} after {len(streams)} streams: {text or 'no text'}"
    yield "too many streams", judged(code == _NO_STREAM, found, f"expected {_NO_STREAM}", streams=float(len(streams)))


def _drill(card: Card, misuse: Callable[[], int], expected: int | None) -> Finding:
    """Judges the code of a misuse (any code if none is expected), and the calls after it."""
    code = misuse()
    found = f"code {code}: {card.message() or 'no text'}"
    with card.memory(64):
        pass
    remedy = f"expected {expected or 'an error'}; report it with the CANN version"
    return judged(code == expected if expected else code != 0, found, remedy)


def copies(card: Card) -> Iterator[Found]:
    """Asynchronous copies at every offset within 64 bytes. They are last, because a card may fail after one of them."""
    for kind, direction in ((H2D, "host to device"), (D2H, "device to host")):
        for side in ("device", "host"):
            yield f"async {direction}, offset of the {side}", _copies(card, kind, is_device_moved=side == "device")


def _copies(card: Card, kind: int, *, is_device_moved: bool) -> Finding:
    room = _OFFSETS[-1] + _SIZES[-1]
    pattern = bytes(range(1, 252)) * 2
    wrong: list[tuple[int, int]] = []
    refused: dict[int, int] = {}
    with card.memory(room) as device, card.pinned(room) as host, card.stream_of(0) as stream:
        for offset in _OFFSETS:
            for size in _SIZES:
                # The source has the pattern, the target 0xFF, and nothing but the copied bytes may change.
                source, target = bytes(pattern[:room]), b"\xff" * room
                ctypes.memmove(host, source if kind == D2H else target, room)
                card.copy(device, host, room, H2D)
                ctypes.memmove(host, source if kind == H2D else target, room)
                at_device, at_host = (offset, 0) if is_device_moved else (0, offset)
                ends = (device + at_device, host + at_host)
                to, start = ends if kind == H2D else ends[::-1]
                if code := card.code("aclrtMemcpyAsync", to, size, start, size, kind, stream):
                    refused[code] = refused.get(code, 0) + 1
                    card.message()
                    continue
                card.wait(stream)
                if kind == H2D:
                    card.copy(host, device, room, D2H)
                first, second = (at_host, at_device) if kind == H2D else (at_device, at_host)
                expected = target[:second] + source[first : first + size] + target[second + size :]
                if ctypes.string_at(host, room) != expected:
                    wrong.append((offset, size))
    return _judged_copies(len(_OFFSETS) * len(_SIZES), wrong, refused)


def _judged_copies(count: int, wrong: list[tuple[int, int]], refused: dict[int, int]) -> Finding:
    figures = {"copies": float(count), "wrong": float(len(wrong)), "refused": float(sum(refused.values()))}
    aligned = [size for offset, size in wrong if offset == 0]
    if aligned:
        found = f"copies of {aligned} bytes between aligned addresses are wrong"
        return judged(False, found, "do not use this card with this CANN", **figures)
    if refused or wrong:
        return noted(
            f"unaligned ones are wrong {len(wrong)} times, refused {refused}; the server makes none", **figures
        )
    return fine(f"all {count} are right", **figures)


def _median_us(call: Callable[[], None], repeats: int = _REPEATS) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def _in_thread(call: Callable[[], int]) -> int:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(call()))
    thread.start()
    thread.join()
    return codes[0]


EXAMINATIONS: Final = (charges, waits, bandwidth, refusals, batch_norm, copies)
