"""Elementwise temporaries computed where they are read: when, how often, and why not."""

from __future__ import annotations

import numpy as np
import pytest
from unit.rewriting import inputs, kernel

from isamap.driver.matching import forms_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import BEST_FORM, Request
from isamap.ir import Kernel, interpret, print_routine
from isamap.machine import load_machine
from isamap.report.kernel_forms import forms_json, forms_text
from isamap.source import Source
from isamap.transform import inline_temporaries
from isamap.transform.inlining import refused_inlinings

ARRAYS = "in x: f32[N]; out y: f32[N]; temp t: f32[N];"
CHAIN = "for i in N { t[i] = 2 * x[i]; } for i in N { y[i] = max(t[i], 0) * t[i]; }"


def chain(loops: str, arrays: str = ARRAYS, params: str = "N", word: str = "kernel") -> Kernel:
    return kernel(arrays, loops, params, word)


def left(routine: Kernel) -> list[str]:
    """Why temporaries stay, without their names."""
    return [r.reason.split(": ", 1)[1] for r in refused_inlinings(inline_temporaries(routine).kernel)]


@pytest.mark.parametrize("word", ["kernel", "strict kernel"])
def test_a_temporary_is_computed_where_it_is_read(word: str) -> None:
    found = inline_temporaries(chain(CHAIN, word=word))
    assert "y[i] = max(2 * x[i], 0) * (2 * x[i]);" in print_routine(found.kernel)
    assert [o.name for o in found.kernel.operands] == ["x", "y"]
    assert found.steps == ("inlining: `t[i] = 2 * x[i]` is computed where `t` is read",)


def test_neighbours_are_computed_again_as_long_as_that_is_cheap() -> None:
    arrays = "in x: f32[N + 2]; out y: f32[N]; temp t: f32[N + 2];"
    blur = "for n in N + 2 { t[n] = VALUE; } for n in N { y[n] = t[n] + t[n + 1] + t[n + 2]; }"
    cheap = inline_temporaries(chain(blur.replace("VALUE", "2 * x[n]"), arrays)).kernel
    assert "y[n] = 2 * x[n] + 2 * x[n + 1] + 2 * x[n + 2];" in print_routine(cheap)
    for value in ("exp(x[n])", "1 / x[n]", "x[n] + x[n] * x[n] - x[n] * x[n] * x[n]"):
        (reason,) = left(chain(blur.replace("VALUE", value), arrays))
        assert reason.endswith("would be computed 3 times for each element")


def test_one_iteration_of_an_ordered_loop_computes_what_it_has_filled() -> None:
    arrays = "in x: f32[T, N]; inout h: f32[N]; temp t: f32[T, N];"
    step = "seq k in T { for i in N { t[k, i] = x[k, i] + h[i]; } for i in N { h[i] = tanh(t[k, i]); } }"
    found = inline_temporaries(chain(step, arrays, "T, N")).kernel
    assert "h[i] = tanh(x[k, i] + h[i]);" in print_routine(found)


CHANGED = """for i in N { t[i] = exp(x[i]); } for i in N { s[0] += t[i]; } for i in N { t[i] = t[i] / s[0]; }
for i in N { y[i] = max(t[i], 0); }"""


def test_the_last_change_of_a_temporary_is_computed_where_it_is_read() -> None:
    arrays = f"{ARRAYS} temp s: f32[1];"
    routine, ordered = (
        chain(f"s[0] = 0; {loops}", arrays) for loops in (CHANGED, f"seq k in 2 {{ {CHANGED} }}")
    )
    found = inline_temporaries(routine).kernel
    assert "y[i] = max(t[i] / s[0], 0);" in print_routine(found)
    given = inputs(routine, {"N": 37})
    apart, inlined = (interpret(k, given, {"N": 37})["y"] for k in (routine, found))
    np.testing.assert_array_equal(apart, inlined)
    assert not inline_temporaries(ordered).steps, "the next iteration may need it"
    for partial in (
        "for i in N - 1 { t[i + 1] = t[i + 1] / s[0]; }",
        "for i in N { t[i] = t[i] / s[0] if i > 3; }",
    ):
        some = chain(f"s[0] = 0; {CHANGED.replace('for i in N { t[i] = t[i] / s[0]; }', partial)}", arrays)
        assert not inline_temporaries(some).steps, "other elements are not divided"


@pytest.mark.parametrize(
    ("loops", "reason"),
    [
        (
            "for i in N { t[i] = z[i]; } for i in N { z[i] = 0; } for i in N { y[i] = t[i]; }",
            "`z[i] = 0` changes its own inputs before `y[i] = t[i]` reads it",
        ),
        (
            "for i in N { t[i] = z[i]; } for i in N { z[i] = t[N - 1 - i]; } for i in N { y[i] = 0; }",
            "an input of `t[i] = z[i]` changes while its values are used",
        ),
        (
            "for i in N { t[i] = z[i]; } for i in N, k in N { z[i] += t[i]; } for i in N { y[i] = 0; }",
            "`z[i] += t[i]` changes its own inputs",
        ),
        (
            "for i in N { t[i] = x[i]; } for i in N { y[i] = 0; } for i in N, k in N { y[i] += t[k]; }",
            "`y[i] += t[k]` would compute `t[i] = x[i]` again for each `i`",
        ),
        (
            "for i in N { t[i] = x[i]; } for i in N { y[i] = (t[i + 1] else 0); }",
            "`y[i] = t[i + 1] else 0` reads beyond it",
        ),
        (
            "for i in N { t[i] = x[i]; } for i in N { y[i] = 0; } for i in N if t[i] > 0 { y[i] = 1; }",
            "the condition of `y[i] = 1 if t[i] > 0` reads it",
        ),
        (
            "for i in N { t[i] = x[i]; } seq k in 2 { for i in N { y[i] = t[i]; } }",
            "`y[i] = t[i]` may read a value of another iteration there",
        ),
    ],
)
def test_what_stays_in_memory_is_told_why(loops: str, reason: str) -> None:
    routine = chain(loops, ARRAYS + "inout z: f32[N];" if "z[" in loops else ARRAYS)
    assert left(routine) == [reason]
    assert not inline_temporaries(routine).steps


def test_sums_are_no_temporaries_to_inline() -> None:
    sums = "for i in N { t[i] = 0; } for i in N, k in N { t[i] += x[k]; } for i in N { y[i] = t[i]; }"
    assert not left(chain(sums))


def test_values_stay_what_they_were_to_the_last_bit() -> None:
    routine = chain(CHAIN)
    arrays = inputs(routine, {"N": 37})
    for name, values in interpret(routine, arrays, {"N": 37}).items():
        np.testing.assert_array_equal(
            interpret(inline_temporaries(routine).kernel, arrays, {"N": 37})[name], values
        )


def test_the_best_form_has_fewer_passes_and_costs_less() -> None:
    request = Request(Source("k.ir", print_routine(chain(CHAIN))), "x86-avx512", {"N": 10000}, cache=False)
    apart, best = (
        compile_kernel(
            Request(request.kernel, request.machine, request.sizes, transform=t, cache=False), "formulate"
        )
        for t in (None, BEST_FORM)
    )
    assert apart.problem is not None
    assert best.problem is not None
    assert (len(apart.problem.nests), len(best.problem.nests)) == (2, 1)
    assert best.rewrite is not None
    assert best.rewrite.steps[0].startswith("inlining")
    (nest,) = best.problem.nests
    assert sorted(o.tensor for o in nest.options[0].operands) == ["x", "y"], (
        "what is read twice is brought once"
    )


def test_all_forms_end_with_what_is_not_rewritten() -> None:
    loops = "for i in N { t[i] = exp(x[i]); } for i in N { y[i] = t[i]; } for i in N { y[i] += t[i]; }"
    forms = forms_of(Source("k.ir", print_routine(chain(loops))), load_machine("generic-c"))
    said = "`t` stays in memory: `t[i] = exp(x[i])` would be computed 2 times for each element"
    assert f"not rewritten: {said}" in forms_text(forms, None, every=True).splitlines()
    assert "not rewritten" not in forms_text(forms, None)
    assert forms_json(forms, None)["refused"] == [said]
