#include "strategies/modes/MeshChoice.h"

#include "mlir/IR/Threading.h"

#include <algorithm>
#include <mutex>
#include <set>

using namespace mlir;

namespace tessera::strategies {

namespace {

constexpr size_t kMaxAxes = 3;
/// To explain the answers for so many takes less time than to search for one of them again.
constexpr size_t kFewMeshes = 3;
/// So many get the whole effort each. With a part of it, the one that is taken may have to be searched again.
constexpr size_t kWholeEffort = 2;

void factorise(int64_t rest, std::vector<int64_t> &sizes, std::vector<std::vector<int64_t>> &found) {
  if (rest == 1) {
    found.push_back(sizes);
    return;
  }
  for (int64_t size = 2; size <= rest; ++size) {
    bool last = sizes.size() + 1 == kMaxAxes;
    if (rest % size != 0 || (last && size != rest))
      continue;
    sizes.push_back(size);
    factorise(rest / size, sizes, found);
    sizes.pop_back();
  }
}

Mesh meshOf(llvm::ArrayRef<int64_t> sizes) {
  static const char *names[] = {"x", "y", "z"};
  llvm::SmallVector<dist::MeshAxis, 3> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    axes.push_back({sizes.size() == 1 ? "data" : names[i], sizes[i]});
  return Mesh(axes);
}

/// What the cost model knows of a mesh: for every set of axes, the links of its groups. Axes are taken in the order of
/// their own entries, so that two meshes are equal if only their axes' order differs.
using Entry = std::vector<std::tuple<int64_t, double, double>>; // members, latency, bandwidth

std::vector<Entry> signature(const Mesh &mesh, const Topology &topology) {
  auto entry = [&](llvm::ArrayRef<int> axes) {
    Entry e;
    for (const Topology::Level &level : topology.levels(mesh, axes))
      e.push_back({level.members, level.link.latency, level.link.bandwidth});
    return e;
  };
  llvm::SmallVector<std::pair<Entry, int>> order;
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    order.push_back({entry({axis}), axis});
  llvm::stable_sort(order, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<Entry> all;
  for (unsigned set = 1; set < 1u << order.size(); ++set) {
    llvm::SmallVector<int> axes;
    for (size_t i = 0; i < order.size(); ++i)
      if (set >> i & 1)
        axes.push_back(order[i].second);
    llvm::sort(axes);
    all.push_back(entry(axes));
  }
  return all;
}

/// What is known of the mesh that comes first so far. All meshes together would take much memory.
class BestMesh {
public:
  void offer(Cost predicted, size_t mesh, std::shared_ptr<Prices> prices, std::shared_ptr<KnownAnswer> answer) {
    const std::lock_guard lock(mutex_);
    if (!prices_ || std::pair(predicted, mesh) < std::pair(predicted_, mesh_)) {
      predicted_ = predicted;
      mesh_ = mesh;
      prices_ = std::move(prices);
      answer_ = std::move(answer);
    }
  }
  size_t mesh() const { return mesh_; }
  const std::shared_ptr<Prices> &prices() const { return prices_; }
  const std::shared_ptr<KnownAnswer> &answer() const { return answer_; }

private:
  std::mutex mutex_;
  Cost predicted_ = kForbidden;
  size_t mesh_ = 0;
  std::shared_ptr<Prices> prices_;
  std::shared_ptr<KnownAnswer> answer_;
};

} // namespace

std::vector<Mesh> sensibleMeshes(int64_t ranks, const Topology &topology) {
  std::vector<std::vector<int64_t>> found;
  std::vector<int64_t> sizes;
  factorise(ranks, sizes, found);
  llvm::stable_sort(found, [](const auto &a, const auto &b) { return a.size() < b.size(); });
  std::vector<Mesh> meshes;
  std::set<std::vector<Entry>> seen;
  for (const std::vector<int64_t> &f : found) {
    Mesh mesh = meshOf(f);
    if (seen.insert(signature(mesh, topology)).second)
      meshes.push_back(std::move(mesh));
  }
  return meshes;
}

llvm::Expected<std::vector<MeshCandidate>> rankMeshes(ModuleOp module, const AssignOptions &options) {
  std::vector<Mesh> meshes = sensibleMeshes(options.mesh.numRanks(), options.topology);
  AssignOptions own = options;
  own.searchWork = options.searchWork / double(meshes.size() <= kWholeEffort ? 1 : meshes.size());
  own.dumpGraph.clear(); // the mesh that is taken is searched again, and then written
  own.explain = options.explain && meshes.size() <= kFewMeshes;
  own.prices = nullptr; // every mesh has its own
  own.splitGroups = false;
  own.firstOnly = true; // meshes are compared by the first function
  own.proveBeside = false;
  own.searchThreads = 1; // so that the choice does not depend on how many threads compare meshes
  own.exactThreads = 1;  // they are busy with other meshes
  own.watch = nullptr;   // several searches run at once
  SearchWatch *watch = options.watch;
  if (watch) {
    watch->begin(own.searchWork);
    watch->part = 0;
    watch->parts = int(meshes.size());
    ++watch->running;
  }
  std::vector<MeshCandidate> list(meshes.size());
  BestMesh best;
  mlir::parallelFor(module.getContext(), 0, meshes.size(), [&](size_t i) {
    MeshCandidate &candidate = list[i];
    candidate.mesh = std::move(meshes[i]);
    AssignOptions with = own;
    with.mesh = candidate.mesh;
    if (options.stop && *options.stop)
      with.searchWork = std::min(with.searchWork, kHurriedWork);
    with.prices = pricesOf(with);
    std::shared_ptr<KnownAnswer> kept;
    with.keep = &kept;
    OwningOpRef<ModuleOp> copy(module.clone());
    AssignReport report;
    if (llvm::Error e = assignStrategies(*copy, with, report)) {
      candidate.error = llvm::toString(std::move(e));
    } else if (const FunctionReport *step = report.step()) {
      candidate.predicted = step->predicted();
      candidate.communication = step->exposed();
      candidate.peakBytes = step->peakBytes;
      candidate.work = step->search.work;
      best.offer(candidate.predicted, i, with.prices, std::move(kept));
    }
    if (watch)
      ++watch->part;
  });
  if (watch) {
    --watch->running;
    watch->parts = 0;
  }
  if (llvm::all_of(list, [](const MeshCandidate &c) { return !c.error.empty(); }))
    return llvm::createStringError("%s", list.front().error.c_str());
  list[best.mesh()].prices = best.prices();
  list[best.mesh()].known = best.answer();
  llvm::stable_sort(list, [](const MeshCandidate &a, const MeshCandidate &b) {
    return a.error.empty() != b.error.empty() ? a.error.empty() : a.predicted < b.predicted;
  });
  return list;
}

} // namespace tessera::strategies
