"""Images of states, such as tile configurations: the bytes that an instruction loads, declared in C."""

from __future__ import annotations

from isamap.machine import State


def state_image(state: State, fields: tuple[tuple[str, int | None, int], ...]) -> bytes:
    """Return the image of a state with the given (field, index, value); unnamed fields are zero."""
    image = bytearray(state.bytes)
    declared = {f.name: f for f in state.decl.fields}
    for name, index, value in fields:
        size = declared[name].dtype.size_bytes
        start = state.offsets[name] + (index or 0) * size
        image[start : start + size] = value.to_bytes(size, "little", signed=value < 0)
    return bytes(image)


def image_text(name: str, image: bytes) -> list[str]:
    """Return the declaration of an image in C."""
    rows = [image[i : i + 16] for i in range(0, len(image), 16)]
    lines = [f"static const _Alignas(64) uint8_t {name}[{len(image)}] = {{"]
    lines += [f"  {', '.join(str(b) for b in row)}," for row in rows]
    return [*lines, "};"]
