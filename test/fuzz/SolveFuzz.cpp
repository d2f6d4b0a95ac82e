// Strategy graph files: one that the reader accepts survives writing, and every searcher's answer to it is one
// that the judge accepts.
#include "strategies/search/Evaluate.h"
#include "strategies/search/Search.h"
#include "strategies/space/StrategyGraphIO.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>

using namespace tessera::strategies;

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  return {R"({"problem":{"name":"a","nodes":{"intervals":[[0,2],[1,3]],"costs":[[1,2],[3,4,5]],)"
          R"("usages":[[7,8],[1,1,1]]},"edges":{"nodes":[[0,1]],"costs":[[0,1,2,3,4,5]]},)"
          R"("usage_limit":9}})",
          R"({"problem":{"nodes":{"intervals":[[0,4],[0,4],[2,3]],"costs":[[1,2],[2,1],[0,9]],)"
          R"("usages":[[3,4],[5,1],[]]},"edges":{"nodes":[[0,1],[1,2],[2,2]],"costs":[[0,5,5,0],)"
          R"([0,1000000000000000000,7,0],[0,1,1,0]]},"aliases":[[0,2]],"data_parallel":[0,1,0],"usage_limit":7}})"};
}

void mutate(std::string &input, Random &random) {
  if (input.empty() || random() % 4 == 0)
    return mutateBytes(input, random);
  input[random() % input.size()] = "0123456789,[]{}\":-e"[random() % 19];
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error, text(reinterpret_cast<const char *>(data), size);
  std::optional<StrategyGraph> graph = parseStrategyGraph(text, "input", error);
  if (!graph) {
    if (error.empty() || error.find('\n') != std::string::npos)
      abort(); // one sentence
    return 0;
  }
  std::optional<StrategyGraph> again = parseStrategyGraph(toJson(*graph), "again", error);
  if (!again || toJson(*again) != toJson(*graph))
    abort();
  Cost least = kForbidden;
  bool infeasible = false;
  for (const std::string &name : searcherNames()) {
    SearchOptions options;
    options.searcher = name;
    options.work = 0.002;
    options.seconds = 1;
    Solution s = search(*graph, options);
    if (!s.choice.empty() && !evaluate(*graph, s.choice).feasible)
      abort();
    if (s.optimal && least < s.cost)
      abort();
    infeasible |= s.infeasible;
    least = std::min(least, s.choice.empty() ? kForbidden : s.cost);
  }
  if (infeasible && least < kForbidden)
    abort();
  return 0;
}
