"""Compare schedules with the model's first choice in timed rounds, and store each round.

    tournament = Tournament(Winners.open(), question, stop)
    tournament.evaluate_together(trials)   times the missing rounds
    find_winner(tournament.rounds())          which one is first, and by how much

A round is stored before the next one begins, so that a stopped run can continue. Contenders that are clearly
slower in the first rounds are not timed further.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, comb, inf
from statistics import median

from isamap.machine import Machine
from isamap.machine.processor import this_cpu
from isamap.plan.protocols import Evaluation, Trial
from isamap.source import OnlyWarned, dataclass, field
from isamap.tune import measured
from isamap.tune.evaluating import schedule_text
from isamap.tune.winners import Rounds, Winners

ROUNDS = 9
# After so many rounds, what took longer than the first choice by this factor in each of them is out.
TRIED_ROUNDS = 3
HOPELESS = 1.1
# How likely a schedule that is no better may be taken for a better one.
CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Away:
    """A round for another computer with the same processor. Units: `seconds` per contender."""

    trials: tuple[Trial, ...]
    seconds: float
    processor: str


Spread = Callable[[Sequence[Away]], Iterator[tuple[int, Mapping[str, float]]]]


@dataclass(frozen=True, slots=True)
class Tournament:
    """An evaluator of all contenders of a question, the first of which is the model's choice.

    Units: `stop` on the monotonic clock: no round begins later; `seconds` of one contender in one round.
    """

    winners: Winners
    question: str
    stop: float = inf
    count: int = ROUNDS
    seconds: float = measured.SECONDS
    name: str = "measured"
    played: dict[int, Mapping[str, float]] = field(default_factory=dict[int, Mapping[str, float]])
    """The rounds that this object has played, which are there also where none can be kept."""
    spread: Spread | None = None
    """Plays rounds on other computers, and yields the results with their numbers."""

    def evaluate(self, trial: Trial) -> float:
        """Return the nanoseconds of one call. Raises: MissingTool if the machine is not here."""
        return self.evaluate_together((trial,))[0].cost_ns

    def evaluate_together(self, trials: Sequence[Trial]) -> tuple[Evaluation, ...]:
        """Play all missing rounds, and return the evaluation of each trial.

        Raises: MissingTool if the machine is not here.
        """
        stored = self.rounds()
        missing = [number for number in range(self.count) if number not in stored]
        if missing:
            self._play(trials, missing)
        return tuple(_evaluation(self.rounds(), schedule_digest(trial)) for trial in trials)

    def depends_on(self, machine: Machine) -> Mapping[str, str]:
        """Return the versions on which results depend: compiler and processor."""
        return measured.MeasuredEvaluator().depends_on(machine)

    def rounds(self) -> Rounds:
        """Return the stored rounds."""
        with OnlyWarned():
            return {**self.winners.rounds(self.question), **self.played}
        return self.played

    def _play(self, trials: Sequence[Trial], numbers: Sequence[int]) -> None:
        if self.spread is not None:
            for is_first in (True, False):
                batch = [number for number in numbers if (number < TRIED_ROUNDS) == is_first]
                if batch and (batch[0] == 0 or time.monotonic() <= self.stop):
                    self._play_away(trials, batch, self.spread)
            return
        contenders = _warm_contenders(trials)
        for number in numbers:
            if number and time.monotonic() > self.stop:
                return
            playing = still_playing(tuple(contenders), self.rounds())
            self._keep(number, {name: contenders[name].turn(self.seconds) for name in playing})

    def _play_away(self, trials: Sequence[Trial], numbers: Sequence[int], spread: Spread) -> None:
        """Play rounds on other computers with this processor, each round on one of them."""
        playing = still_playing([schedule_digest(trial) for trial in trials], self.rounds())
        own = tuple(trial for trial in trials if schedule_digest(trial) in playing)
        away = [Away(own, self.seconds, this_cpu().key) for _ in numbers]
        for at, costs in spread(away):
            assert set(costs) == set(playing), "each contender that plays, once"
            self._keep(numbers[at], costs)
            if time.monotonic() > self.stop:
                return

    def _keep(self, number: int, costs: Mapping[str, float]) -> None:
        self.played[number] = costs
        with OnlyWarned():
            self.winners.add_round(self.question, number, costs)


def _warm_contenders(trials: Sequence[Trial]) -> dict[str, measured.MeasuredSchedule]:
    """Return the programs of trials, each called a few times. Raises: MissingTool if the machine is not here."""
    for machine in {trial.machine.name: trial.machine for trial in trials}.values():
        measured.check_here(machine)
    contenders = {schedule_digest(trial): measured.make_contender(trial) for trial in trials}
    for contender in contenders.values():
        contender.run(measured.FEWEST_CALLS)
    return contenders


def play_there(away: Away) -> Mapping[str, float]:
    """Return the costs of a round that another computer requested. Raises: MissingTool, UsageProblem."""
    measured.check_processor(away.processor)
    return {name: one.turn(away.seconds) for name, one in _warm_contenders(away.trials).items()}


@dataclass(frozen=True, slots=True)
class TournamentWinner:
    """The schedule that won, by its digest. Units: nanoseconds of one call.

    `ratio` is how many times longer the first choice took, the median over rounds in which both took part.
    """

    winner: str
    cost_ns: float
    first_ns: float
    ratio: float


def find_winner(rounds: Rounds, first: str) -> TournamentWinner | None:
    """Return the schedule with the best paired ratio to the first choice, or None if nothing ran.

    Another schedule than the first wins only if it was faster in significantly many rounds.
    """
    names = dict.fromkeys(name for costs in rounds.values() for name in costs)
    best = TournamentWinner(first, _cost(rounds, first), _cost(rounds, first), 1.0)
    for name in names:
        pairs = [(c[first], c[name]) for c in rounds.values() if name in c and first in c]
        if not pairs or name == first or any(own == inf for _, own in pairs):
            continue
        won = sum(own < other for other, own in pairs)
        ratio = median(other / own for other, own in pairs)
        if won >= _count_needed(len(pairs)) and (best.cost_ns == inf or ratio > best.ratio):
            best = TournamentWinner(name, _cost(rounds, name), _cost(rounds, first), ratio)
    return None if best.cost_ns == inf else best


def schedule_digest(trial: Trial) -> str:
    """Return the digest that identifies a schedule in rounds, equal for schedules with equal code."""
    return hashlib.sha256(schedule_text(trial.schedule).encode()).hexdigest()


def _count_needed(rounds: int) -> int:
    """Return how many rounds a contender must win by a one-sided sign test. It may exceed the number of rounds."""
    chance, won = 0.0, rounds + 1
    while won > 0 and chance + comb(rounds, won - 1) / 2**rounds <= CHANCE:
        won -= 1
        chance += comb(rounds, won) / 2**rounds
    return won


def still_playing(names: Sequence[str], rounds: Rounds) -> list[str]:
    """Return the contenders of the next round: the first one, and all that may still win."""
    first = names[0]
    if len(rounds) < TRIED_ROUNDS:
        return list(names)
    return [
        name
        for name in names
        if name == first
        or not all(c.get(name, inf) > HOPELESS * c.get(first, inf) or name not in c for c in rounds.values())
    ]


def _cost(rounds: Rounds, name: str) -> float:
    return median(costs[name] for costs in rounds.values() if name in costs)


def _evaluation(rounds: Rounds, name: str) -> Evaluation:
    own = [costs[name] for costs in rounds.values() if name in costs]
    if not own or inf in own:
        return Evaluation(inf, (("failed", "it did not run to its end"),))
    return Evaluation(median(own), (("min_ns", round(min(own), 1)), ("rounds", len(own))))


# --- alternating rounds ---------------------------------------------------------------------------------

# Time our code and other code in alternating rounds, so that disturbances affect all alike.
#
#     time_alternately({OURS: call, "torch": other}, clock)  ->  {0: {"isamap": 812.0, "torch": 790.0}, 1: …}
#
# `Choice.of` decides by these times. Code that clearly loses the first rounds is not timed further.

ROUND_NS = 20_000_000
READING_NS = 50_000
"""The least time between two readings of a clock. Reading a thread's own clock takes a part of 1 µs."""
LIMIT_NS, LEAST_ROUNDS = 1_000_000_000, 5
"""After so long no round begins but those without which none can win: of slow calls."""

Clock = Callable[[], int]
"""A clock in nanoseconds."""


def time_alternately(calls: Mapping[str, Callable[[], None]], clock: Clock) -> Rounds:
    """Return each contender's time per call in ns, by round. Contenders alternate with the first one."""
    stop = clock() + LIMIT_NS
    return play({name: _turn(call, clock) for name, call in calls.items()}, clock, stop)


def play(turns: Mapping[str, Callable[[], float]], clock: Clock, stop: int) -> Rounds:
    """Return the rounds of contenders. Each contender is a function that returns the ns of one call.

    After `stop`, only the rounds that are needed to win start.
    """
    rounds: dict[int, dict[str, float]] = {}
    for number in range(ROUNDS):
        playing = still_playing(tuple(turns), rounds)
        if len(playing) == 1 or (number >= LEAST_ROUNDS and clock() > stop):
            break
        order = playing if number % 2 else playing[::-1]
        rounds[number] = {name: turns[name]() for name in order}
    return rounds


def _turn(call: Callable[[], None], clock: Clock) -> Callable[[], float]:
    """Return a function that measures the time of one call in ns, as the median over clock readings."""
    call()
    start = clock()
    call()
    once = max(1, clock() - start)
    calls = ceil(READING_NS / once)
    readings = max(1, ROUND_NS // (calls * once))

    def turn() -> float:
        if once < ROUND_NS:  # what the other one left in the caches is not its fault
            call()
        found: list[int] = []
        for _ in range(readings):
            start = clock()
            for _ in range(calls):
                call()
            found.append(clock() - start)
        return median(found) / calls

    return turn
