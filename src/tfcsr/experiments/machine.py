"""What this machine has, and a spec fitted to it."""

import contextlib
import ctypes
import os
import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch

import tfcsr
from tfcsr import processes
from tfcsr.errors import DeviceError, SpecError
from tfcsr.spec import RunSpec


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES calls each of the GPUs that this process may use."""
    count = torch.cuda.device_count()
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return named[:count] or [str(number) for number in range(count)]


def on_this_machine(spec: RunSpec, threads: int = 0) -> RunSpec:
    """The spec with device, precision, threads and processes decided; refuses what the machine does not have."""
    device, here = spec.device, processes.here()
    if spec.get("processes", 1) not in (1, here.count):
        raise SpecError(
            f"processes {spec.processes}, but here {'is' if here.count == 1 else 'are'} {here.count}: start it with"
            f" torchrun --nproc-per-node {spec.processes} -m tfcsr ..., or use processes 1"
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            raise DeviceError(f"device {device}: torch finds no GPU on this machine; use --device cpu")
        if here.several and device != "cuda":
            raise DeviceError(f"device {device} is one GPU: {here.count} processes have one each, use --device cuda")
        number = int(device.partition(":")[2] or here.beside - 1)
        if number >= torch.cuda.device_count():
            found = f"this machine has {torch.cuda.device_count()} GPU(s)"
            if here.several:
                raise DeviceError(f"{found}, and torchrun has started {here.beside} processes on it: start fewer")
            raise DeviceError(f"device {device}: {found}, counted from 0")
    together = {"processes": here.count} if "processes" in spec.options() else {}
    return on_device(spec, device, threads or max(1, cores() // here.beside)).replace(**together)


def on_device(spec: RunSpec, device: str, threads: int) -> RunSpec:
    """The spec with this device, and the precision and threads that go with it where it does not say them."""
    precision = spec.precision
    if precision == "auto":
        precision = "fp32" if device == "cpu" else "bf16"
    return spec.replace(device=device, precision=precision, threads=spec.threads or threads)


def keep_freed_memory() -> None:
    """For processes of our own: have glibc keep what is freed for the next step instead of handing it back.

    A step frees and asks again for the same megabytes; each time the kernel would have to clear them anew, which took
    up to a sixth of the time of Split MNIST on two cores.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD


def switches(spec: RunSpec) -> tuple[Any, ...]:
    """What `settings` sets, as a value: runs that differ in it cannot share a process."""
    return spec.device, spec.threads, spec.precision == "tf32", spec.deterministic


@contextmanager
def settings(spec: RunSpec) -> Iterator[None]:
    """torch's process-wide switches as the spec wants them, and back afterwards."""
    threads, deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    matmul, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, convolution.allow_tf32, convolution.deterministic
    torch.set_num_threads(spec.threads)
    matmul.allow_tf32 = convolution.allow_tf32 = spec.precision == "tf32"
    memory: Any = torch.utils.deterministic
    fill = memory.fill_uninitialized_memory
    if spec.deterministic and spec.device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS first starts
        convolution.deterministic = True
        # Max-pooling's backward pass is on torch's list for overlapping windows only, which ours are not.
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Nothing of ours reads memory before writing it; clearing it all the same would cost time.
        memory.fill_uninitialized_memory = False
    try:
        with warnings.catch_warnings():
            # The compiler's advice to lower the precision is none where fp32 was asked for.
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
            # Nor can a user do anything about how it writes the loss of a few classes.
            warnings.filterwarnings("ignore", r"\s*Online softmax is disabled")
            if spec.deterministic:
                warnings.filterwarnings("ignore", "max_pool2d_with_indices_backward")
            yield
    finally:
        torch.set_num_threads(threads)
        matmul.allow_tf32, convolution.allow_tf32, convolution.deterministic = before
        # Not where nothing was changed: torch would load its compiler for it.
        if torch.get_deterministic_debug_mode() != deterministic:
            torch.use_deterministic_algorithms(deterministic > 0, warn_only=deterministic == 1)
        memory.fill_uninitialized_memory = fill


def environment(spec: RunSpec) -> dict[str, Any]:
    gpu = torch.cuda.get_device_name(spec.device) if spec.device.startswith("cuda") else None
    return {
        "tfcsr": tfcsr.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "processor": processor(),
        "cores": cores(),
        "gpu": gpu,
    }


def processor() -> str:
    """Its name, with family and model where they are told: a virtual machine's may be just that of the maker, and
    processors of one maker do not all round alike.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    name = told.get("model name") or platform.processor() or platform.machine()
    if not {"cpu family", "model"} <= told.keys():
        return name
    return f"{name} (family {told['cpu family']}, model {told['model']})"
