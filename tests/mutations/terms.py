"""Emitted C whose operations are uninterpreted: two programs that agree in it compute the same terms.

    v3 = _mm256_fmadd_ps(v1, v2, v3);      ->  each lane of v3 is hashed out of the same lane of its operands
    v4 = exp_f32_2(v3);                    ->  the bits of v4 are hashed out of the bits of v3
    v5 = _mm256_loadu_ps(x + 8*n);         ->  unchanged: loads, stores, permutations and widenings move bits
    v6 = mac_i32(v6, v7, v8);              ->  unchanged: random integers tell polynomials apart

This is random interpretation (Gulwani and Necula, POPL 2003). Loops, conditions and addresses depend on no
data, so that each element of a result is one term of elements of inputs, of operations that are a function of
their lanes each. Equal terms have equal hashes. Two different terms have the same hash in all runs with a
probability below (d / 2**w) ** runs, w being the bits of the narrowest result on the way and d the number of
operations on it. Programs of equal terms give the same bits on all data, whatever the operations are.

A program is refused that holds anything that is neither known to move bits nor to be a function of lanes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

RUNS = 8
"""Runs, each with other inputs and other hashes; of half of them rows lie apart."""
HASH_SEED = "ISAMAP_HASH_SEED"
"""The variable that says which hashes a run has."""

_MOVES = re.compile(
    r"(?:_mm(?:256)?_(?:load|store|set|setzero|set1|broadcast|cast|insert|extract|unpack|permute|shuffle|alignr"
    r"|blend_|cvtep[iu](?:8|16|32)_epi(?:16|32|64)|madd_|(?:add|sub|mullo)_epi(?:8|16|32|64)|slli|bslli|bsrli"
    r"|movehl|movelh|maskload|maskstore|cvtph_ps|cvtss_f32|cvtsi)\w*|__attribute__|__builtin_shufflevector|memcpy"
    r"|memset|sizeof|defined|INT64_C|floor_div|mask_\d+|if|for|while|return|LAST_USE|READ_ONCE|ONE_SUM)$"
)
"""Words before a bracket that hand on bits, or add and multiply integers."""
_LANEWISE = re.compile(
    r"_mm(?:256)?_(?:add|sub|mul|div|max|min|fn?m(?:add|sub)|sqrt|round|floor|ceil|and|andnot|or|xor|cmp\w*"
    r"|blendv|cvtepi32|cvtt?ps|adds|subs|mulhi|mulhrs|abs|sign|srai?|srl|srli|srav|srlv|sllv|maddubs|avg"
    r"|dpbusds?|dpwssds?)_(?:avx_)?(ps|pd|epi8|epi16|epi32|epi64|epu8|epu16|epu32|si256|si128)$"
)
_MASK = re.compile(r"_mm256_cmpgt_epi(32|64)(?=\(_mm256_set1_epi\w+\([^()]*\), _mm256_setr_)")
"""A comparison of a number of elements with those of lanes: a mask of a move, and no operation on data."""
_BYTES = {"ps": 4, "pd": 8, "epi8": 1, "epi16": 2, "epi32": 4, "epi64": 8, "epu8": 1, "epu16": 2, "epu32": 4}
_WIDER = {"maddubs": 2, "dpbusd": 4, "dpbusds": 4, "dpwssd": 4, "dpwssds": 4}
FUNCTION = re.compile(
    r"^static inline (?P<type>[^;{}=()]*?)\b(?P<name>\w+)\((?P<parameters>[^;{}()]*)\) \{\n(?P<body>.*?)^\}",
    re.MULTILINE | re.DOTALL,
)
_IDENTITY = re.compile(
    r"\s*(\w+ z;\s*z = v;\s*return z;|__asm__ volatile\(.*?\);\s*return x;)\s*$", re.DOTALL
)
_MOVING = re.compile(
    r"\w+(?: \w+)? \w+;|\w+ = \w+\[0\];|\w+\[0\] = \w+;|return \w+;|memcpy\(&?\w+, &?\w+, sizeof \w+\);"
    r"|(?:\w+ )?\w+ = (?:\(\w+\))?\w+\([^\[]*\);|_mm\w*_store\w+\([^\[]*\);"
)
_HASHES = r"""
#ifndef HASHES
#define HASHES
extern char *getenv(const char *);
static uint64_t mixed_(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0xff51afd7ed558ccdu;
  h = (h ^ (h >> 32)) * 0xc4ceb9fe1a85ec53u;
  return h ^ (h >> 29);
}
static void lanes_(void *to, unsigned size, unsigned lane, uint64_t what, int odd, int even, int count,
                   const void *const *from, const unsigned *sizes) {
  static uint64_t seed = 0;
  if (seed == 0) {
    for (const char *digit = getenv("ISAMAP_HASH_SEED"); *digit; digit++) {
      seed = mixed_(seed, (uint64_t)*digit + 1);
    }
  }
  for (unsigned at = 0; at < size; at += lane) {
    uint64_t h = mixed_(seed, what), given[8], top = (uint64_t)1 << (8 * lane - 1), sign = 0;
    for (int n = 0; n < count; n++) {
      unsigned whole = sizes[n] <= 8 && (sizes[n] != size || lane == size), first = whole ? 0 : at;
      unsigned bytes = whole ? sizes[n] : lane;
      if (!whole && sizes[n] != size) __builtin_trap();
      uint64_t x = 0;
      __builtin_memcpy(&x, (const char *)from[n] + first, bytes);
      given[n] = x;
    }
    if (odd && given[0] > given[1]) { /* a - b is -(b - a) */
      uint64_t first = given[0];
      given[0] = given[1];
      given[1] = first;
      sign = top;
    }
    if (even >= 0) { /* (-a) * b is -(a * b) */
      sign = (given[even] ^ given[even + 1]) & top;
      given[even] &= ~top;
      given[even + 1] &= ~top;
    }
    for (int n = 0; n < count; n++) h = mixed_(h, given[n]);
    if (even >= 0 && count == 3) h = mixed_(h, sign);
    if (odd || (even >= 0 && count == 2)) h = (h & ~top) | sign;
    __builtin_memcpy((char *)to + at, &h, lane);
  }
}
#endif
"""


class Unknown(Exception):
    """Something of a program that is neither known to move bits nor to be a function of lanes."""


def with_hashes(text: str, start: int, indices: Collection[str] = ()) -> str:
    """Return a program whose operations are hashes; its own loops begin at `start`. Raises: Unknown.

    Conditions and addresses may depend on the arrays `indices`, all values of which have to be tried.
    """
    head, body = text[:start], text[start:]
    checks = re.search(
        r"^(?:#|__attribute__|static int \w+_(?:ascending|within)_|size_t \w+_workspace_bytes\()",
        body,
        re.MULTILINE,
    )
    assert checks is not None
    body, behind = re.sub(r"/\*.*?\*/", "", body[: checks.start()]), body[checks.start() :]
    if re.search(r"\bv\d+ *[-+*/%<>&|^?]|[-+*/%<>|^?] *v\d+\b|(?:if|for) \([^\n]*\bv\d+", body):
        raise Unknown("an operation on data outside of a call, or a condition on data")
    if not set(re.findall(r"(\w+)\[", body)) <= set(indices):
        raise Unknown("an address or a condition that depends on data")
    known = {m["name"]: m for m in FUNCTION.finditer(head)}
    own = set(re.findall(r"\b(\w+)\($", body, re.MULTILINE))
    moving: dict[str, str] = {}
    made: dict[str, str] = {}

    def renamed(part: str) -> str:
        for name in sorted(set(re.findall(r"\b([A-Za-z_]\w*)\(", part)) - own):
            if _MOVES.match(name):
                continue
            if name in known and _is_operation(known[name], known):
                made[name] = _hashing(
                    name,
                    known[name]["parameters"].count(",") + 1,
                    _lane(known[name]),
                    _symmetry(name, known[name]["body"]),
                )
            elif (found := _LANEWISE.match(name)) is not None:
                operation = name.split("_")[2]
                made[name] = _variadic(name, _WIDER.get(operation) or _BYTES.get(found[1], 4))
            elif name in known:
                plain = _IDENTITY.match(known[name]["body"]) or _keeps_bits(known[name], known)
                if name not in moving and not plain:
                    _refuse_unless_moving(known[name])
                    moving[name] = ""
            else:
                raise Unknown(name)
        return re.sub(
            r"\b(\w+)\(", lambda m: f"hashed_{m[1]}(" if m[1] in made and m[1] not in own else m[0], part
        )

    body = _MASK.sub(r"mask_\1", body)
    body = renamed(body).replace("mask_32(", "_mm256_cmpgt_epi32(").replace("mask_64(", "_mm256_cmpgt_epi64(")
    for name in list(moving):
        moving[name] = renamed(known[name]["body"])
    for name, changed in moving.items():
        head = head.replace(known[name][0], known[name][0].replace(known[name]["body"], changed))
    # Operations are named in front, as functions that move bits call them.
    first = head.index("static inline") if "static inline" in head else len(head)
    return head[:first] + _HASHES + "".join(made.values()) + head[first:] + body + behind


def _canonical(name: str) -> str:
    """Return one name for an operation in code of numbers and of vectors: `add f32` of `_mm256_add_ps`."""
    if (found := re.match(r"_mm(?:256)?_(\w+)_(ps|pd)$", name)) is not None:
        return f"{found[1]} {'f32' if found[2] == 'ps' else 'f64'}"
    if (found := re.match(r"(\w+?)_(f\d+)(?:x\d+)?(?:_\d+)?$", name)) is not None:
        return f"{found[1]} {found[2]}"
    return name


_RING = re.compile(r"(?:[\w\s+;={}()]|[\w)] ?\* ?[\w(]|(?<=\w) - (?=\w))*$")
_SHIFTS = re.compile(r"memcpy\(&\w+, &\w+, sizeof \w+\)|\((?:u?int(?:16|32)_t)\)|<< \d+|\w+\(")


def _keeps_bits(function: re.Match[str], known: Mapping[str, re.Match[str]]) -> bool:
    """Return whether a function of numbers is of a ring of integers, or moves bits: its own bits, widened.

    Sums and products of integers are polynomials, which random numbers tell apart as hashes do. So padding
    that is multiplied with zero is seen to be of no account.
    """
    kinds = [*re.findall(r"(\w+) \w+(?:,|$)", function["parameters"]), function["type"].split()[-1]]
    is_whole = all(re.fullmatch(r"u?int\d+_t", kind) for kind in kinds)
    widths = [int(n) for n in re.findall(r"\d+", " ".join(kinds))]
    if (
        is_whole
        and widths[-1] == max(widths)
        and _RING.match(function["body"])
        and not _calls(function["body"])
    ):
        return True
    called = [known.get(name) for name in _calls(function["body"])]
    plain = _SHIFTS.sub("", function["body"])
    is_wider = all(w <= widths[-1] for w in widths) and "(float)" not in plain
    return (
        is_wider
        and re.fullmatch(r"[\w\s;=()]*", plain) is not None
        and all(f and _keeps_bits(f, known) for f in called)
    )


def _calls(body: str) -> set[str]:
    return set(re.findall(r"\b(\w+)\(", body)) - {"memcpy"}


def _is_operation(function: re.Match[str], known: Mapping[str, re.Match[str]]) -> bool:
    by_value = "*" not in function["parameters"] and function["type"].strip() != "void"
    return by_value and not _keeps_bits(function, known) and not _IDENTITY.match(function["body"])


def _lane(function: re.Match[str]) -> str:
    """Return the bytes of a lane: of a vector of floats those of one, of a number all of them."""
    vector = re.search(r"[fiu](8|16|32|64)x\d+\s*$", function["type"].strip())
    return str(int(vector[1]) // 8) if vector is not None else "sizeof made_"


def _refuse_unless_moving(function: re.Match[str]) -> None:
    """Raise Unknown for a function that does more than call others and compute addresses."""
    lines = [line.strip() for line in function["body"].strip().splitlines()]
    own = re.findall(r"(\w+)(?:,|$)", function["parameters"])
    operands = re.findall(r"(\w+)\)? ?[-+*/%<>|^?] ?\(?(?=\w)", re.sub(r"\([\w ]+\*\)", "", function["body"]))
    if not all(_MOVING.fullmatch(s) for s in lines) or not all(o in own or o.isdigit() for o in operands):
        raise Unknown(function["name"])


_ODD, _PRODUCT, _PRODUCT_AND_SUM, _SUM_AND_PRODUCT, _NO_SYMMETRY = "1, -1", "0, 0", "0, 0", "0, 1", "0, -1"
"""Operations whose first two numbers change the sign where they change places; which numbers are factors."""


def _symmetry(name: str, body: str = "") -> str:
    """Return how an operation on floats depends on signs, exactly: by an intrinsic's name, or by a body."""
    plain = " ".join(body.split())
    if re.match(r"_mm(?:256)?_sub_p[sd]$", name) or re.match(
        r"(float|double) z; z = a - b; return z;", plain
    ):
        return _ODD
    if re.match(r"_mm(?:256)?_mul_p[sd]$", name) or re.match(
        r"(float|double) z; z = a \* b; return z;", plain
    ):
        return _PRODUCT
    if re.match(r"_mm(?:256)?_fmadd_p[sd]$", name):
        return _PRODUCT_AND_SUM
    is_sum = name.startswith(("mac_f32", "mac_f64")) and plain == "c += a * b; return c;"
    return _SUM_AND_PRODUCT if is_sum else _NO_SYMMETRY


def _hashing(name: str, count: int, lane: str, symmetry: str) -> str:
    letters = [f"a{n}" for n in range(count)]
    given, values = ", ".join(letters), " ".join(f"__typeof__({a}) {a}_ = ({a});" for a in letters)
    places, sizes = ", ".join(f"&{a}_" for a in letters), ", ".join(f"sizeof {a}_" for a in letters)
    return (
        f"#undef hashed_{name}\n"
        f"#define hashed_{name}({given}) ({{ __typeof__({name}({given})) made_; {values} "
        f"lanes_(&made_, sizeof made_, {lane}, 0x{_number(_canonical(name)):x}u, {symmetry}, {count}, "
        f"(const void *const[]){{{places}}}, (const unsigned[]){{{sizes}}}); made_; }})\n"
    )


def _variadic(name: str, lane: int) -> str:
    """Return a macro for an intrinsic, whose number of operands its name tells."""
    operation = name.split("_")[2]
    one, three = (
        ("sqrt", "floor", "ceil", "abs", "cvtepi32", "cvtps", "cvttps"),
        ("fm", "fnm", "blendv", "dp"),
    )
    count = (
        1
        if operation in one
        else 3
        if operation.startswith(three) or name.endswith(("_cmp_ps", "_cmp_pd"))
        else 2
    )
    return _hashing(name, count, str(lane), _symmetry(name))


def _number(name: str) -> int:
    number = 14695981039346656037
    for letter in name.encode():
        number = (number ^ letter) * 1099511628211 % (1 << 64)
    return number


# --- all numbers -----------------------------------------------------------------------------------------

_EVERY = """
static int is_same_{function}(float number, const void *a, const void *b) {{
  {element} x, y;
  __builtin_memcpy(&x, a, sizeof x);
  __builtin_memcpy(&y, b, sizeof y);
  return !__builtin_memcmp(a, b, sizeof x) || {also};
}}
uint64_t {function}__differs(void) {{
  uint64_t count = 0;
  for (uint64_t n = 0; n < (uint64_t)1 << {bits}; n += {lanes}) {{
    {parameter} x;
    for (uint64_t lane = 0; lane < {lanes}; lane++) {{
      uint64_t bits = n + lane;
      __builtin_memcpy((char *)&x + lane * {bits} / 8, &bits, {bits} / 8);
    }}
    {type} right = {function}(x), wrong = {function}__1(x);
    for (int lane = 0; lane < {lanes}; lane++) {{
      unsigned at = lane * sizeof right / {lanes};
      count += !is_same_{function}({number}, (char *)&right + at, (char *)&wrong + at);
    }}
  }}
  return count;
}}
"""
_BOTH_NAN = "(x != x && y != y)"
_NEAR = """
static double value_bf16(unsigned code) {
  uint32_t bits = (uint32_t)code << 16;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
static double value_f16(unsigned code) {
  int exponent = code >> 10 & 31;
  double x = code & 0x3ff;
  if (exponent == 31) return x != 0 ? __builtin_nan("") : code >> 15 ? -__builtin_inf() : __builtin_inf();
  if (exponent != 0) x += 1024;
  for (int power = exponent ? exponent : 1; power > 25; power--) x *= 2;
  for (int power = exponent ? exponent : 1; power < 25; power++) x /= 2;
  return code >> 15 ? -x : x;
}
#define NEAR(type, least) \\
  static int is_near_##type(float number, unsigned right, unsigned wrong) { \\
    double x = value_##type(right), y = value_##type(wrong), size = x < 0 ? -x : x; \\
    unsigned code = right & 0x7fffu, small = code <= least && (wrong & 0x7fffu) <= least; \\
    double place = code ? size - value_##type(code - 1) : value_##type(1), off = y - (double)number; \\
    return (x != x && y != y) || small || (y - y == 0 && off <= place && -off <= place); \\
  }
NEAR(bf16, 0x80)
NEAR(f16, 0x400)
"""
"""Results of 16 bits that `isamap verify` allows: within a unit in the last place, or flushed to zero."""


def tests_of_all_numbers(text: str, start: int, changed: str, place: int) -> tuple[str, tuple[str, ...]]:
    """Return C that compares all results of functions of one number with those of a text that was changed.

    They are the functions that enclose the change, at `place`, so that nothing else sees it; no names of
    functions where there are none of one number of at most 32 bits.
    """
    head = text[:start]
    known = {m["name"]: m for m in FUNCTION.finditer(head)}
    around = [name for name, m in known.items() if m.start("body") <= place < m.end("body")]
    todo, tested = list(around), dict[str, str]()
    while todo:
        function = known[name := todo.pop()]
        if name in tested:
            continue
        if (test := _test(function)) is not None:
            tested[name] = test
            continue
        callers = [n for n, m in known.items() if name in _calls(m["body"])]
        if re.search(rf"\b{name}\(", text[start:]) or not callers:
            return "", ()
        todo += callers
    wrong_head = changed[: start + len(changed) - len(text)]
    names = "|".join(known)
    wrong = re.sub(
        rf"\b(?:{names})(?=\()", r"\g<0>__1", re.sub(r"^#include.*$", "", wrong_head, flags=re.MULTILINE)
    )
    plain = re.sub(r'^#include ".*$', "#include <stddef.h>\n#include <stdint.h>", head, flags=re.MULTILINE)
    return plain + wrong + _NEAR + "".join(tested.values()), tuple(tested)


def _test(function: re.Match[str]) -> str | None:
    kind = function["type"].split()[-1]
    if (
        given := re.fullmatch(r"(float|u?int(?:8|16)_t|(f32)x(\d+)) \w+", function["parameters"].strip())
    ) is None:
        return None
    name, lanes = function["name"], int(given[3] or 1)
    element = "float" if given[2] else kind
    bits = 32 if given[1] == "float" or given[2] else int(re.sub(r"\D", "", given[1]))
    if kind == "float" or given[2]:
        also = _BOTH_NAN
    elif (
        kind == "uint16_t"
        and given[1] == "float"
        and (narrow := re.search(r"_(bf16|f16)(_\d+)?$", name)) is not None
    ):
        also = f"is_near_{narrow[1]}(number, x, y)"
    else:
        also = "0"
    if given[2] and kind != given[1]:
        return None
    return _EVERY.format(
        function=name,
        element=element,
        also=also,
        number="x" if lanes == 1 else "0",
        bits=bits,
        lanes=lanes,
        parameter=given[1],
        type=kind,
    )
