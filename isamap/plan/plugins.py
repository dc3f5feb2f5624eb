"""Heuristics, cost models, evaluators and searchers by name: built in, or from installed packages.

A package names its class under the entry points in `GROUPS`. It is imported only when it is asked for; one
that does not load is reported with the package that it came from. After a colon a name may have a word, the
argument of its class: `learned:model.json`.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from isamap.source import UsageProblem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from isamap.plan.protocols import CostModel, Evaluator, Heuristic

Kind = Literal["heuristic", "cost model", "evaluator", "searcher"]

BUILT_IN: dict[Kind, dict[str, str]] = {
    "heuristic": {
        "cpsat": "isamap.scheduler.cpsat:CpSat",
        "greedy": "isamap.scheduler.search.greedy:Greedy",
        "annealing": "isamap.scheduler.search.annealing:Annealing",
    },
    "cost model": {
        "analytic": "isamap.scheduler.effects.table:AnalyticModel",
        "energy": "isamap.scheduler.effects.energy:EnergyModel",
        "edp": "isamap.scheduler.effects.energy:EdpModel",
    },
    "evaluator": {
        "simulated": "isamap.simulate.events:Simulated",
        "measured": "isamap.tune.measured:Measured",
    },
    "searcher": {
        "annealing": "isamap.tune.searchers.annealing:Annealing",
        "genetic": "isamap.tune.searchers.genetic:Genetic",
        "policy": "isamap.tune.searchers.policy:Policy",
    },
}
GROUPS: dict[Kind, str] = {
    "heuristic": "isamap.heuristics",
    "cost model": "isamap.cost_models",
    "evaluator": "isamap.evaluators",
    "searcher": "isamap.searchers",
}
_METHODS: dict[Kind, str] = {
    "heuristic": "schedule",
    "cost model": "expression",
    "evaluator": "evaluate",
    "searcher": "propose",
}


def known_names(kind: Kind) -> tuple[str, ...]:
    """Return all available names, the built-in ones first."""
    offered = sorted(e.name for e in _entry_points(kind))
    return tuple(dict.fromkeys((*BUILT_IN[kind], *offered)))


def check_name(kind: Kind, name: str) -> None:
    """Check that a plug-in exists. It is loaded only if its name has a word after a colon.

    Raises: UsageProblem, also for a wrong word, before any other work.
    """
    if _split_name(name)[1]:
        _load(kind, name)
    else:
        _check(kind, name)


def _check(kind: Kind, name: str) -> None:
    name, given = _split_name(name)
    if name in BUILT_IN[kind] and given:
        what = f"takes no word behind it, `{given[:80]}`"
        raise UsageProblem.of("plugin-word", f"the {kind} `{name}` {what}", help=f"write `{name}`")
    if name not in BUILT_IN[kind] and _find_entry_point(kind, name) is None:
        near = get_close_matches(name, known_names(kind), n=1, cutoff=0.5)
        raise UsageProblem.of(
            "plugin-unknown",
            f"there is no {kind} `{name[:80]}`",
            notes=(f"known: {', '.join(known_names(kind))}",),
            help=f"did you mean `{near[0]}`?" if near else f"packages offer them as `{GROUPS[kind]}`",
        )


def load_heuristic(name: str) -> Heuristic:
    """Return the heuristic with a name. Raises: UsageProblem if there is none or it does not load."""
    return cast("Heuristic", _load("heuristic", name))


def load_cost_model(name: str) -> CostModel:
    """Return the cost model with a name. Raises: UsageProblem if there is none or it does not load."""
    return cast("CostModel", _load("cost model", name))


def load_evaluator(name: str) -> Evaluator:
    """Return the evaluator with a name. Raises: UsageProblem if there is none or it does not load."""
    return cast("Evaluator", _load("evaluator", name))


def load_searcher(name: str) -> object:
    """Return the searcher with a name. Its protocol is in `isamap.tune.searching`, a higher layer.

    Raises: UsageProblem if there is none, or if it does not load.
    """
    return _load("searcher", name)


def plugin_package(plugin: object) -> str | None:
    """Return the package of a plug-in, or None for built-in ones."""
    module = type(plugin).__module__
    if module.startswith("isamap."):
        return None
    for kind in GROUPS:
        for point in _entry_points(kind):
            if point.module == module:
                return _package(point)
    return module


def _load(kind: Kind, name: str) -> object:
    _check(kind, name)
    name, given = _split_name(name)
    words = (given,) if given else ()
    if name in BUILT_IN[kind]:
        module, _, attribute = BUILT_IN[kind][name].partition(":")
        return getattr(import_module(module), attribute)(*words)
    point = _find_entry_point(kind, name)
    assert point is not None
    try:
        plugin: Any = point.load()(*words)
        if not callable(getattr(plugin, _METHODS[kind], None)):
            raise TypeError(f"it has no method `{_METHODS[kind]}`")
        if not isinstance(getattr(plugin, "name", None), str):
            raise TypeError("it has no `name`")
    except Exception as error:  # whatever a stranger's module does must not look like a fault of ours
        raise UsageProblem.of(
            "plugin-broken",
            f"the {kind} `{name}` of {_package(point)} does not load",
            notes=(f"{type(error).__name__}: {error}", f"it is `{point.value}`"),
            help=f"update or remove the package; built in: {', '.join(BUILT_IN[kind])}",
        ) from error
    return plugin


def _split_name(name: str) -> tuple[str, str]:
    """Return a plug-in's own name, and the word after the colon."""
    own, _, word = name.partition(":")
    return own, word


def _find_entry_point(kind: Kind, name: str) -> EntryPoint | None:
    return next(iter(_entry_points(kind, name=name)), None)


def _entry_points(kind: Kind, **chosen: Any) -> EntryPoints:
    from importlib.metadata import entry_points  # 40 ms that a built-in name does without

    return entry_points(group=GROUPS[kind], **chosen)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
