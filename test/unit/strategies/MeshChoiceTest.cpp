#include "strategies/modes/MeshChoice.h"
#include "Programs.h"
#include "strategies/modes/KnownAnswer.h"

using namespace tessera::strategies;

static std::vector<std::string> meshesFor(int64_t ranks, const char *links) {
  Topology t = llvm::cantFail(Topology::parse(
      std::string(R"({"devices": 16, "flops": {"f32": 1e9}, "memory_bandwidth": 1e9, "memory": "1GiB", "links": [)") +
          links + R"({"devices": 16, "latency": 1e-5, "bandwidth": 1e8}]})",
      "machine"));
  std::vector<std::string> texts;
  for (const Mesh &mesh : sensibleMeshes(ranks, t))
    texts.push_back(mesh.str());
  return texts;
}

TEST_CASE("a number of ranks has a mesh for every factorisation that differs in its links") {
  CHECK(meshesFor(1, "") == std::vector<std::string>{""});
  CHECK(meshesFor(7, "") == std::vector<std::string>{"data=7"});
  CHECK(meshesFor(12, "") == std::vector<std::string>{"data=12", "x=2,y=6", "x=3,y=4", "x=2,y=2,z=3"});
  // With two machines of eight it matters which axis lies inside.
  const char *inner = R"({"devices": 8, "latency": 1e-6, "bandwidth": 1e9}, )";
  std::vector<std::string> two = meshesFor(16, inner);
  auto has = [&](const char *mesh) { return llvm::is_contained(two, mesh); };
  CHECK(has("data=16"));
  CHECK(has("x=2,y=8"));
  CHECK(has("x=8,y=2"));
  CHECK(has("x=4,y=4"));
  CHECK(has("x=2,y=2,z=4"));
  // Inside one machine the order does not matter.
  CHECK(meshesFor(8, inner) == std::vector<std::string>{"data=8", "x=2,y=4", "x=2,y=2,z=2"});
}

TEST_CASE("meshes are ranked by what the step is predicted to take") {
  Module m(kMlp);
  AssignOptions options = optionsFor("data=4", "auto");
  auto ranked = llvm::cantFail(rankMeshes(*m.module, options));
  REQUIRE(ranked.size() == 2); // 4 and 2x2
  CHECK(ranked[0].predicted <= ranked[1].predicted);
  // The search goes on with the prices of the mesh that is taken.
  REQUIRE(ranked[0].prices);
  CHECK(ranked[0].prices->model.mesh() == ranked[0].mesh);
  CHECK(!ranked[1].prices);
  for (const MeshCandidate &c : ranked) {
    CHECK(c.error == "");
    Module own(kMlp);
    AssignReport report;
    options.mesh = c.mesh;
    REQUIRE(assign(own, options, &report) == "");
    CHECK(report.find("train")->total() == c.predicted);
  }
  // Only the training step is compared.
  Module step(kMlp);
  AssignReport report;
  options.firstOnly = true;
  REQUIRE(assign(step, options, &report) == "");
  REQUIRE(report.functions.size() == 1);
  CHECK(report.functions[0].name == "train");
  options.firstOnly = false;
  options.memoryLimit = 100;
  auto none = rankMeshes(*m.module, options);
  REQUIRE(!none);
  CHECK_THAT(llvm::toString(none.takeError()), Catch::Contains("fits in 100 B"));
}

TEST_CASE("a mesh that was compared with the whole effort is not searched again") {
  Module m(kMlp);
  AssignOptions options = optionsFor("data=4", "auto"); // of two meshes
  options.searchWork = 1e-6;
  auto ranked = llvm::cantFail(rankMeshes(*m.module, options));
  REQUIRE(ranked[0].known);
  options.mesh = ranked[0].mesh;
  const FunctionAssignment function(llvm::cantFail(Program::analyse(m.func("train"))));
  CHECK(ranked[0].known->answers(function, options));
  options.searchWork = 1; // it might find something else
  CHECK(!ranked[0].known->answers(function, options));
}

TEST_CASE("what is known of the mesh that is taken is what another search would find") {
  for (Overlapping overlap : {Overlapping::Off, Overlapping::Auto}) {
    Module m(kMlp);
    AssignOptions options = optionsFor("data=4", "auto");
    options.join.overlap = overlap;
    auto ranked = llvm::cantFail(rankMeshes(*m.module, options));
    REQUIRE(ranked[0].known);
    CHECK(!ranked[1].known);
    options.mesh = ranked[0].mesh;
    auto first = [&] { return FunctionAssignment(llvm::cantFail(Program::analyse(m.func("train")))); };
    KnownAnswer &known = *ranked[0].known;
    CHECK(known.answers(first(), options));
    // Not for other questions.
    AssignOptions other = options;
    other.memoryLimit = memoryOf(options) - 1;
    CHECK(!known.answers(first(), other));
    other = options;
    other.mesh = ranked[1].mesh;
    CHECK(!known.answers(first(), other));
    other = options;
    other.splitGroups = true;
    CHECK(!known.answers(first(), other));
    mlir::Operation *op = &m.func("train").front().front();
    op->setAttr("other", mlir::UnitAttr::get(&m.context));
    CHECK(!known.answers(first(), options));
    op->removeAttr("other");

    Module anew(kMlp);
    AssignReport searched, taken;
    REQUIRE(assign(anew, options, &searched) == "");
    options.known = ranked[0].known;
    REQUIRE(assign(m, options, &taken) == "");
    CHECK(!known.answers(first(), options)); // only once
    auto text = [](Module &module) {
      std::string text;
      llvm::raw_string_ostream(text) << *module.module;
      return text;
    };
    CHECK(text(m) == text(anew));
    REQUIRE(taken.functions.size() == searched.functions.size());
    for (size_t f = 0; f < taken.functions.size(); ++f) {
      const FunctionReport &a = taken.functions[f], &b = searched.functions[f];
      CHECK(a.predicted() == b.predicted());
      CHECK(a.peakBytes == b.peakBytes);
      CHECK(a.search.searcher == b.search.searcher);
      CHECK(a.search.cost == b.search.cost);
      CHECK(a.search.lowerBound == b.search.lowerBound);
      CHECK(a.search.besideBound == b.search.besideBound);
    }
  }
}
