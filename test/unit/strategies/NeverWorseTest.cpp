// What mode auto chooses is never worse than what it could have chosen as well. The searches are exact here, so their
// costs are compared to the nanosecond.
#include "Programs.h"

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
  const std::pair<const char *, const char *> meshes[] = {{"a=4", "a=2,b=2"},
                                                          {"a=8", "a=4,b=2"},
                                                          {"a=8", "a=2,b=4"},
                                                          {"a=4,b=2", "a=2,c=2,b=2"},
                                                          {"a=2,b=4", "a=2,b=2,c=2"}};
  for (auto [joined, split] : meshes) {
    INFO(joined << " " << split);
    CHECK(chosen(split, "auto").search <= chosen(joined, "auto").search);
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
