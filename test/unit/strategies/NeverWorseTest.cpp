// What mode auto chooses is never worse than what it could have chosen as well. The searches are exact here, so their
// costs are compared to the nanosecond.
#include "Programs.h"
#include "strategies/modes/CoarserPlans.h"

using namespace tessera;
using namespace tessera::strategies;

namespace {

struct Chosen {
  Cost search, predicted;
};

Chosen chosen(const std::string &mesh, const std::string &mode, const std::string &user = "", int64_t memory = 0) {
  Module m(kMlp);
  AssignOptions options = optionsFor(mesh, mode, user);
  options.searchGap = 0;
  options.searchWork = 20;
  options.memoryLimit = memory;
  options.firstOnly = true;
  AssignReport report;
  INFO(mesh << " " << mode << " " << user);
  REQUIRE(assign(m, options, &report) == "");
  const FunctionReport &train = *report.find("train");
  return {train.search.cost, train.total()};
}

const char *const kConstraints[] = {
    R"([{"op": "fc1", "in": [["a", null], [null, null]]}])",
    R"([{"op": "fc1", "in": [["a", null], [null, "b"]]}, {"op": "fc2", "in": [["a", "b"], ["b", null]]}])", // Megatron
    R"([{"op": "fc*", "in": [["a+b", null], [null, null]]}])",
    R"([{"op": "fc2", "in": [[null, "a+b"], ["a+b", null]]}])",
};

// A mesh, and one that splits an axis of it.
const std::pair<const char *, const char *> kSplits[] = {
    {"a=4", "a=2,b=2"}, {"a=8", "a=4,b=2"}, {"a=8", "a=2,b=4"}, {"a=4,b=2", "a=2,c=2,b=2"}, {"a=2,b=4", "a=2,b=2,c=2"}};

} // namespace

TEST_CASE("auto is never worse than data") {
  for (const char *mesh : {"a=2", "a=4", "a=2,b=2", "a=4,b=2", "a=2,b=2,c=2"}) {
    INFO(mesh);
    CHECK(chosen(mesh, "auto").predicted <= chosen(mesh, "data").predicted);
  }
}

TEST_CASE("a constraint never lowers the cost of the search") {
  for (const char *mesh : {"a=2,b=2", "a=4,b=2", "a=2,b=2,c=2"}) {
    const Chosen free = chosen(mesh, "auto");
    for (const char *constraint : kConstraints) {
      INFO(mesh << " " << constraint);
      CHECK(free.search <= chosen(mesh, "auto", constraint).search);
    }
  }
}

TEST_CASE("splitting an axis never raises the cost of the search") {
  for (auto [joined, split] : kSplits) {
    INFO(joined << " " << split);
    CHECK(chosen(split, "auto").search <= chosen(joined, "auto").search);
  }
}

TEST_CASE("coarser meshes have one or two axes, of neighbours") {
  auto joined = [](const char *mesh) {
    std::vector<std::string> list;
    for (const JoinedMesh &joined : joinedMeshes(llvm::cantFail(Mesh::parse(mesh))))
      list.push_back(joined.mesh.str());
    return list;
  };
  using List = std::vector<std::string>;
  CHECK(joined("a=4") == List{});
  CHECK(joined("a=4,b=2") == List{"a=8"});
  CHECK(joined("a=2,b=3,c=5") == List{"a=30", "a=2,b=15", "a=6,c=5"});
  CHECK(joined("a=2,b=1,c=5") == List{}); // a single one joins nothing
}

TEST_CASE("a plan of a coarser mesh has the same blocks on the mesh itself") {
  Module m(kMlp);
  const FunctionAssignment coarse(llvm::cantFail(Program::analyse(m.func("train"))));
  const Mesh mesh = llvm::cantFail(Mesh::parse("a=2,b=2,c=2"));
  for (const JoinedMesh &joined : joinedMeshes(mesh)) {
    Sharding cut;
    cut.dims = {dist::Cut(AxisList{0}), dist::Cut()};
    cut.partial = joined.mesh.numAxes() > 1 ? AxisList{1} : AxisList{};
    FunctionAssignment function = coarse;
    function.args.assign(function.args.size(), cut);
    const Sharding apart = onFinerMesh(std::move(function), joined).args.front();
    INFO(joined.mesh.str() << " " << apart.str(mesh));
    CHECK(apart.localShape(mesh, {64, 64}) == cut.localShape(joined.mesh, {64, 64}));
    CHECK(mesh.size(apart.partial) == joined.mesh.size(cut.partial));
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
      CHECK(mesh.group(rank, apart.dims[0].axes()) == joined.mesh.group(rank, cut.dims[0].axes()));
  }
}

TEST_CASE("what lies as on a coarser mesh is said on it") {
  const Mesh mesh = llvm::cantFail(Mesh::parse("a=2,b=2,c=2"));
  auto on = [&](const JoinedMesh &joined, AxisList rows, AxisList columns, AxisList partial) -> std::string {
    Sharding sharding;
    sharding.dims = {dist::Cut(rows), dist::Cut(columns)};
    sharding.partial = partial;
    const std::optional<SharedShardings> shared = onJoinedMesh({{"w", sharding}}, joined);
    return shared ? shared->at("w").str(joined.mesh) : "";
  };
  const std::vector<JoinedMesh> all = joinedMeshes(mesh); // a=8 | a=2,b=4 | a=4,c=2
  CHECK(on(all[0], {}, {}, {}) == "[-, -]");
  CHECK(on(all[0], {0, 1, 2}, {}, {}) == "[a, -]");
  CHECK(on(all[0], {0}, {}, {}) == "");
  CHECK(on(all[0], {0, 2, 1}, {}, {}) == ""); // other blocks
  CHECK(on(all[1], {1, 2}, {0}, {}) == "[b, a]");
  CHECK(on(all[1], {0, 1}, {}, {}) == "");
  CHECK(on(all[2], {2, 0, 1}, {}, {}) == "[c+a, -]");
  CHECK(on(all[2], {}, {}, {0}) == "");
}

TEST_CASE("splitting an axis never raises the time of a plan") {
  auto predicted = [](const std::string &mesh, const char *topology) {
    Module m(kMlp);
    AssignOptions options = optionsFor(mesh, "auto");
    options.topology = llvm::cantFail(Topology::load(topology));
    options.join = llvm::cantFail(parseJoin("auto"));
    options.join.overlap = Overlapping::Auto;
    options.firstOnly = true;
    AssignReport report;
    REQUIRE(assign(m, options, &report) == "");
    return report.find("train")->predicted();
  };
  for (const char *topology : {"cpu", "8xh100", "4xcpu"})
    for (auto [joined, split] : kSplits) {
      INFO(joined << " " << split << " " << topology);
      CHECK(double(predicted(split, topology)) <= 1.001 * double(predicted(joined, topology)));
    }
}

TEST_CASE("more memory never raises the cost of the search") {
  Cost before = kForbidden;
  for (int64_t memory : {1024, 1152, 1280, 1536, 2048, 4096, 1 << 20}) {
    Module m(kMlp);
    AssignOptions options = optionsFor("a=2,b=2", "auto");
    options.searchGap = 0;
    options.searchWork = 20;
    options.memoryLimit = memory;
    options.firstOnly = true;
    AssignReport report;
    if (assign(m, options, &report) != "") { // does not fit
      CHECK(before == kForbidden);
      continue;
    }
    INFO(memory);
    CHECK(report.find("train")->search.cost <= before);
    before = report.find("train")->search.cost;
  }
  CHECK(before < kForbidden);
}
