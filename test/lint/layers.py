"""The layers: which folder may include which, what a folder is for and where to start reading it.

One row a folder. A row of a folder holds for its subfolders that have none of their own. `sees` lists folders (or single
headers) whose headers it may include; a folder always sees itself and its subfolders. The table and the drawing in
docs/ARCHITECTURE.md are made of these rows (check-layers.py --write).
"""
from typing import NamedTuple


class Layer(NamedTuple):
    folder: str
    sees: list
    what: str
    start: str


PLAN = ["runtime/plan", "runtime/support"]
SEARCH = "strategies/search"
CUDA = "runtime/backend/cuda"

LAYERS = [
    Layer("dialects/dist", [], "how tensors and operators are distributed; knows no operator", "ShardingRule.h, Sharding.h, Reshard.h"),
    Layer("dialects/graph", ["dialects/dist", "runtime/support"], "what is computed, on global tensors: operators with their rules, and their writer",
          "GraphOps.td, GraphRules.cpp, OpWriter.h"),
    Layer("dialects/graph/flow", ["dialects/dist", "dialects/graph"],
          "a program as plain data: loops, messages, the order of execution, what lives when", "DataFlow.h"),
    Layer("strategies/space", ["dialects/dist", "dialects/graph"],
          "what can be chosen: strategies of an operator, an assignment of a function, the search problem as numbers",
          "StrategyGraph.h, FunctionAssignment.h"),
    Layer("strategies/overlap", ["dialects/dist", "dialects/graph", "strategies/time"],
          "which collectives run beside kernels: a rank's program as a task graph, its best schedule, what no schedule beats",
          "Overlap.h, LeastTime.h"),
    Layer("strategies/cost", ["dialects/dist", "dialects/graph", "strategies/space", "strategies/overlap", "runtime/support"],
          "what it costs: the machine given and measured, the formulas", "CostModel.h, Topology.h"),
    Layer(SEARCH, ["strategies/space/StrategyGraph.h"], "how it is chosen: the searchers; sees numbers only", "Search.h, Evaluate.h"),
    Layer(f"{SEARCH}/problem", ["strategies/space/StrategyGraph.h"], "the problem while it is being reduced; its flat form", "Problem.h"),
    Layer(f"{SEARCH}/reduce", [f"{SEARCH}/problem", "strategies/space/StrategyGraph.h"],
          "exact reductions, elimination, folding of equal layers", "Reduce.h"),
    Layer(f"{SEARCH}/bound", [f"{SEARCH}/problem", f"{SEARCH}/reduce"], "lower bounds, exact minimisation under memory", "Dual.h"),
    Layer(f"{SEARCH}/local", [f"{SEARCH}/problem", f"{SEARCH}/reduce"], "improving an answer", "Neighbourhood.h"),
    Layer(f"{SEARCH}/wide", [f"{SEARCH}/*", f"{SEARCH}/problem", f"{SEARCH}/bound", "strategies/space/StrategyGraph.h",
                             "strategies/space/InParallel.h", "strategies/space/WideGraph.h"],
          "a search over every option: what is dominated, a bound over all, what is left for a searcher", "SearchWide.h"),
    Layer("strategies/time", [], "when it happens: tasks, resources and memory as numbers, the judge of schedules, schedulers, a bound",
          "TaskGraph.h, Simulate.h, Schedule.h"),
    Layer("strategies/pipeline", ["strategies/time"], "micro-batches that pass through stages, as numbers: orders with names, a search for better ones",
          "Pipeline.h, FindOrder.h"),
    Layer("strategies/pipeline/stages", ["strategies/time"], "where a network is cut into stages, as numbers: the judge, a dynamic program, a bound",
          "StageProblem.h, FindStages.h"),
    Layer("strategies/user", ["dialects/dist", "dialects/graph", "strategies/space", "runtime/support"],
          "strategies that a person or an earlier run wrote", "UserStrategies.h, UserMapping.h"),
    Layer("strategies/graph", ["dialects/dist", "dialects/graph", "strategies/space", "strategies/cost", "strategies/user"],
          "from a function to the search problem", "BuildGraph.h"),
    Layer("strategies/report", ["dialects/dist", "dialects/graph", "strategies/space", "strategies/cost", "strategies/graph"],
          "what an assignment costs, per operator and in total; what else could have been chosen", "Report.h"),
    Layer("strategies/modes", ["dialects/dist", "dialects/graph", "strategies/space", "strategies/cost", "strategies/search/Search.h",
                               "strategies/search/wide/SearchWide.h", "strategies/user", "strategies/graph", "strategies/report"],
          "the modes data, semi-auto and auto", "Assign.h, Modes.h"),
    Layer("compiler/import", ["dialects", "runtime/support"], "ONNX to graph", "OnnxImport.h"),
    Layer("compiler/autodiff", ["dialects", "runtime/support"], "gradients: the pass and the table of rules", "Gradient.h, GradientRules*.cpp"),
    Layer("compiler/training", ["dialects", "compiler/autodiff"], "loss, optimizer, learning rate, micro-batches", "Training.h"),
    Layer("compiler/transform", ["dialects"], "precision, attention, recomputation, norms, simplification", "Passes.h"),
    Layer("compiler/partition", ["dialects", "runtime/support/UnsentNames.h"], "reshards, localisation, fusion, order", "Passes.h"),
    Layer("compiler/hybrid", ["dialects", "strategies/user/UserStrategies.h", "runtime/support"],
          "programs that are one rank's from the start", "Complete.h, Varying.h"),
    Layer("compiler/pipeline", ["dialects", "strategies/cost", "strategies/pipeline", "strategies/pipeline/stages", "runtime/support"],
          "a local program cut into the stages of a pipeline, and their order", "Passes.td, PlaceOperators.h, Calls.h"),
    Layer("compiler/emit", ["dialects", "compiler/partition", "compiler/import/Weights.h"] + PLAN,
          "places in memory and plan files", "Emit.h, PlanLayout.h"),
    Layer("compiler/driver", ["dialects", "strategies", "compiler", "runtime/plan/Recipe.h", "runtime/support"],
          "the phases in order, fitting the memory, what-if: the library behind tessera-compile", "Driver.h"),
    Layer("runtime/support", [], "status, files, hashes, text: what every layer may use", "Status.h"),
    Layer("runtime/plan", ["runtime/support"], "the plan's format, reader and checker: the contract between compiler and runtime",
          "plan.proto"),
    Layer("runtime/tensor", PLAN, "tensors in files and in other element types", "Safetensors.h, TensorSource.h"),
    Layer("runtime/checkpoint", PLAN + ["runtime/tensor"],
          "checkpoints: manifest, files, folder; whatever blocks were written, any others are read", "Manifest.h, Checkpoint.h"),
    Layer("runtime/device", ["runtime/support"], "the C ABI behind which all CUDA code lives, and its loader; `cuda/` is the module",
          "DeviceApi.h"),
    Layer("runtime/comm", PLAN + ["runtime/tensor", "runtime/device"],
          "collectives: threads of one process, MPI, `tcp/` between processes, `nccl/` between devices", "Communicator.h"),
    Layer("runtime/backend", PLAN + ["runtime/device"],
          "kernels: `reference` (the judge), `cpu` (oneDNN and own), `cuda`, `null`", "Backend.h"),
    Layer(f"{CUDA}/kernels", [], "CUDA C++ of fixed shape; CMake embeds it as text", "attention/Forward.cu"),
    Layer(f"{CUDA}/text", PLAN + ["runtime/backend/*", f"{CUDA}/kernels"], "CUDA C++ that is generated: pieces of kernels", "Source.h"),
    Layer(f"{CUDA}/layout", PLAN + ["runtime/backend/*"], "tensors that lie elsewhere than the plan says: with their rows further apart, or small", "PaddedRows.h"),
    Layer(f"{CUDA}/bind", PLAN + ["runtime/backend/*", "runtime/device", f"{CUDA}/text", f"{CUDA}/kernels", f"{CUDA}/layout"],
          "from a call to device work, as plain data", "CudaKernel.h, Bind.cpp"),
    Layer(f"{CUDA}/join", PLAN + ["runtime/backend/*", "runtime/device", f"{CUDA}/text", f"{CUDA}/bind"],
          "steps that run as one; which stream runs what", "JoinedSteps.h, StreamSchedule.h"),
    Layer(f"{CUDA}/count", PLAN + ["runtime/backend/*", "runtime/device", f"{CUDA}/bind", f"{CUDA}/join", f"{CUDA}/layout"],
          "what a device would run of a plan, as numbers; needs no device", "CountWork.h"),
    Layer(f"{CUDA}/run", PLAN + ["runtime/backend/*", "runtime/device", CUDA], "one rank's plan, loaded and run on a device", "CudaPlan.h"),
    Layer("runtime/data", PLAN, "CIFAR-10, trees of images, NumPy, token files, synthetic sets; batches cut per rank", "DataSource.h"),
    Layer("runtime/executor", PLAN + ["runtime/tensor", "runtime/checkpoint", "runtime/comm", "runtime/backend", "runtime/device"],
          "one rank's steps: kernels by the backend, collectives by the communicators", "Executor.h"),
    Layer("runtime/telemetry", PLAN + ["runtime/executor", "runtime/backend", "runtime/comm", "runtime/data/DataSource.h"],
          "what a run shows, logs and traces; slow and hanging ranks", "Progress.h, Trace.h, Monitor.h"),
    Layer("runtime/launch", PLAN + ["runtime/comm"], "ranks and machines: threads, processes, supervisors, restarts", "LaunchContext.h"),
    Layer("runtime/check", PLAN + ["runtime/comm", "runtime/device"],
          "what a run needs, before its first step: links, memory, disks, devices; the table and what is wrong", "Check.h"),
    Layer("runtime/session", ["runtime"], "training, evaluating, inferring, verifying: the library behind tessera-run", "Session.h"),
    Layer("tools", ["dialects", "strategies", "compiler", "runtime"], "the programs' command lines", "tessera-compile.cpp"),
]

# Folders whose code knows no MLIR, and those that see the generated code of plan.proto.
NO_MLIR = ["runtime", "strategies/search", "strategies/time", "strategies/pipeline", "strategies/space/StrategyGraph"]
PLAN_USERS = ["runtime", "compiler/emit", "tools", "test"]
TOP = {"CMakeLists.txt", "compiler", "runtime", "dialects", "strategies", "tools", "test", "docs", "README.md",
       "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CMakePresets.json"}
