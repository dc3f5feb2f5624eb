"""The codes of machine descriptions: of YAML, keys, families, emissions, costs and of what extends what."""

from __future__ import annotations

from isamap.source.diagnostic import Explanation

MACHINE_CODES: dict[str, Explanation] = {
    "bad-cost": Explanation(
        "a cost that is no number",
        "A cost is a number of at least 0, or an expression of the instruction's integer parameters "
        'in the language of kernels, such as "0.5 * R" or "max(8, R)". It has to be a finite number '
        "of at least 0 for every value that the parameters may have.",
    ),
    "bad-length": Explanation(
        "no way to ask the hardware for a constant",
        "A program made for vectors of one length asks the hardware how long they are: by a function without "
        "arguments that an allowed header declares, divided by a number or not, as in `svcntb() / 16`.",
    ),
    "c-type-missing": Explanation(
        "a register operand without a C type",
        "Operands in registers that the compiler names are C variables: `memories` gives their C types by "
        "element type, or under `default`.",
    ),
    "clock-missing": Explanation(
        "cycles without a clock",
        "Costs in cycles become time by `clock_ghz` of the machine that is loaded.",
    ),
    "cost-beats-link": Explanation(
        "a cost that beats a link",
        "A copy between two memories takes at least as long as their link needs for the bytes, whatever its "
        "cost states. One of the two figures is wrong.",
    ),
    "cost-beats-unit": Explanation(
        "a cost that beats a unit's peak",
        "`products_per_cycle` of a unit says how many elements one copy of it multiplies at most in a cycle; "
        "an instruction of it states an interval in which it would do more.",
    ),
    "cost-ends-early": Explanation(
        "a result before the unit has done the work",
        "The interval is how long an issue keeps one copy of its unit busy, and the latency is when its "
        "result is there. Only work that is spread over all copies of a unit ends before its interval.",
    ),
    "cost-ignores-size": Explanation(
        "a cost that does not grow with the work",
        "The scheduler may choose how many rows of a memory an instruction works through, and the stated "
        "interval is the same for few as for many: the most is chosen always, and the price is too low.",
    ),
    "declaration-misplaced": Explanation(
        "an instruction among the memories",
        "`language` declares memories, views, states and machine constants. Each instruction stands in "
        "`instructions`, beside its cost and emission.",
    ),
    "emit-arithmetic": Explanation(
        "arithmetic with what is no whole number",
        "Arguments may be computed with `+`, `*` and `<<` from whole numbers, constants of the machine, "
        "integer parameters, and `.index` and `.stride` of operands. Elements and addresses are passed as "
        "they are: `a[1, 0].addr` is the address of an element.",
    ),
    "emit-attribute": Explanation(
        "an attribute that does not exist",
        "Names in an emission have a fixed set of attributes: `addr`, `value` and `stride` of operands in "
        "memory, `index` of registers that isamap names, `mask` of integer parameters, `addr` of states. A "
        "register that the compiler names is written alone.",
    ),
    "emit-cast": Explanation(
        "a cast to another type",
        "Emissions cast to C's scalar types, the vector and mask types of the intrinsics' headers, and "
        "pointers to these, to void and to char.",
    ),
    "emit-configuration": Explanation(
        "a configuration that is computed",
        "What loads or releases a state stands in front of loops, or behind them, where no values are: it is "
        "called with the state's image, as `_tile_loadconfig(tilecfg.addr)`, and with whole numbers. Calls, "
        "operands and parameters are no arguments of it.",
    ),
    "emit-forgets": Explanation(
        "an emission that leaves something out",
        "Every operand and parameter of the instruction has to appear in the call: a result that is "
        "not received, or a mask that is not passed, is a mistake. Parameters that `requires` fixes, and "
        "machine constants, need not appear.",
    ),
    "emit-function": Explanation(
        "a function that may not be called",
        "Emissions call functions that the headers of `target.headers` declare. Each header has a pattern of "
        "allowed names.",
    ),
    "emit-name": Explanation(
        "a name that the instruction does not have",
        "Arguments are the instruction's operands and parameters, states that it loads or releases, whole "
        "numbers, and calls. What lies in a cache, or inside of the instruction alone, is no argument.",
    ),
    "emit-result": Explanation(
        "something that cannot be a result",
        "The result of a call is an `out` or `inout` operand in registers that the compiler names. Others "
        "are written by the function itself: pass `.addr` or `.index`.",
    ),
    "emit-sequence": Explanation(
        "calls one after the other that do not fit",
        "An emission of several calls is a function of memory and registers: each value that a call makes "
        "has a C type and a name of its own, places are whole numbers inside of the operand's shape, and "
        "`for` counts from 0 up to a whole number, or a multiple of a constant of the machine. At most 4096 "
        "calls are made so.",
    ),
    "emit-syntax": Explanation(
        "an emission that cannot be read",
        "An emission is a call, `result = (type) function(argument, …)`, whose arguments may be calls again, "
        "calls one after the other, each with its `;`, or one of the words `semantics` and `none`.",
    ),
    "empty-value": Explanation("a key without a value", "Leave the key out, or give it a value."),
    "encoding-ambiguous": Explanation(
        "two instructions with the same words",
        "A program is read back from its words, so that each two instructions need a bit that is a constant "
        "of both and differs: an opcode. Bits of no field are zero, and count as constants.",
    ),
    "encoding-bits": Explanation(
        "bits that a word does not have",
        "A field takes the bits `HIGH..LOW` of a word, both included, counted from 0 for the lowest, or a "
        "single bit. `program` says how many bits a word has.",
    ),
    "encoding-holds": Explanation(
        "a field that holds nothing known",
        "A field has a `constant`, or it `holds` something that each issue decides: `x.address` or "
        "`x.stride` of an operand in memory, `x.index` of one in registers that are named by number, a "
        "parameter, `NAME.entry` of a table that `entries` fill, or `pop.UNIT` and `push.UNIT`, tokens that "
        "queues of `program` carry. Where words have slots and the hardware has loops, `x.step` is what an "
        "address grows by in each iteration; the word of a loop holds `trips` and `words`.",
    ),
    "encoding-incomplete": Explanation(
        "something that no field holds",
        "An instruction is read back from its words alone: where each operand lies, a stride that each "
        "issue decides, the number of a register, and every parameter stand in some field.",
    ),
    "encoding-issue": Explanation(
        "words that a processor cannot give",
        "`issue` of `program` says how a processor gives words to the accelerator, so many at once: what an "
        "instruction of the processor itself holds is constant, what its registers hold may be anything. "
        "Words with slots are performed one behind the other, without `issue`, `tokens` or `end`.",
    ),
    "encoding-overlap": Explanation(
        "two fields with a bit in common",
        "A bit of a word belongs to one field at most: what is written into the one would change the other.",
    ),
    "encoding-too-narrow": Explanation(
        "a field with too few bits",
        "A field holds every address of its memory, every register's number and every value of its "
        "parameter, each divided by the field's `unit`; a constant fits its bits.",
    ),
    "encoding-unit": Explanation(
        "a field that counts in a unit other than its memory's entries",
        "An address is divided by the field's `unit`. A unit that does not divide the bytes from one entry "
        "to the next leaves entries that no program can point to. All instructions count the places of one "
        "scratchpad alike.",
    ),
    "encoding-words": Explanation(
        "words of no size",
        "Instructions have words where the machine says, under `program`, how many bits a word has. "
        "Where words have slots, an instruction has one word, as wide as the slots of its unit.",
    ),
    "extends-cycle": Explanation("a machine that extends itself", "The chain of `extends` ends somewhere."),
    "extends-leaves": Explanation(
        "a parent outside the folder",
        "A description extends a shipped machine or a file in its own folder: descriptions are not "
        "trusted, and reach no other files.",
    ),
    "extends-too-deep": Explanation("a chain that is too long", "Chains of `extends` have a limit."),
    "extends-unknown": Explanation(
        "a parent that does not exist",
        "`extends` names a shipped machine (`generic-c`) or a file beside this one (`mine.yaml`).",
    ),
    "family-too-large": Explanation(
        "too many members",
        "A `for` clause makes all combinations of the values in a row. Split the family, or list rows.",
    ),
    "field-outside": Explanation(
        "a field outside its state",
        "A field's offset and size, in bytes, lie within the state's `bytes`.",
    ),
    "fields-overlap": Explanation(
        "fields that overlap", "Each byte of a state's image belongs to one field at most."
    ),
    "figure-without-effect": Explanation(
        "a figure that nothing reads",
        "`rows` and `streams` say what it takes to read what a cache misses, on links into caches. "
        "Streams, short rows and lines that come late are of what lies beyond all caches.",
    ),
    "file-unreadable": Explanation("a file that cannot be read", "The path is wrong, or its rights are."),
    "given-twice": Explanation(
        "one cost in two units", "Give an interval or a latency in ns or in cycles, not in both."
    ),
    "instruction-twice": Explanation(
        "two instructions of one name",
        "Within a file each name is given once; an inherited instruction is replaced by one of its name. The "
        "members of a family need names that differ: put the variables into them.",
    ),
    "link-in-bits": Explanation(
        "a link about eight times faster than its neighbours",
        "`bandwidth_bytes_per_ns` counts bytes. A link that carries seven to eleven times what the links "
        "beside it do, or those that lead on from its end, may have been copied in bits.",
    ),
    "link-missing": Explanation(
        "a copy between memories that no link joins",
        "Links say at which bandwidth data gets from one memory into another. What no link joins is copied "
        "in the time that the instruction's cost states, however many bytes these are.",
    ),
    "listed-twice": Explanation("an item that is listed twice", "Leave one out."),
    "instruction-twin": Explanation(
        "an instruction does what another one does, and is not faster",
        "Of two instructions with the same meaning in the same memories the faster one is always taken.",
    ),
    "memory-too-small": Explanation(
        "a scratchpad that cannot hold a tile",
        "An operand lies in its memory as a whole. One that is larger than the memory at its smallest size "
        "can never be there.",
    ),
    "memory-unemptied": Explanation(
        "nothing leaves a memory",
        "Instructions write registers or a scratchpad, and none takes elsewhere what is there, or takes it "
        "on to where kernels' tensors are.",
    ),
    "memory-unfilled": Explanation(
        "nothing fills a memory",
        "Instructions read registers or a scratchpad, and none writes there, or only out of what is never "
        "filled itself: nothing can use it.",
    ),
    "memory-unused": Explanation(
        "no instruction uses a memory", "A memory that no instruction names changes nothing."
    ),
    "memory-cycle": Explanation(
        "memories in a circle",
        "Links lead from the memory farther from the units to the nearer one and serve both directions, so "
        "that they form no cycle. Nor is a memory a view of its own view.",
    ),
    "missing-key": Explanation("a key that has to be given", "The message names it."),
    "name-mismatch": Explanation(
        "a machine called otherwise than its file", "Machines are found by their file's name, without .yaml."
    ),
    "no-machine-fits": Explanation(
        "no shipped machine fits this computer",
        "Detection compares the features that each native machine needs with those of the processor and the "
        "operating system.",
    ),
    "not-a-boolean": Explanation(
        "neither true nor false", "In YAML 1.2 `yes`, `no`, `on` and `off` are words. Write true or false."
    ),
    "not-a-name": Explanation(
        "a text that is no name",
        "Names are letters, digits and `_`; those of machines and libraries have `-` and `.` as well.",
    ),
    "not-a-number": Explanation("a text that is no number", "Write digits, with a point or an exponent."),
    "not-a-value": Explanation(
        "a value that a variable cannot have",
        "A variable of `for` stands for a name, a part of a name, or a whole number; not for operators or "
        "expressions.",
    ),
    "not-a-variable": Explanation(
        "a variable that is not in capitals", "Variables of `for` are capital letters, and used as `$T`."
    ),
    "number-out-of-range": Explanation("a number out of range", "The message names the limits."),
    "operand-too-large": Explanation(
        "an operand that its register cannot hold",
        "An operand lies in one register of its memory, unless a placement says which `register` holds which "
        "element. It has at most as many bytes as the memory's registers: schedules count registers by that. "
        "Elements of `bool` count as one bit, for they may be those of a mask register.",
    ),
    "rows-differ": Explanation(
        "rows with different variables", "Every row of `for` gives a value to the same variables."
    ),
    "semantics-not-one": Explanation(
        "more or less than one instruction",
        "`semantics` holds one `instruction`. Families make many out of one by `for`.",
    ),
    "spec-version": Explanation(
        "a description of another format", "A description starts with `isamap: 1`, the version of its format."
    ),
    "text-not-literal": Explanation(
        "text that was folded or escaped",
        "Language text stands in a literal block (`semantics: |`), as it is, so that errors point into it.",
    ),
    "too-many-instructions": Explanation("too many instructions", "A machine has a limit of instructions."),
    "unknown-attribute": Explanation(
        "an attribute that functions may not be marked with",
        "`target.attributes` marks emitted functions for a mode that the processor works in. Known are those "
        "that the family of processors lists in `hw_specs/families`.",
    ),
    "unknown-c-type": Explanation(
        "a C type that is not allowed",
        "Register operands have C's scalar types or the vector and mask types of the intrinsics' headers.",
    ),
    "unknown-feature": Explanation(
        "a feature that detection does not know",
        "Features are named as in Linux's /proc/cpuinfo; those that isamap can detect are listed.",
    ),
    "unknown-constant": Explanation(
        "no constant of the machine is called so",
        "`lengths` says how the hardware is asked for what `language` declares by `machine Q: 1..16;`.",
    ),
    "unknown-flag": Explanation(
        "a compiler flag that is not allowed",
        "Flags come from a list of patterns: instruction sets, optimisation levels, standards, targets. "
        "Others could load code or write files.",
    ),
    "unknown-header": Explanation(
        "a header that is not allowed", "Headers come from a list; each brings a pattern of functions."
    ),
    "unknown-instruction": Explanation(
        "nothing to remove", "`remove` names instructions that the parent has."
    ),
    "unknown-issue": Explanation(
        "a way to give words that is not known",
        "`issue` of `program` names a form of `hw_specs/families`: instructions of a processor that hand "
        "words to an accelerator beside it.",
    ),
    "unknown-key": Explanation(
        "a key that does not exist", "Descriptions have a fixed set of keys; the nearest is proposed."
    ),
    "unknown-machine": Explanation(
        "a machine that is not shipped", "`isamap hw list` shows the shipped ones; a path ends in .yaml."
    ),
    "unknown-part": Explanation(
        "a part that no function is made of",
        "`target.parts` says by which calls a machine performs the parts of elementary functions. They have "
        "names of a list, each for 4, 8 or 16 floats.",
    ),
    "unknown-permission": Explanation(
        "a permission that isamap cannot ask for", "Permissions come from a list."
    ),
    "unknown-cpu": Explanation(
        "no model of a processor",
        "`cpu` is what the emulator is asked for with `-cpu`: a name, and switches such as `sve256=on`.",
    ),
    "unknown-emulator": Explanation(
        "an emulator that is not allowed",
        "A description names an emulator of a list, never a path or other arguments than its `cpu`.",
    ),
    "unknown-run": Explanation("a way to run that does not exist", "It is native, emulator or model."),
    "unknown-source": Explanation(
        "a citation without a source",
        "Numbers say where they come from: `source` names an entry of `sources`, here or in a parent.",
    ),
    "unknown-toolchain": Explanation(
        "a toolchain that is not allowed", "A description names a toolchain, never a path."
    ),
    "tokens-queue": Explanation(
        "a queue of tokens that is none",
        "Tokens go from one unit to another, which waits for them. Between two units there is at most one "
        "queue in each direction; what one unit performs is in order without any.",
    ),
    "unknown-unit": Explanation(
        "a number without its unit, or in another",
        "Keys of numbers end in their unit: `interval_ns`, `latency_cycles`, `bandwidth_bytes_per_ns`.",
    ),
    "unknown-type-set": Explanation(
        "a set of types that does not exist",
        "Where a variable of `for` stands for types, `types` names the set: any, number, float, integer, "
        "logical (integers and bool), signed, unsigned. `except` leaves out types, or those that other "
        "variables of the row stand for; `holding` keeps those that hold every value of another variable's.",
    ),
    "unknown-unit-name": Explanation(
        "a cost on a unit that does not exist", "`units` declares what executes instructions, and how often."
    ),
    "unknown-variable": Explanation(
        "a variable without a value", "`$T` stands for the value that the rows of `for` give to `T`."
    ),
    "wrong-kind": Explanation(
        "a list, mapping or text in the wrong place", "The message says what is expected there."
    ),
    "yaml-alias": Explanation(
        "anchors and aliases",
        "They are refused: a few lines of them expand to gigabytes. A `for` family says repeated things "
        "once.",
    ),
    "yaml-directive": Explanation("a YAML directive", "Descriptions are YAML 1.2 without directives."),
    "yaml-duplicate-key": Explanation("a key that is given twice", "Each key of a mapping stands once."),
    "yaml-empty": Explanation("an empty file", "A description starts with `isamap: 1`."),
    "yaml-key": Explanation("a key that is no text", "Keys are names."),
    "yaml-not-a-mapping": Explanation("a file that is no mapping", "A description is keys and values."),
    "yaml-not-utf": Explanation("another encoding", "Descriptions are UTF-8."),
    "yaml-several-documents": Explanation("several documents", "A file holds one description."),
    "yaml-syntax": Explanation("a text that is not YAML", "The message is that of the YAML parser."),
    "yaml-tag": Explanation("a YAML tag", "Tags ask for objects to be built; descriptions are plain data."),
    "yaml-too-deep": Explanation("YAML that is nested too deeply", "The limit is 50 levels."),
    "yaml-too-large": Explanation("a file that is too large", "The limit is 1 MB."),
}
