"""The codes of schedules: of their text, of the independent check, and of what solving may report."""

from __future__ import annotations

from isamap.source.diagnostic import Explanation

PLAN_CODES: dict[str, Explanation] = {
    "blocks-refused": Explanation(
        "statements cannot share a loop over blocks",
        "`--fix blocks.p=4` has the last statement over p, and those in front of it, performed for 4 "
        "iterations of p, then for the next 4. Each of them needs a free axis of that name and length, which "
        "is not summed over; what they write and read of one array has to be at the same place along it. A "
        "temporary that only they use, and that is read along one of its dimensions, shrinks to what a block "
        "reads; what fills it may have axes of other names. At least one has to shrink, unless the loop over "
        "blocks stands around ordered loops of the kernel: that is where no element along p needs another "
        "one in any of their iterations. Sizes are numbers, not ranges.",
    ),
    "buffers-empty": Explanation(
        "a file of buffers holds none",
        "`isamap memplan` reads CSV whose first line is `id,lower,upper,size`, and a line for each buffer.",
    ),
    "buffers-header": Explanation(
        "a column is missing, or stands twice",
        "The first line names the columns: `id`, `lower` (when the buffer begins to live), `upper` (when it "
        "no longer does), `size` in bytes and, where wanted, `alignment`. Others are kept as they are.",
    ),
    "buffers-row": Explanation(
        "a row describes no buffer",
        "Times, size and alignment are whole numbers, `upper` is greater than `lower`, size and alignment "
        "are at least 1, and no two buffers share an id.",
    ),
    "buffers-too-many": Explanation(
        "more buffers than can be placed",
        "The search looks at pairs of buffers. Cut the file at a time at which few buffers live.",
    ),
    "fix-ambiguous": Explanation(
        "a fixed decision of several statements",
        "A decision's name may leave its statement out where only one statement has it. Otherwise write the "
        "statement's number in front: `nest0.block.k`.",
    ),
    "fix-block": Explanation(
        "a fixed cache block that cannot be",
        "A cache block is a multiple of what one issue covers, and no smaller than a register block. A block "
        "as large as the axis, or larger, is none at all.",
    ),
    "fix-crossing": Explanation(
        "work that cannot cross iterations of a loop",
        "`nest0.ahead.b = 1` fills the buffer of b one iteration early: it is staged per block, and a loop "
        "over blocks of it stands around. `nest0.spread.c = 1` writes a staged result back during the next "
        "one: a loop over other elements of it stands around the sum, which is not cut into blocks. "
        "`nest0.prefetch.a = 1` needs a loop over other elements of a outside the sum. Parts that threads "
        "perform have none of these.",
    ),
    "fix-elsewhere": Explanation(
        "a fixed decision that this mapping does not have",
        "Mappings differ in their axes and operands, and so in their decisions. Fix the mapping that has "
        "this one, too, or leave it to the solver.",
    ),
    "chosen-by-evaluation": Explanation(
        "an evaluator chose the schedule",
        "With `--evaluate`, the cheapest schedules by the cost model are simulated or measured, and the one "
        "that does best is taken. Its cost in the schedule's file is still the model's.",
    ),
    "chosen-by-tuning": Explanation(
        "the schedule that was measured to be the fastest",
        "`--tune` measures the cost model's best few schedules and keeps the winner; `--tuned` takes it "
        "again. Another one than the model's first choice wins only where it was faster in so many rounds "
        "that this is no chance. The cost in the schedule's file is still the model's.",
    ),
    "fix-impossible": Explanation(
        "no schedule has these fixed decisions",
        "It is proven that the decisions given by `--fix` contradict each other or the machine's limits. "
        "Leave one of them to the solver.",
    ),
    "fix-mapping": Explanation(
        "a fixed mapping that does not exist",
        "The mappings of a statement are numbered from 0; `isamap compile … --stop-after pose` lists them.",
    ),
    "fix-order": Explanation(
        "fixed orders of loops that go in a circle",
        "`order.m.n = 1` puts the cache blocks of m around those of n, 0 the other way round; `sweep` does "
        "the same for register blocks. Three of them may leave no loop to be the outermost.",
    ),
    "packed-in-place": Explanation(
        "an operand that no mapping takes packed",
        "A packed operand is a buffer in main memory whose order of elements suits the instruction. Machines "
        "that read operands through scratchpads, statements that sum nothing, and operands that are computed "
        "have none.",
    ),
    "packed-twice": Explanation(
        "an operand that is not read at one place",
        "A packed operand has one order of elements, that of the place that reads it, and it is packed once. "
        "What is read at several places, or changes with the iterations of an ordered loop, stays as it is.",
    ),
    "packed-unknown": Explanation(
        "something to pack that is no input",
        "`--packed` names operands that the kernel declares with `in`: what it writes is not there before.",
    ),
    "schedule-packed": Explanation(
        "a schedule that packs otherwise than it was asked to",
        "`stage b packed;` before the first loop says that b's tensor is passed packed, and `--packed` has "
        "to name that tensor. The two stand together.",
    ),
    "fix-parts": Explanation(
        "an axis cannot be dealt to threads in so many parts",
        "`nest0.parallel.n` is how many parts of axis n threads share. Parts are whole issues, as even as "
        "can be. A sum is taken in parts only where its order does not count and the machine can join them.",
    ),
    "fix-registers": Explanation(
        "fixed unrolling that needs more registers than there are",
        "Every accumulator of an unrolled block stays in a register, and so do tiles that are used again. "
        "The note says how many each operand takes; what is fixed besides does not matter.",
    ),
    "fix-stage": Explanation(
        "a fixed placement that cannot be",
        "0 reads an operand where its tensor lies, 1 copies it block by block, 2 as a whole. Which of them a "
        "machine can do depends on its moves: docs/movement.md says more.",
    ),
    "fix-sums": Explanation(
        "a fixed block that cuts a sum which cannot rest",
        "Where a sum is cut into blocks, partial sums are written and read again. A tensor narrower than the "
        "accumulator would round them each time, so that they need a buffer.",
    ),
    "fix-unknown": Explanation(
        "a fixed decision that does not exist",
        "Decisions are named `nest0.mapping`, `nest0.unroll.n`, `nest0.block.n`, `nest0.order.n.k`, "
        "`nest0.sweep.m.n`, `nest0.stage.b`, `nest0.ahead.b`, `nest0.spread.c`, `nest0.prefetch.a` and, with "
        "`--threads`, `nest0.parallel.n`, after the statement, its axes and its operands.",
    ),
    "fix-twice": Explanation(
        "a decision fixed to two values",
        "One decision has several spellings: `nest0.block.k`, `block.k`, `tile.K`; `order.m.n = 1` is "
        "`order.n.m = 0`. Give it once.",
    ),
    "fix-unreadable": Explanation(
        "parts of a schedule that cannot be kept",
        "What a schedule has decided is read off its loops. One that has loops or stages which the solver "
        "would never give can be replayed, but not taken apart.",
    ),
    "fix-unroll": Explanation(
        "fixed unrolling that is out of range",
        "An axis is unrolled by at least 1 and at most the issues along it, and all axes together by at most "
        "64 issues: more exceed the instruction cache.",
    ),
    "fix-value": Explanation(
        "a value that a decision does not take",
        "Blocks, unrolling and parts are 1 or more. Orders, crossings and what is taken along are 0 or 1, "
        "placements 0, 1 or 2, prefetches the number of a cache.",
    ),
    "log-unusable": Explanation(
        "the log of evaluations cannot be used",
        "Evaluated schedules are kept in an SQLite file in the data folder; `isamap tune log` shows it. It "
        "is damaged, cannot be written, or a newer isamap wrote it. Moved away, a new one begins.",
    ),
    "memory-limit": Explanation(
        "the time for placing buffers is up",
        "Neither a placement nor a proof that there is none was found. A larger memory is easier to fill; "
        "`--limit` gives more time.",
    ),
    "memory-too-small": Explanation(
        "no placement fits into the memory",
        "Either the buffers that live at one time are larger together than the memory, or it is proven that "
        "gaps between them cannot be avoided. Give more `--capacity`, or let fewer buffers live at one time.",
    ),
    "no-supply": Explanation(
        "an operand that no move brings to the instruction",
        "Every mapping of the statement has an operand that nothing loads into its memory, or stores from "
        "it. The description lacks an instruction: docs/writing-a-machine.md.",
    ),
    "not-tuned": Explanation(
        "no tuned schedule is kept",
        "A winner is kept for one kernel with its sizes and fixed decisions, machine description, profile, "
        "number of threads, processor and version of isamap. Where any of these differs, or the schedule no "
        "longer passes the check, the cost model chooses; `--tune` measures and keeps a new winner.",
    ),
    "placement-wrong": Explanation(
        "a placement breaks a rule",
        "Each buffer lies inside the memory, at a multiple of its alignment, and apart from all buffers that "
        "live while it does.",
    ),
    "plugin-broken": Explanation(
        "a plug-in does not do what it promises",
        "A heuristic or cost model of an installed package does not load, or its schedule breaks a rule. The "
        "message names the package. docs/plugins.md says what is expected of one.",
    ),
    "plugin-unknown": Explanation(
        "there is no heuristic or cost model of that name",
        "Some are built in, others are offered by installed packages, as entry points in the groups "
        "`isamap.heuristics` and `isamap.cost_models`.",
    ),
    "plugin-word": Explanation(
        "a plug-in with a word behind its name, or without",
        "`--evaluate learned:model.json` is made with a file; other built-in ones take no word.",
    ),
    "schedule-capacity": Explanation(
        "a schedule needs more registers than there are",
        "The accumulators of all unrolled tiles live at once; so do the tiles of an operand that are used "
        "again in a later iteration of an unrolled loop. Unroll less.",
    ),
    "schedule-carry": Explanation(
        "an ordered loop cannot turn inside these loops",
        "`carry n;` has the ordered loop over n turn around a register block, inside all other loops of the "
        "nest. The statement is alone in that loop, writes each element once, along rows, and reads of the "
        "same array what the iterations before wrote. Without the line the ordered loop stands around it.",
    ),
    "schedule-fuse": Explanation(
        "a nest fuses a statement that it cannot take along",
        "A fused statement is elementwise over the elements of the nest's sum: it gives their first value, "
        "or works on finished ones. No other statement in between may depend on its place, the machine must "
        "have instructions that perform it on a tile, and what it needs of other fused statements is fused "
        "as well. Give it a nest of its own otherwise.",
    ),
    "schedule-hold": Explanation(
        "the accumulator cannot be held here",
        "Inside `hold` only summing axes are looped over, then the unrolled loops follow. Where the tensor "
        "is narrower than its accumulator, a summing loop outside `hold` needs the accumulator staged "
        "around it.",
    ),
    "schedule-mismatch": Explanation(
        "a schedule for something else",
        "Kernel, machine, sizes and statements of a schedule are those of the compilation that uses it.",
    ),
    "schedule-overlap": Explanation(
        "work cannot be moved to another iteration of a loop",
        "`stage b ahead 1;` fills a buffer one iteration of the loop directly around it early, so it needs "
        "such a `for` loop, and an operand that nothing changes meanwhile. `spread write c into k;` stands "
        "behind `stage c;` and writes the result of one iteration back during the next, shared out evenly to "
        "the loops inside, down to the one over k: the loop around it has to move on to others of the "
        "result. "
        "`prefetch a ahead 1 into l2;` needs such a loop as well, and a machine with a hint into that cache.",
    ),
    "schedule-parallel": Explanation(
        "loops cannot be dealt to threads like this",
        "Parallel loops (`par n by 512`) are the outermost ones, one per axis, with `hold` inside. A stage "
        "stands outside of all of them, where it is filled before and shared, or inside, where each part has "
        "its own. When a summing axis is dealt, the accumulator is staged right inside.",
    ),
    "schedule-pipeline": Explanation(
        "the line `pipeline` is no order of this loop",
        "`pipeline every 12 at 0 1 ...;` says when each issue of the innermost loop starts, in ticks from "
        "the start of its iteration, and every how many ticks one starts. An issue that reads a result "
        "starts after the one that makes it, and nothing is overwritten before it has been read. Intervals "
        "and starts are 4096 ticks at most, and as many issues stand before and behind the loop at most.",
    ),
    "schedule-stage": Explanation(
        "an operand is staged wrongly",
        "A stage stands at or outside `hold`, once per operand. An operand that no move supplies from its "
        "tensor has to be staged.",
    ),
    "schedule-syntax": Explanation(
        "the text of a schedule is wrong",
        "A schedule is a header of lines (`kernel`, `machine`, `sizes`, ...) and per statement "
        "`nest 0 { map ...; loops }`; the loops nest in braces down to `issue;`.",
    ),
    "schedule-tiling": Explanation(
        "an axis is not tiled down to one issue",
        "Each axis has a loop; its steps decrease from outside to inside, are multiples of what one issue "
        "covers, and end with exactly that. Unrolled loops are the innermost ones, one per axis. Pieces "
        "behind `rest`, each at most twice the next one, make every rest of the block.",
    ),
    "schedule-too-large": Explanation(
        "a schedule exceeds the limits",
        "Steps are at most 2**31, and the bytes of every staging buffer fit into 64 bits. At most 4096 "
        "issues are unrolled in one loop body, and in the pieces of rests that only the run knows together.",
    ),
    "schedule-unknown": Explanation(
        "a schedule names what does not exist",
        "Mappings, axes and operands of a schedule are those of the kernel on the machine; `isamap match` "
        "lists the mappings.",
    ),
    "solver-denied": Explanation(
        "the solver contradicted itself",
        "It said that there is no schedule although one is known, and was asked again in another "
        "configuration. That is a mistake in isamap or in OR-Tools, worth a report; the schedule is correct.",
    ),
    "solver-failed": Explanation(
        "the solver failed",
        "The solver works in a process of its own. That process crashed, took more memory than it may, did "
        "not stop at its limit, or could not be started; the note says which. The schedule is the best that "
        "was known by then: the result is correct, and may be slower than it could be.",
    ),
    "scratchpad-open-size": Explanation(
        "a buffer in a scratchpad whose size only the run time knows",
        "Addresses in a scratchpad are decided while compiling. Sizes that are given as ranges leave buffers "
        "open unless loops with numbers as steps stand around them.",
    ),
    "scratchpad-too-small": Explanation(
        "what has to be staged does not fit into a scratchpad",
        "All buffers of a statement are needed while its innermost loops run, and together they are larger "
        "than the memory, in cache blocks as small as they get. The message says the least that is needed.",
    ),
    "too-few-registers": Explanation(
        "not even one issue has its registers",
        "The operands of one issue take more registers of a memory than it has, in every mapping of the "
        "statement. The `count` in the machine's description is too small, or its views overlap.",
    ),
    "tuning-stopped": Explanation(
        "measuring was stopped before all rounds were played",
        "The fastest schedule so far is taken; no winner is kept. Rounds are kept "
        "one by one: the same command goes on with those that are missing.",
    ),
    "tuning-unusable": Explanation(
        "the tuning database cannot be used",
        "Winners of `--tune` are kept in an SQLite file in the data folder; `isamap tune list` shows it. It "
        "is damaged, cannot be written, or a newer isamap wrote it. Moved away, a new one begins.",
    ),
}
