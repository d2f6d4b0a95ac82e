//===- Collectives.cpp - the operators of the domain ai.tessera -------------------------------------===//
//
// In mode hybrid the model file is the program of one rank and contains the collectives (docs/hybrid.md). Each of them
// names the mesh axes of its group. All ranks reach it, since programs have no control flow. A collective in a group of
// one rank becomes nothing. Send and Recv mark where the stages of a pipeline meet.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Node.h"

#include "dialects/graph/GivenStages.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace tessera;
using namespace tessera::compiler;
using dist::Collective;
using dist::CollectiveKind;
using llvm::StringRef;
using llvm::Twine;

namespace {

/// The ranks along `axes`.
struct Group {
  const dist::Mesh &mesh;
  dist::AxisList axes;
  int64_t size = 1;
};

/// The attribute `axes`: names as a list, or as one text "data+model".
std::vector<std::string> readAxes(Node &n) {
  std::vector<std::string> names;
  bool listed = llvm::any_of(n.proto.attribute(), [](const auto &a) {
    return a.name() == "axes" && (a.type() == onnx::AttributeProto::STRINGS || a.strings_size() > 0);
  });
  if (listed) {
    names = n.attrStrings("axes").value_or(std::vector<std::string>());
  } else {
    std::string text = n.attrString("axes", "");
    llvm::SmallVector<StringRef> parts;
    StringRef(text).split(parts, '+', -1, /*KeepEmpty=*/false);
    for (StringRef part : parts)
      names.push_back(part.trim().str());
  }
  return names;
}

/// The ranks along the axes of the node. nullopt: failed.
std::optional<Group> readGroup(Node &n) {
  const dist::Mesh &mesh = *n.function.mesh();
  const std::vector<std::string> names = readAxes(n);
  if (n.failed())
    return std::nullopt;
  if (names.empty()) {
    n.fail("the attribute 'axes' must name the mesh axes along which ranks take part");
    return std::nullopt;
  }
  Group group{mesh, {}, 1};
  for (const std::string &name : names) {
    int axis = mesh.findAxis(name);
    if (axis < 0 && name == dist::kStageAxis) {
      n.fail("ranks along the axis 'stage' run different operators and share no collective: use Send and Recv");
      return std::nullopt;
    }
    if (axis < 0 || llvm::is_contained(group.axes, axis)) {
      n.fail("'" + name + "' is " + (axis < 0 ? "no axis" : "named twice among the axes") + " of the mesh " +
             mesh.str());
      return std::nullopt;
    }
    group.axes.push_back(axis);
  }
  group.size = mesh.size(group.axes);
  return group;
}

int64_t readDim(Node &n, StringRef name, const Val &x) {
  if (!n.hasAttr(name)) {
    n.fail("the attribute '" + name + "' (a dimension) is missing");
    return 0;
  }
  return n.axis(n.attrInt(name, 0), x.rank());
}

Val build(
    Node &n, const Group &group, CollectiveKind kind, const Val &x,
    llvm::function_ref<void(Collective &)> fill = [](Collective &) {}) {
  if (n.failed() || group.size == 1)
    return x;
  Collective c;
  c.kind = kind;
  c.axes = group.axes;
  fill(c);
  return n.b.collective(group.mesh, std::move(c), x);
}

/// A collective that reduces; "mean" is a sum and a product.
Val buildReduction(Node &n, const Group &group, CollectiveKind kind, const Val &x, int64_t dim) {
  std::string text = n.attrString("reduction", "sum");
  bool mean = text == "mean";
  std::optional<dist::Reduction> reduction = dist::parseReduction(mean ? "sum" : text);
  if (!reduction || *reduction == dist::Reduction::None)
    return n.fail("the reduction '" + text + "' is none of sum, mean, max, min");
  if (!isFloat(x.type) && (mean || (x.type != DType::I64 && x.type != DType::I32)))
    return n.fail("the reduction '" + text + "' of " + dtypeName(x.type) + " is not supported: cast it");
  Val y = build(n, group, kind, x, [&](Collective &c) {
    c.dim = dim;
    c.reduction = *reduction;
  });
  return mean ? n.b.scale(y, 1.0 / double(group.size), "mean") : y;
}

void allReduce(Node &n) {
  Val x = n.in(0);
  if (std::optional<Group> group = readGroup(n); group && x)
    n.out(0, buildReduction(n, *group, CollectiveKind::AllReduce, x, -1));
}

void reduceScatter(Node &n) {
  Val x = n.in(0);
  std::optional<Group> group = readGroup(n);
  if (!group || !x)
    return;
  int64_t dim = readDim(n, "dim", x);
  if (!n.failed())
    n.out(0, buildReduction(n, *group, CollectiveKind::ReduceScatter, x, dim));
}

template <CollectiveKind kind> void alongDim(Node &n) {
  Val x = n.in(0);
  std::optional<Group> group = readGroup(n);
  if (!group || !x)
    return;
  int64_t dim = readDim(n, "dim", x);
  n.out(0, build(n, *group, kind, x, [&](Collective &c) { c.dim = dim; }));
}

void allToAll(Node &n) {
  Val x = n.in(0);
  std::optional<Group> group = readGroup(n);
  if (!group || !x)
    return;
  int64_t split = readDim(n, "split_dim", x), concat = readDim(n, "concat_dim", x);
  if (n.failed())
    return;
  if (split != concat || group->size == 1)
    return n.out(0, build(n, *group, CollectiveKind::AllToAll, x, [&](Collective &c) {
                   c.dim = concat;
                   c.splitDim = split;
                 }));
  // If both are the same dimension, its blocks become a dimension of their own, and the result is joined again.
  if (x.shape[split] % group->size != 0)
    return (void)n.fail("dimension " + Twine(split) + " of " + shapeText(x.shape) + " is to be cut in " +
                        Twine(group->size) + ", which does not divide it");
  Shape blocks = x.shape;
  blocks[split] /= group->size;
  blocks.insert(blocks.begin() + split, group->size);
  Val y = build(n, *group, CollectiveKind::AllToAll, n.b.reshape(x, blocks, "blocks"), [&](Collective &c) {
    c.dim = split + 1;
    c.splitDim = split;
  });
  n.out(0, n.b.reshape(y, x.shape, "joined"));
}

void broadcast(Node &n) {
  Val x = n.in(0);
  std::optional<Group> group = readGroup(n);
  int64_t root = n.attrInt("root", 0);
  if (!group || !x)
    return;
  if (root < 0 || root >= group->size)
    return (void)n.fail("the root " + Twine(root) + " is not among the " + Twine(group->size) +
                        " ranks along its axes");
  n.out(0, build(n, *group, CollectiveKind::Broadcast, x, [&](Collective &c) { c.root = root; }));
}

/// Member i of the group receives from member sources[i]; -1: from nobody. nullopt: failed.
std::optional<Shape> readSources(Node &n, const Group &group) {
  std::optional<Shape> sources = n.attrInts("sources");
  bool shifts = n.hasAttr("shift");
  int64_t shift = n.attrInt("shift", 0) % group.size;
  if (n.failed())
    return std::nullopt;
  if (sources.has_value() == shifts) {
    n.fail("either 'sources' (of every rank along the axes, from which it receives; -1: from none) "
           "or 'shift' must be given");
    return std::nullopt;
  }
  if (shifts) {
    sources.emplace();
    for (int64_t i = 0; i < group.size; ++i)
      sources->push_back((i - shift + group.size) % group.size);
  }
  if (int64_t(sources->size()) != group.size) {
    n.fail("there are " + Twine(sources->size()) + " sources for the " + Twine(group.size) +
           " ranks along its axes: give one source per rank, -1 for none, since all ranks must take part");
    return std::nullopt;
  }
  std::set<int64_t> senders;
  for (int64_t source : *sources)
    if (source < -1 || source >= group.size || (source >= 0 && !senders.insert(source).second)) {
      n.fail("source " + Twine(source) +
             (source < -1 || source >= group.size
                  ? " is not among the " + Twine(group.size) + " ranks along its axes"
                  : Twine(" is named twice: what several ranks receive is a Broadcast")));
      return std::nullopt;
    }
  return sources;
}

void sendRecv(Node &n) {
  Val x = n.in(0);
  std::optional<Group> group = readGroup(n);
  std::optional<Shape> sources = group ? readSources(n, *group) : std::nullopt;
  if (!sources || !x)
    return;
  // A permutation gives every rank a source. A rank that should receive from nobody gets a block that no other rank
  // receives, and replaces it by zeros.
  std::set<int64_t> unsent;
  for (int64_t i = 0; i < group->size; ++i)
    unsent.insert(i);
  for (int64_t source : *sources)
    unsent.erase(source);
  Shape complete = *sources;
  for (int64_t &source : complete)
    if (source < 0) {
      source = *unsent.begin();
      unsent.erase(unsent.begin());
    }
  const dist::Mesh &mesh = group->mesh;
  llvm::SmallVector<int64_t> receives; // per rank of the mesh: 1 or 0
  Val y = build(n, *group, CollectiveKind::Permute, x, [&](Collective &c) {
    c.axes.clear();
    for (int axis = 0; axis < mesh.numAxes(); ++axis)
      c.axes.push_back(axis);
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      int64_t me = mesh.coordinate(rank, group->axes);
      c.sources.push_back(mesh.group(rank, group->axes)[complete[me]]);
    }
  });
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
    receives.push_back((*sources)[mesh.coordinate(rank, group->axes)] >= 0);
  if (n.failed() || !llvm::is_contained(receives, 0))
    return n.out(0, y);
  Val some = n.b.binary<graph::EqOp>(n.b.perRank(receives, "receives"), n.b.scalar(DType::I64, 1), "some");
  n.out(0, n.b.select(some, y, n.b.scalarLike(y, 0), "received"));
}

/// The rank's place along the axes, the first most significant.
void axisIndex(Node &n) {
  std::optional<Group> group = readGroup(n);
  if (!group)
    return;
  llvm::SmallVector<int64_t> places;
  for (int64_t rank = 0; rank < group->mesh.numRanks(); ++rank)
    places.push_back(group->mesh.coordinate(rank, group->axes));
  n.out(0, n.b.perRank(places));
}

/// One end of a border between stages. Whether both ends fit is known when all operators are there.
void border(Node &n, StringRef attribute, StringRef other, StringRef mark) {
  Val x = n.in(0);
  const std::vector<std::string> axes = readAxes(n);
  if (n.failed())
    return;
  if (!axes.empty() && axes != std::vector<std::string>{dist::kStageAxis.str()})
    return (void)n.fail(
        "it goes from one stage of a pipeline to another, along the axis 'stage' alone; among the ranks "
        "along other axes use SendRecv, where 'sources' says for every rank from which one it receives");
  if (!n.hasAttr(attribute))
    return (void)n.fail("the attribute '" + attribute + "' (the stage " + other + ") is missing");
  n.out(0, n.b.border(x, mark, n.attrInt(attribute, 0)));
}

void send(Node &n) { border(n, "to", "whose Recv reads it", graph::kSendsToAttr); }
void receive(Node &n) { border(n, "from", "that has the Send", graph::kReceivesFromAttr); }

} // namespace

llvm::ArrayRef<OpRow> tessera::compiler::collectiveOps() {
  static const OpRow rows[] = {
      {"AllReduce", 1, kNewestOpset, allReduce, ".", ""},
      {"AllGather", 1, kNewestOpset, alongDim<CollectiveKind::AllGather>, ">", ""},
      {"ReduceScatter", 1, kNewestOpset, reduceScatter, ".", ""},
      {"AllToAll", 1, kNewestOpset, allToAll, ">", ""},
      {"Broadcast", 1, kNewestOpset, broadcast, ">", ""},
      {"SendRecv", 1, kNewestOpset, sendRecv, ">", ""},
      {"Slice", 1, kNewestOpset, alongDim<CollectiveKind::Slice>, "/", ""},
      {"AxisIndex", 1, kNewestOpset, axisIndex, ".", ""},
      {"Send", 1, kNewestOpset, send, ">", ""},
      {"Recv", 1, kNewestOpset, receive, ">", ""},
  };
  return rows;
}
