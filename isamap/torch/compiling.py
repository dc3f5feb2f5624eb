"""The backend of `torch.compile`: functional graphs of ATen, of inference and of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from isamap.torch.handing import handed_on
from isamap.torch.kernels import Options
from isamap.torch.layers import with_whole_layers
from isamap.torch.program import Program, make_program
from isamap.torch.whole import Whole, whole_program

Seen = Callable[[str, Program], None]
"""Is told of each program that is made, and of which kind of graph: "forward", "backward" or "inference"."""


def backend(module: Any, inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **_: Any) -> Any:
    """What `torch.compile(model, backend="isamap")` calls for each graph of a model.

    Raises: UsageProblem for an option that is not there.
    """
    return compiler(Options.of(options))(module, inputs)


def compiler(options: Options, seen: Seen = lambda _kind, _program: None) -> Callable[..., Any]:
    """A backend that tells what it makes."""
    common: Any = import_module("torch._dynamo.backends.common")

    def compile_whole(module: Any, inputs: Sequence[Any]) -> Any:
        made: list[Whole] = []
        compile_module = common.aot_autograd(
            fw_compiler=_of_kind("forward", options, seen, made),
            bw_compiler=_of_kind("backward", options, seen, made),
            inference_compiler=_of_kind("inference", options, seen, made),
            decompositions=_decompositions(),
        )
        compiled = compile_module(with_whole_layers(module, inputs), inputs)
        return handed_on(compiled, made[0]) if len(made) == 1 else compiled

    return compile_whole


def _of_kind(
    kind: str, options: Options, seen: Seen, made: list[Whole]
) -> Callable[[Any, Sequence[Any]], Any]:
    functorch: Any = import_module("torch._functorch.aot_autograd")

    def compile_graph(module: Any, inputs: Sequence[Any]) -> Any:
        if any(_is_open(node) for node in module.graph.nodes):
            return functorch.make_boxed_func(_by_size(module, kind, options, seen))
        if options.pack and not options.portfolio and kind == "inference":
            program = whole_program(module.graph, options, made)
        else:
            program = make_program(module.graph, options)
        seen(kind, program)
        return functorch.make_boxed_func(program.call)

    return compile_graph


def _is_open(node: Any) -> bool:
    """Whether a node's size is known only when it runs."""
    torch: Any = import_module("torch")
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return True
    return isinstance(value, torch.Tensor) and not all(isinstance(size, int) for size in value.shape)


def _by_size(module: Any, kind: str, options: Options, seen: Seen) -> Callable[..., Any]:
    """A program for each set of sizes that calls have."""
    torch: Any = import_module("torch")
    made: dict[Any, Program] = {}

    def call(*given: Any) -> Any:
        key = tuple((tuple(v.shape), v.stride()) if isinstance(v, torch.Tensor) else int(v) for v in given)
        if key not in made:
            copy = torch.fx.GraphModule(module, module.graph)
            made[key] = _sized(copy, given, options)
            seen(kind, made[key])
        return made[key].run(given)

    return call


def _sized(module: Any, given: Sequence[Any], options: Options) -> Program:
    """The program of a graph for the sizes of such inputs."""
    propagation: Any = import_module("torch.fx.passes.fake_tensor_prop")
    with import_module("torch").no_grad():
        propagation.FakeTensorProp(module).propagate(*given)
    return make_program(module.graph, options)


def _decompositions() -> dict[Any, Any]:
    """What is written as simpler operations, as no kernel has it as a whole."""
    torch: Any = import_module("torch")
    aten = torch.ops.aten
    return import_module("torch._decomp").get_decompositions(
        [
            aten.native_layer_norm_backward,
            aten._softmax_backward_data,
            aten._log_softmax_backward_data,
            aten.silu_backward,
            aten.hardswish_backward,
            aten.hardtanh_backward,
            aten.addcmul,
            aten.addcdiv,
            aten.lerp,
            aten.mse_loss,
            aten.mse_loss_backward,
            aten.native_batch_norm,  # not functional but for its decompositions
            aten._native_batch_norm_legit,
            aten._native_batch_norm_legit_no_training,
        ]
    )
