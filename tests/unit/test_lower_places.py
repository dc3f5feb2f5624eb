"""Where pieces of a nest stand: what is left of an axis, and what an unrolled loop covers."""

from __future__ import annotations

from isamap.ir import Index
from isamap.lower.place import Place, at_least, is_multiple, unrolled_places
from isamap.lower.steps import Unroll

N = Index.of("N")


def place(left: Index) -> Place:
    return Place({"n": Index.of("n0")}, {"n": left})


def test_an_unrolled_loop_covers_what_is_left() -> None:
    found = list(unrolled_places(place(Index.of(10)), (Unroll(3, "n", 4),)))
    assert [str(p.position["n"]) for _, p in found] == ["n0", "n0 + 4", "n0 + 8"]
    assert [p.left["n"].value for _, p in found] == [4, 4, 2]
    assert [p.trips[3].value for _, p in found] == [0, 1, 2]


def test_a_loop_over_single_tiles_keeps_its_counter() -> None:
    here = place(Index.of("rest")).enter(3, "n", Index.of("n0") + Index.of("t"), Index.of(1), Index.of("t"))
    ((counters, found),) = unrolled_places(here, (Unroll(3, "n", 1),))
    assert counters == (0,)
    assert found.trips[3] == Index.of("t")
    assert found.position["n"] == Index.of("n0") + Index.of("t")


def test_the_last_of_several_unrolled_loops_runs_fastest() -> None:
    here = Place({"m": Index.of(0), "n": Index.of(0)}, {"m": Index.of(2), "n": Index.of(2)})
    assert [c for c, _ in unrolled_places(here, (Unroll(0, "m", 1), Unroll(1, "n", 1)))] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


def test_multiples_are_known_from_coefficients() -> None:
    assert is_multiple(4 * N + 8, 4)
    assert not is_multiple(4 * N + 2, 4)
    assert is_multiple(N, 1)


def test_an_open_count_is_never_known_to_be_enough() -> None:
    assert at_least(Index.of(4), 4)
    assert not at_least(N + 100, 4)
