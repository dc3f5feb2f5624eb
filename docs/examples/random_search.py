"""A heuristic: a few hundred random schedules, the cheapest wins."""

import random
import time

from isamap.scheduler import Solved, assemble, candidate_of, greedy_candidate, open_options


class RandomSearch:
    """Starts from what greedy finds."""

    name = "random"

    def schedule(self, problem, model, *, limit_s, fixed):
        stop = time.monotonic() + limit_s
        rng = random.Random(0)
        solved = []
        for nest in problem.nests:
            options = open_options(problem, nest, model, fixed)
            best = greedy_candidate(options)
            floor = min(best.cost_ns, *(option.floor_ns for option in options))
            for _ in range(300):
                if time.monotonic() > stop:
                    break
                option = best.option
                draw = dict(best.assignment)
                for axis in option.space.axes:
                    unroll = draw.get(option.space.unroll(axis), 1)
                    draw[option.space.block(axis)] = rng.choice(option.space.blocks(axis, unroll))
                for operand in option.space.option.operands:
                    draw[option.space.stage(operand)] = rng.choice(option.space.stage_values(operand))
                if option.space.is_feasible(draw):
                    best = min(best, candidate_of(option, draw), key=lambda found: found.cost_ns)
            solved.append(Solved(best, floor, "HEURISTIC", reproducible=True))
        return assemble(problem, model.name, solved)
