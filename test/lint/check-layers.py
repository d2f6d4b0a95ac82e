#!/usr/bin/env python3
"""Fails if a file includes a header of a layer that it must not see, or docs/ARCHITECTURE.md shows other layers.

usage: check-layers.py ROOT [--write]

layers.py has the table. --write puts the drawing and the table of folders into docs/ARCHITECTURE.md.
"""
import pathlib
import re
import sys

from layers import LAYERS, NO_MLIR, PLAN_USERS, TOP

BEGIN, END = "<!-- layers: written by test/lint/check-layers.py --write -->", "<!-- end of layers -->"
CODE = {".h", ".cpp", ".cu", ".inc", ".td"}
ROOMS = [layer.folder for layer in LAYERS]


def room_of(name):
    """The row that a file belongs to: the deepest folder above it."""
    inside = [r for r in ROOMS if name.startswith(r + "/")]
    return max(inside, key=len) if inside else None


def may_see(layer, header):
    """Whether a file of the layer may include the header. `FOLDER/*`: what lies in FOLDER itself."""
    if room_of(header) == layer.folder or header.startswith(layer.folder + "/"):
        return True
    for right in layer.sees:
        if right.endswith("/*") and header.rpartition("/")[0] == right[:-2]:
            return True
        if header == right or header.startswith(right + "/"):
            return True
    return False


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line):
            yield number, match.group(1)


def check_file(root, path, arrows):
    name = path.relative_to(root).as_posix()
    room = room_of(name)
    if not room:
        return [f"{name}: no row of test/lint/layers.py holds this folder"]
    layer, errors = LAYERS[ROOMS.index(room)], []
    for number, header in includes(path):
        where = f"{name}:{number}: includes {header}"
        if header.startswith(("runtime/", "dialects/", "strategies/", "compiler/", "tools/", "test/")):
            if not may_see(layer, header):
                errors.append(f"{where}: {room} may not see it")
            if (other := room_of(header)) and other != room:
                arrows.add((room, other))
        if "plan.pb.h" in header and not name.startswith(tuple(PLAN_USERS)):
            errors.append(f"{where}: only compiler/emit and the runtime see the plan")
        if header.startswith("mlir/") and name.startswith(tuple(NO_MLIR)):
            errors.append(f"{where}: this layer knows no MLIR")
    return errors


def floors(arrows):
    """The floor of every folder, above all folders that it includes. A cycle is an error."""
    height, open_rooms = {}, []

    def climb(room):
        if room in open_rooms:
            sys.exit(f"a circle of includes: {' -> '.join(open_rooms[open_rooms.index(room):] + [room])}")
        if room not in height:
            open_rooms.append(room)
            below = [climb(b) for a, b in arrows if a == room and not same_part(a, b)]
            open_rooms.pop()
            height[room] = 1 + max(below, default=-1)
        return height[room]

    for room in ROOMS:
        climb(room)
    return height


def same_part(a, b):
    """A folder and its subfolders are one part in the drawing: their headers may refer to each other."""
    return a.startswith(b + "/") or b.startswith(a + "/")


def drawing(arrows):
    """The drawing, top floor first. A row names the folders that one includes, without those that others of them lead to."""
    height = floors(arrows)
    below = {room: {b for a, b in arrows if a == room and not same_part(a, b)} for room in ROOMS}

    def reach(room):
        return below[room] | {deep for b in below[room] for deep in reach(b)}

    lines, width = [], max(map(len, ROOMS))
    for floor in range(max(height.values()), -1, -1):
        lines.append(f"floor {floor}")
        for room in (r for r in ROOMS if height[r] == floor):
            direct = [b for b in ROOMS if b in below[room] and not any(b in reach(c) for c in below[room])]
            lines.append(f"  {room:<{width}}  {'──> ' + ', '.join(direct) if direct else ''}".rstrip())
    return "\n".join(lines)


def chapter(arrows):
    rows = [f"| `{x.folder}` | {x.what} | {', '.join(f'`{s}`' for s in x.start.split(', '))} |" for x in LAYERS]
    return "\n".join([BEGIN, "", "```", drawing(arrows), "```", "", "| folder | what it is | start reading at |", "|---|---|---|",
                      *rows, "", END])


def main(root, write):
    errors, arrows = [], set()
    for entry in sorted(root.iterdir()):
        if not entry.name.startswith((".", "build")) and entry.name not in TOP:
            errors.append(f"{entry.name}: the top level is fixed")
    for top in ("compiler", "dialects", "runtime", "strategies", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in CODE:
                errors += check_file(root, path, arrows)
    for layer in LAYERS:
        if not (root / layer.folder).is_dir():
            errors.append(f"{layer.folder}: stands in test/lint/layers.py and not in the tree")
    page = root / "docs/ARCHITECTURE.md"
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + chapter(arrows) + after
    if write:
        page.write_text(wanted)
    elif wanted != text:
        errors.append("docs/ARCHITECTURE.md shows other layers: run test/lint/check-layers.py . --write")
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), "--write" in sys.argv[2:]))
