"""Read `encoding` and `program` of a description: YAML to tables of fields with unresolved texts."""

from __future__ import annotations

from isamap.machine.allowed import issues
from isamap.machine.fields import read_items, read_mapping, read_names, read_number, read_text
from isamap.machine.keys import TEXT, Keys, LeafKey, ListOf, NamedBy, one_of
from isamap.machine.tree import Findings, Node, ScalarNode
from isamap.source import Span, dataclass

LEAST_BITS, MOST_BITS = 8, 256

BIT_FIELD = Keys({"bits": TEXT, "constant": TEXT, "holds": TEXT, "unit": TEXT}, ("bits",))
WORDS = ListOf(NamedBy(BIT_FIELD), 1)
ENTRIES = NamedBy(NamedBy(BIT_FIELD))
END = Keys({"unit": TEXT, "words": WORDS}, ("unit", "words"))
QUEUE = Keys({"from": TEXT, "to": TEXT, "depth": LeafKey("whole", 1)}, ("from", "to", "depth"))
TABLE = Keys({"word_bits": LeafKey("whole", LEAST_BITS)}, ("word_bits",))
SLOT = Keys({"unit": TEXT, "bits": TEXT}, ("unit", "bits"))
BUNDLE = Keys(
    {"marks": NamedBy(BIT_FIELD), "slots": ListOf(SLOT, 1), "loop": NamedBy(BIT_FIELD)}, ("marks", "slots")
)
PROGRAM = Keys(
    {
        "word_bits": LeafKey("whole", LEAST_BITS),
        "begin": WORDS,
        "issue": one_of(lambda: tuple(issues())),
        "end": END,
        "tokens": ListOf(QUEUE),
        "tables": NamedBy(TABLE),
        "first_address": LeafKey("whole", 0),
        "bundle": BUNDLE,
        "source": TEXT,
    },
    ("word_bits", "source"),
)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field as written: it has a `constant`, or `holds` something in units."""

    name: ScalarNode
    bits: ScalarNode
    constant: ScalarNode | None
    holds: ScalarNode | None
    unit: ScalarNode | None


@dataclass(frozen=True, slots=True)
class EncodingSpec:
    """The encoded words of an instruction, or of a program's start or end, and its table entries, as written."""

    words: tuple[tuple[FieldSpec, ...], ...]
    span: Span
    entries: tuple[tuple[ScalarNode, tuple[FieldSpec, ...]], ...] = ()

    @property
    def texts(self) -> tuple[ScalarNode, ...]:
        """All texts in which a variable of a family may occur."""
        fields = (f for word in (*self.words, *(word for _, word in self.entries)) for f in word)
        return tuple(t for f in fields for t in (f.bits, f.constant, f.holds, f.unit) if t is not None)


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue of tokens as written."""

    giver: ScalarNode
    taker: ScalarNode
    depth: int


@dataclass(frozen=True, slots=True)
class SlotSpec:
    """A slot as written."""

    unit: ScalarNode
    bits: ScalarNode


@dataclass(frozen=True, slots=True)
class BundleSpec:
    """Words with slots, as written. `marks` and `loop` are one word each."""

    slots: tuple[SlotSpec, ...]
    marks: EncodingSpec
    loop: EncodingSpec | None
    span: Span


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """The `program` part of a description, as written: the format that all programs share."""

    word_bits: int
    begin: EncodingSpec | None
    source: ScalarNode | None
    issue: ScalarNode | None = None
    end: tuple[ScalarNode, EncodingSpec] | None = None
    queues: tuple[QueueSpec, ...] = ()
    tables: tuple[tuple[str, int], ...] = ()
    first_address: int = 0
    bundle: BundleSpec | None = None


def read_encoding(
    node: Node | None, what: str, findings: Findings, entries: Node | None = None
) -> EncodingSpec | None:
    """Return the words of a list, and entries of tables, or None if there is none, or a field was refused."""
    if node is None and entries is None:
        return None
    before = len(findings.diagnostics)
    words = tuple(_read_word(item, findings) for item in read_items(node, what, findings))
    held = tuple((name, _read_word(n, findings)) for name, n in read_names(entries, "`entries`", findings))
    if not words and node is not None:
        findings.report("empty-value", f"{what} has no words", node.span)
        return None
    where = node or entries
    assert where is not None, "one of both is there"
    return EncodingSpec(words, where.span, held) if len(findings.diagnostics) == before else None


def _read_word(node: Node, findings: Findings) -> tuple[FieldSpec, ...]:
    entries = read_names(node, "a word", findings)
    found = (_read_field(name, value, findings) for name, value in entries)
    return tuple(field for field in found if field is not None)


def _read_field(name: ScalarNode, node: Node, findings: Findings) -> FieldSpec | None:
    what = f"field `{name.text}`"
    keys = read_mapping(node, what, BIT_FIELD, findings)
    bits, constant, holds, unit = (
        read_text(keys.get(key), f"`{key}` of {what}", findings) for key in BIT_FIELD.values
    )
    if bits is None:
        return None
    if (constant is None) == (holds is None):
        said = (
            "has both `constant` and `holds`"
            if constant is not None
            else "has neither `constant` nor `holds`"
        )
        code = "given-twice" if constant is not None else "missing-key"
        findings.report(code, f"{what} {said}", name.span, advice="write `constant: …`, or `holds: …`")
        return None
    return FieldSpec(name, bits, constant, holds, unit)


def read_program(node: Node | None, findings: Findings) -> ProgramSpec | None:
    """Return the program format that the key `program` describes."""
    if node is None:
        return None
    keys = read_mapping(node, "`program`", PROGRAM, findings)
    bits = read_number(keys.get("word_bits"), "`word_bits`", findings, lowest=LEAST_BITS, whole=True)
    if bits is not None and bits > MOST_BITS:
        findings.report(
            "number-out-of-range", f"`word_bits` is {bits:g}; it should be at most {MOST_BITS}",
            keys["word_bits"].span,
        )  # fmt: skip
    begin = read_encoding(keys.get("begin"), "`begin`", findings)
    source = read_text(keys.get("source"), "`source`", findings)
    issue = read_text(keys.get("issue"), "`issue`", findings)
    if issue is not None and issue.text not in issues():
        findings.unknown("unknown-issue", "way to give words", issue.text, issue.span, issues())
        issue = None
    first = read_number(keys.get("first_address"), "`first_address`", findings, lowest=0, whole=True)
    queues = (_read_queue(item, findings) for item in read_items(keys.get("tokens"), "`tokens`", findings))
    tables = (_read_table(*item, findings) for item in read_names(keys.get("tables"), "`tables`", findings))
    found = ProgramSpec(
        int(bits or 0),
        begin,
        source,
        issue,
        _read_end(keys.get("end"), findings),
        tuple(queue for queue in queues if queue is not None),
        tuple(table for table in tables if table is not None),
        int(first or 0),
        _read_bundle(keys.get("bundle"), findings),
    )
    return found if bits is not None else None


def _read_bundle(node: Node | None, findings: Findings) -> BundleSpec | None:
    if node is None:
        return None
    keys = read_mapping(node, "`bundle`", BUNDLE, findings)
    words = {
        key: EncodingSpec((_read_word(keys[key], findings),), keys[key].span)
        for key in ("marks", "loop")
        if key in keys
    }
    slots: list[SlotSpec] = []
    for item in read_items(keys.get("slots"), "`slots`", findings):
        own = read_mapping(item, "a slot", SLOT, findings)
        unit, bits = (read_text(own.get(key), f"`{key}` of a slot", findings) for key in SLOT.values)
        slots += [SlotSpec(unit, bits)] if unit is not None and bits is not None else []
    marks = words.get("marks")
    return BundleSpec(tuple(slots), marks, words.get("loop"), node.span) if marks is not None else None


def _read_end(node: Node | None, findings: Findings) -> tuple[ScalarNode, EncodingSpec] | None:
    if node is None:
        return None
    keys = read_mapping(node, "`end`", END, findings)
    unit = read_text(keys.get("unit"), "`unit` of `end`", findings)
    words = read_encoding(keys.get("words"), "`words` of `end`", findings)
    return (unit, words) if unit is not None and words is not None else None


def _read_queue(node: Node, findings: Findings) -> QueueSpec | None:
    keys = read_mapping(node, "a queue of `tokens`", QUEUE, findings)
    giver, taker = (read_text(keys.get(key), f"`{key}` of `tokens`", findings) for key in ("from", "to"))
    depth = read_number(keys.get("depth"), "`depth` of `tokens`", findings, lowest=1, whole=True)
    if giver is None or taker is None or depth is None:
        return None
    return QueueSpec(giver, taker, int(depth))


def _read_table(name: ScalarNode, node: Node, findings: Findings) -> tuple[str, int] | None:
    what = f"table `{name.text}`"
    keys = read_mapping(node, what, TABLE, findings)
    bits = read_number(
        keys.get("word_bits"), f"`word_bits` of {what}", findings, lowest=LEAST_BITS, whole=True
    )
    return (name.text, int(bits)) if bits is not None else None
