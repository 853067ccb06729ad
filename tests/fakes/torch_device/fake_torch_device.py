"""A plug-in of torch as vendors have them: a device, its module and a backend of torch.distributed.

Tensors are in memory of a vendor's fake runtime (device.cpp, ``CCLMARK_FAKE_TORCH_DEVICE``: that
file built). Every device has one stream: a thread, on which collectives run, with gloo. Operations
of torch wait for it. ``CCLMARK_FAKE_TORCH``: a fault of the plug-in,

- ``corrupt``: rank 1's all_reduce returns a first element that is one too large,
- ``other-torch``: built for another torch,
- ``no-event-times``: events measure no times,
- ``wrong-product``: the first element of a matrix product is one too large.
"""

import contextlib
import ctypes
import os
import queue
import threading
import time
import types

import torch
import torch.distributed as dist

_WITHOUT_EXTERNAL = ("npu",)  # as in most releases of torch_npu
_FAULT = os.environ.get("CCLMARK_FAKE_TORCH", "")


class _Stream:
    """What was entered, in order, on a thread; messages in turn run at the same time."""

    def __init__(self, library):
        self._library = library
        self._queue = queue.SimpleQueue()
        self._error = None
        threading.Thread(target=self._run, daemon=True).start()

    # Streams and events that torch makes are this stream, which has an order.
    def wait_stream(self, stream):
        pass

    def wait_event(self, event):
        pass

    def record_event(self, event=None):
        return event

    def enter(self, work, is_message=False):
        """``work`` returns what waits for its end, or None."""
        self._library.fake_enter()
        self._queue.put((work, is_message))

    def synchronize(self):
        self._library.fake_synchronize()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self):
        messages = []
        while True:
            work, is_message = self._queue.get()
            if not is_message:
                while messages:
                    messages.pop().join()
            end = self._guarded(work) if self._error is None else None
            del work
            if is_message:
                messages.append(threading.Thread(target=self._end, args=(end,), daemon=True))
                messages[-1].start()
            else:
                self._end(end)
            del end

    def _end(self, wait):
        if wait is not None:
            self._guarded(wait)
        del wait
        self._library.fake_leave()

    def _guarded(self, function):
        try:
            return function()
        except Exception as error:
            self._error = error


def _external_streams(name):
    """Operations of torch are done when they return, so that they need no stream."""
    if name in _WITHOUT_EXTERNAL:
        return {}
    return {
        "ExternalStream": lambda pointer, device=None: pointer,
        "set_stream": lambda stream: None,
    }


def _event_of(stream):
    class Event:
        def __init__(self, enable_timing=False):
            self._times = enable_timing
            self._at_s = 0.0

        def record(self, stream_=None):
            stream.enter(self._note)

        def wait(self, stream_=None):
            pass

        def synchronize(self):
            stream.synchronize()

        def elapsed_time(self, end):
            if not self._times or _FAULT == "no-event-times":
                raise RuntimeError("events of this device measure no time")
            return (end._at_s - self._at_s) * 1e3

        def _note(self):
            self._at_s = time.perf_counter()

    return Event


def _device_type():
    return torch._C._get_privateuse1_backend_name()


class _Group(dist.ProcessGroup):
    """gloo on a stream, in the memory of the device."""

    def __init__(self, name, stream, store, rank, size, timeout):
        super().__init__(rank, size)
        self._name = name
        self._stream = stream
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._number = rank

    def getBackendName(self):  # noqa: N802 - torch calls it
        return self._name

    # torch reads the name of a group from its backends, of which this one has none.
    def _set_group_name(self, name):
        self._group_name = name

    @property
    def group_name(self):
        return self._group_name

    @property
    def _device_types(self):
        return [torch.device(_device_type())]

    def _get_backend(self, device):
        return types.SimpleNamespace(supports_splitting=False)

    def _run(self, operation, *arguments):
        """Enters gloo's operation: a handle of a device is waited for by its stream alone."""
        here = [_on_host(argument) for argument in arguments if argument is not None]

        def work():
            handle = getattr(self._gloo, operation)(*here)

            def end():
                handle.wait()
                if (_FAULT, operation, self._number) == ("corrupt", "allreduce", 1):
                    here[0][0].view(-1)[:1] += 1

            return end

        self._stream.enter(work, is_message=operation in ("send", "recv", "recv_anysource"))
        tensors = arguments[0] if isinstance(arguments[0], list) else []
        places = {one.device for one in tensors if isinstance(one, torch.Tensor)}
        done = torch.futures.Future(devices=list(places))
        done.set_result(tensors)
        return torch._C._distributed_c10d._create_work_from_future(done)


# The methods of a process group, with gloo's name of each.
_METHODS = {
    **{
        name: name
        for name in (
            *("allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "gather"),
            *("scatter", "reduce_scatter", "alltoall", "send", "recv", "recv_anysource"),
            *("barrier", "_allgather_base", "_reduce_scatter_base", "alltoall_base"),
        )
    },
    # Since torch 2.13.
    "all_gather_single": "_allgather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "all_to_all_single": "alltoall_base",
}


def _method(operation):
    return lambda self, *arguments, **named: self._run(operation, *arguments, *named.values())


for _name, _operation in _METHODS.items():
    setattr(_Group, _name, _method(_operation))


def _on_host(argument):
    """The tensors of an argument as tensors of the host, in the same memory."""
    if isinstance(argument, list):
        return [_on_host(one) for one in argument]
    if isinstance(argument, torch.Tensor) and argument.device.type != "cpu":
        return torch.ops.fake_device.on_host(argument)
    return argument


def _falsify_products():
    multiply = torch.mm

    def wrong(*factors, out):
        multiply(*factors, out=out)
        out.view(-1)[0] += 1

    torch.mm = wrong


def register(name, backend, runtime, prefix):
    """Makes torch's device ``name`` and its ``backend``, with memory of a fake ``runtime``."""
    if _FAULT == "other-torch":
        raise ImportError(f"libtorch_{name}.so: undefined symbol: _ZN2at4_ops3addE")
    path = os.environ["CCLMARK_FAKE_TORCH_DEVICE"]
    torch.ops.load_library(path)
    library = ctypes.CDLL(path)
    library.fake_most_allocated.restype = ctypes.c_size_t
    library.fake_open(runtime.encode(), prefix.encode())
    stream = _Stream(library)
    module = types.ModuleType(f"torch.{name}")
    module.__dict__.update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 4,
        current_device=library.fake_device,
        set_device=lambda device: library.fake_set_device(torch.device(device).index),
        synchronize=lambda device=None: stream.synchronize(),
        current_stream=lambda device=None: stream,
        Event=_event_of(stream),
        Stream=lambda device=None, priority=0: stream,
        stream=lambda stream_: contextlib.nullcontext(),
        **_external_streams(name),
        empty_cache=lambda: None,
        OutOfMemoryError=torch.OutOfMemoryError,
        max_memory_allocated=lambda device=None: library.fake_most_allocated(),
        max_memory_reserved=lambda device=None: library.fake_most_allocated(),
        reset_peak_memory_stats=lambda device=None: None,
        manual_seed_all=lambda seed: None,
        # Numbers are drawn by the host's generator.
        get_rng_state=lambda device=None: torch.get_rng_state(),
        set_rng_state=lambda state, device=None: torch.set_rng_state(state),
        _is_in_bad_fork=lambda: False,
        get_amp_supported_dtype=lambda: [torch.bfloat16, torch.float16],
    )
    torch.utils.rename_privateuse1_backend(name)
    torch._register_device_module(name, module)
    torch.utils.generate_methods_for_privateuse1_backend()

    def make(store, rank, size, timeout):
        return _Group(backend, stream, store, rank, size, timeout)

    if _FAULT == "wrong-product":
        _falsify_products()
    dist.Backend.register_backend(backend, make, devices=[name])
