"""Models of torch on a device: by an OpenCL driver, and by launches through a driver that runs lanes as a model.

No GPU is needed. The driver of the launches has the names of CUDA's functions, and takes tensors in this processor's
memory for those of the device. It notes each call, and hands the arguments to the model of the same kernel's lanes.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isamap.driver.printers import emit_artifact
from isamap.emit.device_call import DeviceProgram, launches_of
from isamap.graph import device_launches
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine, allowed, load_machine, missing_features
from isamap.machine.processor import detect_device_machine
from isamap.run.toolchain import build_image
from isamap.source import IsamapError

torch: Any = pytest.importorskip("torch")

from isamap.torch import explain, segments  # noqa: E402 - after the skip
from isamap.torch.segments import Options, locate  # noqa: E402 - after the skip

SIMT, SM80 = "opencl-simt", "nvidia-sm80"
DRIVER = """
static const struct { const char *name; void (*kernel)(const isamap_value *); int count; } known[] = { %s };
int launch(const char *name, unsigned blocks, unsigned lanes, void **given) {
  for (size_t at = 0; at < sizeof known / sizeof *known; at++) {
    if (strcmp(known[at].name, name) != 0) continue;
    isamap_device d;
    isamap_value values[64];
    isamap_open(&d, NULL);
    for (int n = 0; n < known[at].count; n++) values[n] = (isamap_value){given[n], 8};
    isamap_launch(&d, known[at].kernel, blocks, lanes, values, known[at].count);
    return isamap_close(&d);
  }
  return 500;
}
"""


Module: Any = torch.nn.Module


class Attention(Module):
    """A block of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] - torch is not typed here
        self.norm, self.heads = torch.nn.LayerNorm(width), heads
        self.into, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, rows, width = x.shape
        parts = self.into(self.norm(x)).chunk(3, -1)
        q, k, v = (p.view(batch, rows, self.heads, -1).transpose(1, 2) for p in parts)
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(found.transpose(1, 2).reshape(batch, rows, width))


class Words(Module):
    """Rows of a table by data, joined with another tensor, chosen by data again, and parts of the result."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] - torch is not typed here
        self.words, self.out = torch.nn.Embedding(11, 6), torch.nn.Linear(9, 4)

    def forward(self, ids: Any, x: Any, chosen: Any) -> tuple[Any, Any]:
        joined = torch.cat((self.words(ids), x, x[..., :1]), -1)
        return self.out(joined[..., 1:])[:, 2:], torch.cat((joined[:, chosen], joined[:, 1:]), 1)


def mlp() -> tuple[Any, Any]:
    layers = (torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.Linear(40, 18), torch.nn.LayerNorm(18))
    return torch.nn.Sequential(*layers).eval(), torch.randn(5, 24)


def convolution() -> tuple[Any, Any]:
    layers = (
        torch.nn.Conv2d(3, 5, 3, padding=1),
        torch.nn.BatchNorm2d(5),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
    )
    head = (torch.nn.Flatten(), torch.nn.Linear(45, 7))
    return torch.nn.Sequential(*layers, *head).eval(), torch.randn(2, 3, 6, 6)


def attention() -> tuple[Any, Any]:
    return Attention(12, 2).eval(), torch.randn(2, 7, 12)


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mlp": mlp,
    "convolution": convolution,
    "attention": attention,
}


@dataclass
class Driver:
    """Functions by the names of CUDA's driver. Each image is the path of a library with a model."""

    folder: Path
    calls: list[tuple[str, int, int, int]] = field(default_factory=list[tuple[str, int, int, int]])
    sources: dict[str, str] = field(default_factory=dict[str, str])
    modules: list[Any] = field(default_factory=list[Any])
    kernels: list[tuple[Any, str]] = field(default_factory=list[tuple[Any, str]])
    permitted: dict[int, int] = field(default_factory=dict[int, int])
    retained: list[int] = field(default_factory=list[int])
    below: list[int | None] = field(default_factory=list[int | None])
    unloaded: list[int] = field(default_factory=list[int])
    thread: threading.local = field(default_factory=threading.local)

    def __getitem__(self, name: str) -> Callable[..., int]:
        return getattr(self, name)

    def note_program(self, program: LoweredProgram, machine: Machine) -> Any:
        """Print kernels as isamap does, and build the model of the same program."""
        printed = self.print_kernels(program, machine)
        plan = json.loads(printed.plan)
        counts = {step["kernel"]: len(step["arguments"]) for step, _ in launches_of(plan["launches"])}
        known = ", ".join(f'{{"{kernel}", {kernel}_lane, {count}}}' for kernel, count in counts.items())
        own = self.folder / printed.name
        own.mkdir(exist_ok=True)
        model = emit_artifact(program, machine, "code", model=True)
        for file, text in model.files().items():
            (own / file).write_text(str(text), encoding="utf-8")
        (own / "driver.c").write_text(f'#include "{printed.name}.c"\n' + DRIVER % known, encoding="utf-8")
        words = ["gcc", "-O1", "-std=gnu11", "-fno-strict-aliasing", "-shared", "-fPIC", "-w"]
        subprocess.run([*words, "-o", "model.so", "driver.c", "-lm"], cwd=own, check=True)
        return printed

    def build_image(self, command: str, name: str, source: str) -> Path:
        self.sources[name] = source
        image = self.folder / f"{name}.image"
        image.write_text(str(self.folder / Path(name).stem / "model.so"), encoding="utf-8")
        assert command == "nvcc -arch=sm_80 -std=c++17 -O3 -cubin"
        return image

    print_kernels = staticmethod(device_launches.print_kernels)

    def cuInit(self, flags: int) -> int:
        return flags

    def cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = 40 + number
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        self.retained.append(device.value)
        context._obj.value = 100 + device.value
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.thread.context = context.value
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        self.below.append(getattr(self.thread, "context", None))
        return self.cuCtxSetCurrent(context)

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        context._obj.value, self.thread.context = self.thread.context, self.below.pop()
        return 0

    def cuCtxSynchronize(self) -> int:
        return self.lacks_context()

    def cuDevicePrimaryCtxRelease_v2(self, device: Any) -> int:
        self.retained.remove(device.value)
        return 0

    def cuModuleUnload(self, module: Any) -> int:
        self.unloaded.append(module.value)
        return self.lacks_context()

    def lacks_context(self) -> int:
        """Return the status of CUDA in a thread without a current context."""
        return (
            0 if getattr(self.thread, "context", None) in {100 + device for device in self.retained} else 201
        )

    def cuModuleLoadData(self, module: Any, image: bytes) -> int:
        if status := self.lacks_context():
            return status
        self.modules.append(ctypes.CDLL(image.decode()))
        module._obj.value = len(self.modules)
        return 0

    def cuModuleGetFunction(self, kernel: Any, module: Any, name: bytes) -> int:
        self.kernels.append((self.modules[module.value - 1], name.decode()))
        kernel._obj.value = len(self.kernels)
        return 0

    def cuFuncSetAttribute(self, kernel: Any, attribute: int, value: int) -> int:
        self.permitted[kernel.value] = value
        return int(attribute != 8)

    def cuLaunchKernel(self, kernel: Any, *given: Any) -> int:
        if status := self.lacks_context():
            return status
        blocks, lanes, stream, arguments = (given[n] for n in (0, 3, 7, 8))
        assert [given[n] for n in (1, 2, 4, 5, 9)] == [1, 1, 1, 1, None]
        number: int = kernel.value - 1
        assert given[6] <= self.permitted.get(kernel.value, 0)
        library, name = self.kernels[number]
        self.calls.append((name, blocks, lanes, stream.value))
        return int(library.launch(name.encode(), blocks, lanes, arguments))


@pytest.fixture(name="driver")
def _driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Return a driver for which tensors of this processor are those of the device."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc: no model of lanes is built")
    driver, devices = Driver(tmp_path), allowed.devices()
    here = {**devices, "sm_80": replace(devices["sm_80"], tensors="cpu")}
    monkeypatch.setattr(allowed, "devices", lambda: here)

    def checked(_device: Any) -> None:
        """Find a compiler and a driver."""

    def stream_of(_device: Any) -> Any:
        return SimpleNamespace(cpu_stream=7)

    @functools.wraps(torch.get_device_module)  # torch's tracer reads what this function wraps
    def module_of(_device: Any) -> Any:
        return SimpleNamespace(device=nullcontext, current_stream=stream_of)

    monkeypatch.setattr(segments, "check_device", checked)
    monkeypatch.setattr(device_launches, "all_jobs", lambda: 1)
    monkeypatch.setattr(device_launches, "print_kernels", driver.note_program)
    monkeypatch.setattr(device_launches, "build_image", driver.build_image)

    def made(folder: str, name: str, _library: None, plan: dict[str, Any]) -> DeviceProgram:
        return DeviceProgram(folder, name, driver, plan)

    monkeypatch.setattr(device_launches, "DeviceProgram", made)
    monkeypatch.setattr(torch, "get_device_module", module_of)
    return driver


@pytest.mark.parametrize("model", MODELS)
def test_a_model_runs_by_an_opencl_driver_as_in_torch(model: str) -> None:
    if missing := missing_features(load_machine(SIMT)):
        pytest.skip(f"there is no device for {', '.join(missing)}")
    torch.manual_seed(0)
    network, x = MODELS[model]()
    torch._dynamo.reset()
    fast = torch.compile(network, backend="isamap", options={"machine": SIMT})
    with torch.no_grad():
        torch.testing.assert_close(fast(x), network(x), rtol=1e-4, atol=1e-5)
    ran = explain(network, x, options={"machine": SIMT}).nodes
    assert {node.where for node in ran} == {"kernel", "nowhere"}


@pytest.mark.parametrize("model", MODELS)
def test_a_graph_is_launched_on_torchs_stream_and_computes_as_torch(model: str, driver: Driver) -> None:
    torch.manual_seed(0)
    network, x = MODELS[model]()
    torch._dynamo.reset()
    fast = torch.compile(network, backend="isamap", options={"machine": SM80})
    with torch.no_grad():
        for given in (x, torch.randn_like(x)):
            torch.testing.assert_close(fast(given), network(given), rtol=1e-4, atol=1e-5)
    first, second = driver.calls[: len(driver.calls) // 2], driver.calls[len(driver.calls) // 2 :]
    assert first == second
    assert {stream for *_, stream in first} == {7}
    ran = explain(network, x, options={"machine": SM80}).nodes
    assert {node.where for node in ran} == {"kernel", "nowhere"}
    assert any(node.why.endswith("called once, launched on cpu") for node in ran)


@pytest.mark.parametrize("machine", [SIMT, SM80])
def test_tables_joins_and_parts_of_tensors_are_kernels(machine: str, driver: Driver) -> None:
    if missing := machine == SIMT and missing_features(load_machine(machine)):
        pytest.skip(f"there is no device for {', '.join(missing)}")
    torch.manual_seed(0)
    ids, chosen = torch.tensor([[3, 0, 10, 4, 4], [1, 2, 3, 9, 8]]), torch.tensor([-1, 0, -5, 2])
    network, given = Words().eval(), (ids, torch.randn(2, 5, 3), chosen)
    torch._dynamo.reset()
    fast = torch.compile(network, backend="isamap", options={"machine": machine})
    with torch.no_grad():
        for found, wanted in zip(fast(*given), network(*given), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        for wrong in (11, -12):
            with pytest.raises((IsamapError, RuntimeError), match="an index"):
                fast(torch.full_like(ids, wrong), *given[1:])
    told = {
        node.operation: node.where for node in explain(network, given, options={"machine": machine}).nodes
    }
    assert {*told.values()} == {"kernel", "nowhere"}
    assert {told[name] for name in ("embedding.default", "cat.default", "index.Tensor")} == {"kernel"}


def test_a_table_is_read_by_torch_if_the_graph_computes_the_indices(driver: Driver) -> None:
    """No kernel checks indices on a device, and torch checks only those that it passes to kernels."""

    def network(x: Any, which: Any) -> Any:
        return (torch.sigmoid(x)[torch.cat((which, which))] * 2,)

    x, which = torch.randn(6, 5), torch.tensor([4, -1, 4])
    torch._dynamo.reset()
    fast = torch.compile(network, backend="isamap", options={"machine": SM80})
    torch.testing.assert_close(fast(x, which), network(x, which))
    told = {n.operation: n.where for n in explain(network, (x, which), options={"machine": SM80}).nodes}
    assert told["cat.default"] == "kernel"
    assert told["index.Tensor"] == "eager"
    assert driver.calls


@pytest.mark.parametrize("model", MODELS)
def test_nvcc_compiles_each_kernel_of_a_graph(model: str, driver: Driver) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc: no kernel is compiled for sm_80")
    network, x = MODELS[model]()
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(network, backend="isamap", options={"machine": SM80})(x)
    assert driver.sources
    for name, source in driver.sources.items():
        image = build_image(allowed.devices()["sm_80"].compile, name, source)
        assert image.read_bytes()[:4] == b"\x7fELF"


def test_any_thread_may_launch_and_a_program_unloads_its_images(driver: Driver) -> None:
    """A thread of its own has no current context of CUDA, and functions of the driver end with 201 there."""
    network, x = mlp()
    found: list[Any] = []

    def run() -> None:
        torch._dynamo.reset()
        with torch.no_grad():
            found.append(torch.compile(network, backend="isamap", options={"machine": SM80})(x))

    for _ in range(2):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert len(found) == 2
    torch.testing.assert_close(found[1], network(x), rtol=1e-4, atol=1e-5)
    assert set(driver.retained) == {40}
    found.clear()
    torch._dynamo.reset()
    driver.thread.context = 7
    gc.collect()
    assert driver.thread.context == 7, "the thread that collects keeps its own context"
    assert sorted(driver.unloaded) == [number + 1 for number in range(len(driver.modules))]
    assert not driver.retained


def test_buffers_are_allocated_on_the_stream_that_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch gives the memory of a buffer to later calls on the stream that was current at its allocation."""
    current, seen = [7], list[tuple[str, int]]()

    @contextmanager
    def on(stream: int) -> Generator[None]:
        current.append(stream)
        yield
        current.pop()

    def external(stream: int, device: Any) -> int:
        return stream

    def allocate(count: int) -> Any:
        seen.append(("buffer", current[-1]))
        return torch.zeros(count)

    def launched(*given: Any) -> int:
        seen.append(("launch", given[8].value))
        return 0

    def stream_of(_device: Any) -> Any:
        return SimpleNamespace(cpu_stream=current[-1])

    def module_of(_device: Any) -> Any:
        return SimpleNamespace(
            device=nullcontext, stream=on, ExternalStream=external, current_stream=stream_of
        )

    monkeypatch.setattr(torch, "get_device_module", module_of)
    launch = {"kernel": "k", "blocks": 1, "lanes": 32, "reserved_bytes": 0}
    launch |= {"arguments": [{"array": "x"}, {"array": "t"}]}
    plan = {
        "kernel": "k", "image": "cubin", "launches": [launch], "scalars": [{"name": "s", "dtype": "f32"}],
        "arrays": [{"name": "x", "dtype": "f32", "shape": [2]}], "buffers": [{"name": "t", "bytes": 10}],
        "driver": {"library": "none", "launch": "launch"},
    }  # fmt: skip
    program = DeviceProgram("", "k", {"launch": launched}, plan)
    program._loaded[0] = ctypes.c_void_p(), {"k": ctypes.c_void_p(1)}  # pyright: ignore[reportPrivateUsage] - nothing is loaded
    x = torch.zeros(2)
    like = SimpleNamespace(device=x.device, element_size=lambda: 4, new_empty=allocate)
    program.launch([x.data_ptr()], like, s=1.0)
    program.launch([x.data_ptr()], like, 9, s=1.0)
    assert seen == [("buffer", 7), ("launch", 7), ("buffer", 9), ("launch", 9)]
    with pytest.raises(ValueError, match="give the scalars"):
        program(x, u=1.0)
    program(x, s=1.0)
    with pytest.raises(ValueError, match="has to be"):
        program(x.view(torch.int32), s=1.0)


def test_torch_performs_on_the_device_what_no_kernel_does(driver: Driver) -> None:
    def network(x: Any, which: Any) -> tuple[Any, Any]:
        return torch.sigmoid(x).gather(0, which) * 2, x.double() + 1

    x, which = torch.randn(6, 5), torch.tensor([[4, 0, 4, 5, 1]])
    torch._dynamo.reset()
    fast = torch.compile(network, backend="isamap", options={"machine": SM80})
    torch.testing.assert_close(fast(x, which), network(x, which))
    assert len(driver.calls) >= 2, "sigmoid and mul are launches"
    told = {n.operation: n for n in explain(network, (x, which), options={"machine": SM80}).nodes}
    assert told["sigmoid.default"].where == told["mul.Tensor"].where == "kernel"
    assert told["gather.default"].why == "C code of the processor performs it: it copies or selects elements"
    assert told["add.Tensor"].where == "eager"
    assert told["add.Tensor"].why.startswith("nvidia-sm80 cannot perform")


def graph_on(*places: str) -> Any:
    """Return the part of a graph that tells where its tensors lie."""
    tensors = [SimpleNamespace(device=torch.device(place)) for place in places]
    return SimpleNamespace(nodes=[SimpleNamespace(meta={"val": tensor}) for tensor in tensors])


@pytest.mark.parametrize(
    ("places", "options", "message"),
    [
        (
            ("cuda:1", "cpu", "cuda:0"),
            {"machine": SM80},
            (
                "error[usage]: the tensors of this graph are on cuda:0 and cuda:1\n"
                "  help: compile the part of the model on each device by itself"
            ),
        ),
        (
            ("cuda:0",),
            {"machine": "generic-c"},
            (
                "error[usage]: the tensors of this graph are on cuda:0, where no kernel of `generic-c` runs\n"
                "  help: name a machine of this device"
            ),
        ),
        (
            ("mps:0",),
            {},
            (
                "error[no-machine-fits]: no shipped machine is for a `mps` device of capability []\n"
                "  help: name its description: options={'machine': ...}"
            ),
        ),
        (
            ("cuda:0",),
            {"machine": SM80, "pack": True},
            (
                "error[usage]: `pack` and `portfolio` are options on a processor, not on cuda:0\n"
                "  help: leave them out"
            ),
        ),
    ],
    ids=["two devices", "another machine", "no machine", "packed"],
)
def test_a_graph_has_one_device_and_a_machine_for_it(
    places: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(IsamapError) as refused:
        locate(graph_on(*places), Options.of(options))
    assert refused.value.render() == message


def test_tensors_of_this_processor_have_no_device() -> None:
    assert locate(graph_on("cpu"), Options(machine=SM80)) == (Options(machine=SM80), None)


def test_the_machine_of_a_graph_is_that_of_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def capability_of(device: Any) -> tuple[int, int]:
        asked.append(device)
        return 8, 9

    monkeypatch.setattr(torch.cuda, "get_device_capability", capability_of)
    monkeypatch.setattr(segments, "check_device", asked.append)
    options, device = locate(graph_on("cpu", "cuda:1"), Options())
    assert (options.machine, str(device)) == (SM80, "cuda:1")
    assert asked == [device, allowed.devices()["sm_80"]]


def test_a_device_needs_its_compiler_and_its_driver() -> None:
    device = allowed.devices()["sm_80"]
    with pytest.raises(IsamapError) as refused:
        device_launches.check_device(replace(device, compile="nowhere-cc -cubin"))
    assert refused.value.render() == (
        "error[no-compiler]: `nowhere-cc`, which compiles kernels, is not on PATH\n"
        "  help: install nowhere-cc, or add its folder to PATH"
    )
    lost = {**device.driver, "library": "libnowhere.so.1"}
    with pytest.raises(IsamapError) as refused:
        device_launches.check_device(replace(device, compile="gcc", driver=lost))
    assert refused.value.render().startswith(
        "error[platform-lacks-runner]: the driver of this device cannot be loaded: libnowhere.so.1: cannot open"
    )
    assert refused.value.render().endswith(
        "  help: install the driver, or move the model and its inputs to the processor"
    )


def test_the_machine_of_a_device_is_found_by_its_capability() -> None:
    assert detect_device_machine("cuda", [8, 0]) == SM80
    assert detect_device_machine("cuda", [8, 6]) == detect_device_machine("cuda", [8, 9]) == "nvidia-sm86"
    assert detect_device_machine("cuda", [9, 0]) == "nvidia-sm90"
    with pytest.raises(IsamapError) as refused:
        detect_device_machine("cuda", [7, 5])
    assert refused.value.render() == (
        "error[no-machine-fits]: no shipped machine is for a `cuda` device of capability [7, 5]\n"
        "  help: name its description: options={'machine': ...}"
    )
