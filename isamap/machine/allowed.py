"""The allow-lists: all flags, functions and devices that a description may name.

A description is not trusted. It can name only flags and functions listed in `hw_specs/families`, and no path.
These files belong to isamap, one for each family of processors. No description adds to them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from isamap.hw_specs import families_text
from isamap.source.cache import digest, recall_or_make
from isamap.source.records import dataclass, field

TOOLCHAINS = ("clang", "gcc", "nvcc", "zig")
RUNS = ("native", "emulator", "model")


@dataclass(frozen=True, slots=True)
class AllowedHeader:
    """A C header: a pattern for the functions that may be called from it, and its name in messages.

    A header of isamap's own is not a file: its `text` is printed in front of the code that calls it.
    """

    functions: str
    shown: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class WordPart:
    """One argument of a macro that issues encoded words: a word, or the number in some bits of a word."""

    word: int
    bits: tuple[int, int] | None = None

    @staticmethod
    def of(text: str) -> WordPart:
        """Return the parsed part of a word: `1` is the second word, `0[31..25]` bits of the first one."""
        found = re.fullmatch(r"([0-9])(?:\[([0-9]+)\.\.([0-9]+)\])?", text)
        assert found is not None, "the files are isamap's own"
        return WordPart(int(found[1]), (int(found[2]), int(found[3])) if found[2] else None)

    def get(self, word: int) -> int:
        """Return the number that these bits of a word encode."""
        high, low = self.bits or (word.bit_length(), 0)
        return word >> low & (1 << high - low + 1) - 1


@dataclass(frozen=True, slots=True)
class IssueForm:
    """A C macro by which a processor gives an accelerator a fixed number of words at once.

    `define` is the macro, `call` its name, and `given` its arguments. `end` is the statement that waits
    until all work is done.
    """

    words: int
    call: str
    given: tuple[WordPart, ...]
    define: str
    end: str

    @staticmethod
    def of(content: Any) -> IssueForm:
        """Return the macro that a file describes."""
        given = tuple(WordPart.of(str(part)) for part in content["given"])
        return IssueForm(content["words"], content["call"], given, content["define"].strip(), content["end"])

    def takes_any(self, word: int) -> bool:
        """Return whether one of the words may have any value. The other words have constant bits."""
        return WordPart(word) in self.given


@dataclass(frozen=True, slots=True)
class Runs:
    """An emulator: a program that runs programs of another processor.

    `target` is the compiler's option to make such a program, `before` the words before its name, `package`
    the Debian package that has it. `support` are functions in C that compilers call, and that their
    libraries for the target may lack.
    """

    target: tuple[str, ...]
    package: str
    before: tuple[str, ...] = ()
    support: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device other than the processor, whose kernels are printed after a `prelude` in its language.

    `library` are its drivers ("" if isamap has no host code for it). Their function `counted_by` counts devices.
    Files of kernels end in `ending`. The command `compile` makes files of them that end in `image`. `driver` are
    the functions that load an image, find a kernel, launch it and unload the image. A kernel may declare
    `declared_bytes` of arrays of a block (0: any number). A launch may reserve more if the driver's function
    `permit` sets the attribute `permitted` of the kernel.
    `tensors` is torch's device type of the arrays that the kernels access. `capability` is the lowest compute
    capability that runs the kernels. A device fits if its first number is the same and its capability is not lower.
    """

    library: str = ""
    counted_by: str = ""
    prelude: str = ""
    ending: str = "c"
    compile: str = ""
    image: str = ""
    driver: Mapping[str, str] = field(default_factory=dict[str, str])
    declared_bytes: int = 0
    permitted: int = 0
    tensors: str = ""
    capability: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """The names of one processor family that descriptions may use.

    `flags` are patterns of compiler flags, by readable name. `-m` as a prefix would admit flags that load
    code or write files (-mllvm), and -Ofast changes the floating-point control of the whole process.
    `features` are the features that detection knows, by their names in Linux's /proc/cpuinfo. `told` maps
    each compiler to its flags for them. `hwcaps` gives the key of a word of a process's auxiliary vector,
    and the number of a bit. `permissions` are granted by the operating system on request. The value is the
    number of the state component for arch_prctl. `denied` matches functions of allowed headers that do more
    than compute. `vectors` matches types of one vector register, without masks and pairs. `widths` gives the
    bits of such types, by pattern, where C casts between types of equal width keep the bits. `sizeless`
    matches those `types` whose length the processor determines. `bytes_asked` is the function that returns the
    bytes of a vector register. `registers` is the number of registers of a sizeless type, by pattern.
    `emulators` are programs that run code for these processors. `attributes` are function attributes that
    targets may use, and `issues` are the ways to give words to an accelerator. `devices` are other devices
    than the processor, by the feature that names them. `supports` are features that a program can ask for at run
    time, each with its name in `__builtin_cpu_supports` of gcc and clang.
    """

    flags: Mapping[str, str] = field(default_factory=dict[str, str])
    features: tuple[str, ...] = ()
    permissions: Mapping[str, int] = field(default_factory=dict[str, int])
    headers: Mapping[str, AllowedHeader] = field(default_factory=dict[str, AllowedHeader])
    denied: str = "(?!)"
    types: str = "(?!)"
    vectors: str = "(?!)"
    sizeless: str = "(?!)"
    bytes_asked: str = ""
    registers: Mapping[str, float] = field(default_factory=dict[str, float])
    shown_types: str = ""
    told: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    hwcaps: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    emulators: Mapping[str, Runs] = field(default_factory=dict[str, Runs])
    attributes: tuple[str, ...] = ()
    issues: Mapping[str, IssueForm] = field(default_factory=dict[str, IssueForm])
    devices: Mapping[str, Device] = field(default_factory=dict[str, Device])
    supports: Mapping[str, str] = field(default_factory=dict[str, str])
    widths: Mapping[str, int] = field(default_factory=dict[str, int])

    @staticmethod
    def of(content: Any) -> Family:
        """Return the family that a file describes."""
        types: Any = content.get("types", {})
        return Family(
            content.get("flags", {}),
            tuple(content.get("features", ())),
            dict(content.get("permissions", {})),
            {
                name: AllowedHeader(header["functions"], header["shown"], header.get("text", ""))
                for name, header in content.get("headers", {}).items()
            },
            content.get("denied", "(?!)"),
            types.get("names", "(?!)"),
            types.get("vectors", "(?!)"),
            types.get("sizeless", "(?!)"),
            types.get("bytes_asked", ""),
            types.get("registers", {}),
            types.get("shown", ""),
            content.get("told", {}),
            {name: (key, bit) for name, (key, bit) in content.get("hwcaps", {}).items()},
            {
                name: Runs(
                    tuple(runs["target"]),
                    runs["package"],
                    tuple(runs.get("before", ())),
                    runs.get("support", ""),
                )
                for name, runs in content.get("emulators", {}).items()
            },
            tuple(content.get("attributes", ())),
            {name: IssueForm.of(form) for name, form in content.get("issues", {}).items()},
            _devices_of(content.get("devices", {})),
            content.get("supports", {}),
            types.get("widths", {}),
        )


def _devices_of(content: Mapping[str, Any]) -> dict[str, Device]:
    """Return devices by name. A device that `extends` another one has its values for all keys that it lacks."""
    found = dict[str, dict[str, Any]]()
    for name, device in content.items():
        found[name] = {**(content[device["extends"]] if "extends" in device else {}), **device}
    return {
        name: Device(**{key: value for key, value in device.items() if key != "extends"})
        for name, device in found.items()
    }


@cache
def families() -> tuple[Family, ...]:
    """Return all families of processors, C itself first. Their files are read once per process."""
    texts = families_text()
    contents = recall_or_make(
        "families",
        digest(sys.version, *texts),
        json.loads,
        lambda: _read_families(texts),
        lambda contents: json.dumps(contents).encode(),
    )
    return tuple(Family.of(c) for c in sorted(contents, key=lambda c: (c["family"] != "c", c["family"])))


def _read_families(texts: Iterable[str]) -> list[Any]:
    import yaml

    from isamap.machine.tree import yaml_loader

    return [yaml.load(text, yaml_loader()) for text in texts]


def headers() -> dict[str, AllowedHeader]:
    """Return the allowed headers by name, with the functions that may be called from each."""
    return {name: header for family in families() for name, header in sorted(family.headers.items())}


def features() -> tuple[str, ...]:
    """Return the features of all processor families."""
    return tuple(feature for family in families() for feature in family.features)


def supports() -> dict[str, str]:
    """Return the features that a program can query at run time, with their names in compilers."""
    return {name: named for family in families() for name, named in family.supports.items()}


def devices() -> dict[str, Device]:
    """Return the known devices by the feature that names them."""
    return {name: device for family in families() for name, device in family.devices.items()}


def device_of(features: Sequence[str]) -> Device | None:
    """Return the device that the features name, or None. If several name one, the last counts."""
    known = devices()
    return next((known[feature] for feature in reversed(features) if feature in known), None)


def attributes() -> tuple[str, ...]:
    """Return the attributes that functions may have."""
    return tuple(attribute for family in families() for attribute in family.attributes)


def issues() -> dict[str, IssueForm]:
    """Return the known ways to issue encoded instructions to an accelerator."""
    return {name: form for family in families() for name, form in family.issues.items()}


def support(target: tuple[str, ...]) -> str:
    """Return the C functions that programs may lack if a compiler builds them for this target, as text."""
    return next((runs.support for runs in emulators().values() if runs.target == target), "")


def compiler_flags(needed: Iterable[str], toolchain: str) -> tuple[str, ...]:
    """Return the compiler flags that enable features. Features after a `start` are joined in one flag."""
    needed, flags = tuple(needed), list[str]()
    for words in (family.told.get(toolchain, {}) for family in families()):
        named = [words[feature] for feature in needed if feature in words]
        flags += ["".join((words["start"], *named))] if named and "start" in words else named
    return tuple(flags)


def told_by(needed: Iterable[str]) -> tuple[tuple[str, int, int], ...]:
    """Return the features that Linux reports in the auxiliary vector, each with its key and bit number."""
    known = {name: bit for family in families() for name, bit in family.hwcaps.items()}
    return tuple((feature, *known[feature]) for feature in needed if feature in known)


def emulators() -> dict[str, Runs]:
    """Return the known emulators of other processors, by name."""
    return {name: runs for family in families() for name, runs in family.emulators.items()}


def permission_numbers() -> dict[str, int]:
    """Return the state components that the operating system grants on request, by their number for arch_prctl."""
    return {name: number for family in families() for name, number in family.permissions.items()}


def shown_flags() -> tuple[str, ...]:
    """Return the allowed compiler flags in the form that messages show."""
    return tuple(shown for family in families() for shown in family.flags)


def shown_types() -> str:
    """Return the allowed C types in the form that messages show."""
    return ", ".join(family.shown_types for family in families() if family.shown_types)


def is_flag(flag: str) -> bool:
    """Return whether a compiler flag is allowed."""
    return any(re.fullmatch(pattern, flag) for family in families() for pattern in family.flags.values())


def is_c_type(name: str) -> bool:
    """Return whether a C type may hold a register operand."""
    return any(re.fullmatch(family.types, name) for family in families())


def is_vector_type(name: str) -> bool:
    """Return whether a C type is one vector register, and neither a mask nor a tuple of vectors."""
    return any(re.fullmatch(family.vectors, name) for family in families())


@cache
def register_width(c_type: str | None) -> str:
    """Return the bits of a C register type, or its name. A C cast between equal widths keeps the bits."""
    known = (pair for family in families() for pair in family.widths.items())
    return next((str(bits) for pattern, bits in known if re.fullmatch(pattern, c_type or "")), str(c_type))


def is_sizeless(name: str) -> bool:
    """Return whether only run time knows the size of a C type, so that `sizeof` cannot be used."""
    return any(re.fullmatch(f.sizeless, name) for f in families() if re.fullmatch(f.types, name))


def asked_bytes(name: str, held: int) -> tuple[str, int] | None:
    """Return the C function that gives the bytes of a vector register, and the registers in a C type, or None."""
    for family in families():
        for pattern, registers in family.registers.items():
            if re.fullmatch(pattern, name):
                return family.bytes_asked, int(held / registers)
    return None


def is_cast(name: str) -> bool:
    """Return whether a C type may be cast to: an allowed type, or a pointer to one, to void or to char."""
    pointer = re.fullmatch(r"(?:const )?(.+?)(?: const)? ?\*", name)
    return is_c_type(name) if pointer is None else pointer[1] == "void" or is_c_type(pointer[1])


def declares(named: Iterable[str], function: str) -> bool:
    """Return whether one of the named headers declares the function and a description may call it."""
    if any(re.fullmatch(family.denied, function) for family in families()):
        return False
    known = headers()
    return any(re.fullmatch(known[name].functions, function) for name in named if name in known)


def c_type_keys() -> tuple[str, ...]:
    """Return the keys of `c_types`: element types, and `default`."""
    from isamap.ir import DTYPES  # brings numpy, which detection does without

    return (*DTYPES, "default")
