"""A model as kernels to predict on machines that vary: `isamap hw sweep --model`.

    mlp.onnx on edge.yaml  ->  dense_1f3a: 2 calls, dense_77c0: 1 call, and 310 ns of other steps

A model is divided between the machine and its host once, for the machine as it is described. The kernels of
the machine are then predicted at each point like kernels of their own. The host does not vary.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from isamap.driver.model_rewrites import form_of
from isamap.driver.predicted import Case, Subject
from isamap.graph.group_prices import CALL_NS
from isamap.graph.host_fallback import transfers_of
from isamap.graph.importing import Imported
from isamap.graph.layers import layers_of
from isamap.graph.model_library import How, Library, compile_program_of
from isamap.graph.model_program import Call
from isamap.graph.sizes import needs_numbers
from isamap.machine import load_machine
from isamap.source import Source, add_up
from isamap.source.progress import Watch


def subject_of(found: Imported, name: str, how: How, watch: Watch) -> Subject:
    """Return a model as its kernels on a machine, and a function of the other steps' time. Raises: UsageProblem."""
    program = found.whole()
    if program.sizes or program.counts:
        raise needs_numbers(program.sizes + program.counts, "a sweep")
    made = compile_program_of(program, how, watch)
    on_host = made.divided.why if made.divided else dict[str, str]()
    calls, own_ns = Counter[str](), 0.0
    for step, layer in zip(made.program.steps, layers_of(found.trace, made, made.machine), strict=True):
        if isinstance(step, Call) and step.kernel not in on_host:
            calls[step.kernel] += 1
            own_ns += CALL_NS
        else:
            own_ns += layer.predicted_ns - layer.transfer_ns
    texts = {kernel: made.program.kernels[kernel] for kernel in calls}
    cases = tuple(Case(Source(f"{k}.ir", text), (), form_of(text)) for k, text in texts.items())
    return Subject(name, cases, tuple(calls.values()), partial(_other_ns, made, own_ns))


def _other_ns(made: Library, own_ns: float, machine: str) -> float:
    """Return the time of the host's steps, of calls, and of transfers over the links of a machine."""
    if made.divided is None:
        return own_ns
    return own_ns + add_up(transfers_of(made.program, made.divided.why, load_machine(machine)))
