#!/usr/bin/env python3
"""Fails if a file includes a header of a layer that it must not see (docs/ARCHITECTURE.md, "Layers").

usage: check-layers.py ROOT
"""
import pathlib
import re
import sys

# Folder -> folders of ours whose headers it may include (itself always), and whether it may see MLIR.
RUNTIME = ["runtime/plan", "runtime/support"]
ALLOWED = {
    "runtime/support": [],
    "runtime/plan": ["runtime/support"],
    "runtime/checkpoint": RUNTIME,
    "runtime/device": ["runtime/support"],
    "runtime/comm": RUNTIME + ["runtime/device"],
    "runtime/backend": RUNTIME + ["runtime/device"],
    "runtime/data": RUNTIME,
    "runtime/executor": RUNTIME + ["runtime/checkpoint", "runtime/comm", "runtime/backend", "runtime/data",
                                   "runtime/device"],
    "dialects/dist": [],
    "dialects/graph": ["dialects/dist"],
    "strategies/search": ["strategies/space/StrategyGraph"],
    "strategies/cost": ["dialects/dist", "dialects/graph/Graph.h", "strategies/space", "runtime/support/Nesting.h"],
    "strategies/space": ["dialects", "strategies/cost", "strategies/search"],
    "compiler/import": ["dialects", "runtime/support/InitialValues.h"],
    "compiler/autodiff": ["dialects"],
    "compiler/partition": ["dialects"],
    "compiler/hybrid": ["dialects", "strategies/assign/UserStrategies.h", "runtime/support/Nesting.h"],
    "compiler/emit": ["dialects", "compiler/partition", "compiler/import/Weights.h", "runtime/plan", "runtime/support"],
}
NO_MLIR = ["runtime", "strategies/search", "strategies/space/StrategyGraph"]
# Only these see the plan's generated code on the compiler's side.
PLAN_USERS = ["runtime", "compiler/emit", "tools", "test"]
TOP = {"CMakeLists.txt", "compiler", "runtime", "dialects", "strategies", "tools", "test", "docs", "README.md",
       "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CMakePresets.json"}


def main(root: pathlib.Path) -> int:
    errors = []
    for entry in sorted(root.iterdir()):
        if not entry.name.startswith(".") and not entry.name.startswith("build") and entry.name not in TOP:
            errors.append(f"{entry.name}: the top level is fixed")
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cpp", ".cu"}:
                continue
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
                if not match:
                    continue
                header = match.group(1)
                where = f"{name}:{number}: includes {header}"
                if header.startswith(("runtime/", "dialects/", "strategies/", "compiler/", "tools/", "test/")):
                    if not any(header.startswith(a) for a in allowed + [folder + "/"]):
                        errors.append(f"{where}: {folder} may not see it")
                if "plan.pb.h" in header and not any(name.startswith(u) for u in PLAN_USERS):
                    errors.append(f"{where}: only compiler/emit and the runtime see the plan")
                if header.startswith("mlir/") and any(name.startswith(n) for n in NO_MLIR):
                    errors.append(f"{where}: this layer knows no MLIR")
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
