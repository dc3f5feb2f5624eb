"""The codes of libraries whose calls perform kernels: their descriptions, and what comes of comparing."""

from __future__ import annotations

from isamap.source.diagnostic import Explanation

LIBRARY_CODES: dict[str, Explanation] = {
    "library-call": Explanation(
        "a call of a library that cannot be made as it is described",
        "A description says of each function its prototype, `void NAME(TYPE name, …)`, and for each kernel "
        "that it computes what is passed for each parameter: a number, a size, `stride(A, 0)` in elements, a "
        "scalar; for a pointer the name of a tensor, or `&0` for the address of a number.",
    ),
    "library-variable": Explanation(
        "a variable that a description of a library may not set",
        "`threads` and `environment` set variables that say how a library computes: NAME_THREADS, and a "
        "list that docs/portfolio.md names. Those that say what is loaded or written, as LD_PRELOAD and PATH "
        "do, are the caller's alone.",
    ),
    "library-wrong": Explanation(
        "a library whose results are not those of the kernel",
        "With `--portfolio`, what a library computes is held against the reference under the bounds of "
        "`isamap verify` before it may be taken. It differs, crashes, or refuses its arguments: its "
        "description says something else than it does, on this processor at least. Our own code is taken.",
    ),
    "no-library": Explanation(
        "no library to compare with",
        "`--portfolio` compares our code with libraries that are installed, in packages of Python or where "
        "the loader finds them; descriptions say which files these are.",
    ),
    "no-library-call": Explanation(
        "a kernel that no library's call computes",
        "Calls are found by what they compute: the statements of a kernel have to be those of a description, "
        "whatever names they use. Kernels that do more, as a product and an activation, are ours alone.",
    ),
    "unknown-interface": Explanation(
        "an interface that nothing describes",
        "`interfaces` names files of calls that libraries have in common, `cblas` for cblas.yaml, beside the "
        "description or among those shipped.",
    ),
}
