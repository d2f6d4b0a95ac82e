// Runs the ONNX backend tests of a folder and holds the outcomes against a list:
//   onnx_node_test DATA/node --results results.txt --page docs/operators.md --examples operators.mlir
//                  [--update] [--only NAME] [--verbose]
// Returns 1 if a test fails, if a refusal has no reason (Refusals.h), or if an outcome or the page differs (--update
// writes both).

#include "test/conformance/onnx/NodeTest.h"
#include "test/conformance/onnx/OperatorsPage.h"
#include "test/conformance/onnx/Refusals.h"
#include "test/conformance/onnx/Results.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <unistd.h>

namespace fs = std::filesystem;
using namespace tessera::test;

int main(int argc, char **argv) {
  CLI::App app("ONNX backend tests through compiler and runtime");
  std::string data, results, page, examples, only;
  bool update = false, verbose = false;
  app.add_option("data", data, "folder of test folders")->required();
  app.add_option("--results", results, "the list of expected outcomes");
  app.add_option("--page", page, "the page that is made of them");
  app.add_option("--examples", examples, "one function per graph operator, for their rules");
  app.add_option("--only", only, "only tests whose name contains this");
  app.add_flag("--update", update, "write the list instead of comparing");
  app.add_flag("--verbose", verbose, "print every outcome");
  CLI11_PARSE(app, argc, argv);

  std::vector<std::string> folders;
  for (const auto &entry : fs::directory_iterator(data))
    if (fs::exists(entry.path() / "model.onnx") && entry.path().filename().string().find(only) != std::string::npos)
      folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) {
    std::fprintf(stderr, "%s: there is no test\n", data.c_str());
    return 1;
  }
  Setup setup;
  setup.scratch = (fs::temp_directory_path() / ("onnx_node_test." + std::to_string(getpid()))).string();
  fs::create_directories(setup.scratch);
  std::vector<Outcome> outcomes;
  for (const std::string &folder : folders) {
    outcomes.push_back(runNodeTest(folder, setup));
    if (verbose || outcomes.back().status == Status::Failed)
      std::fputs(line(outcomes.back()).c_str(), stdout);
  }
  fs::remove_all(setup.scratch);
  std::fputs(summary(outcomes).c_str(), stdout);
  std::string open = unexplained(outcomes);
  if (!open.empty())
    std::printf("refused without a reason in test/conformance/onnx/Refusals.cpp:\n%s", open.c_str());
  if (results.empty() || !only.empty())
    return countOf(outcomes, Status::Failed) == 0 && open.empty() ? 0 : 1;
  bool good = open.empty();
  good &= compareOrUpdate(outcomes, results, update);
  if (!page.empty())
    good &= compareOrUpdateFile(operatorsPage(outcomes, examples), page, update);
  return good ? 0 : 1;
}
