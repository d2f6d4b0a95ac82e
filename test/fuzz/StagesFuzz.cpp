// Files of networks that are to be cut into stages: the cuts found for one that the reader accepts are cuts that the
// judge accepts, with the value that the search tells, not below the bound.
#include "strategies/pipeline/stages/FindStages.h"
#include "strategies/pipeline/stages/StageProblemIO.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>

using namespace tessera::strategies;

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"micro_batches":8,"goal":"batch","in_flight":"zb-h2","most_replicas":4,"devices":[{"count":4,"memory":90,)"
      R"("bandwidth":2.5},{"count":1}],"ways":[{"size":2},{"devices":1},{"devices":0}],"nodes":[{"forward":3,"input":)"
      R"(4,"weight":2,"fixed":40,"held":10,"synced":7},{"ways":[{"variants":[{"forward":8,"held":10},{"forward":11}],)"
      R"("synced":1},null,{"forward":9}]},{"forward":2},{"held":1}],"values":[{"from":0,"to":[1,2],"bytes":6,"sent":)"
      R"([0,4,1]},{"from":1,"to":[0],"order":"backward"},{"from":2,"to":[3],"bytes":1},{"from":3,"to":[0,1],)"
      R"("bytes":2,"order":"any","received":[1,2,3]}]})",
      R"({"stages":2,"in_flight":"gpipe","devices":[{"count":2,"memory":9,"bandwidth":1}],"nodes":[{"forward":3},)"
      R"({"forward":4,"held":3},{"forward":5,"fixed":2}],"values":[{"from":0,"to":[1]},{"from":1,"to":[2]}]})",
      R"({"stages":4,"micro_batches":4,"devices":[{"count":4,"memory":19,"bandwidth":1}],"places":[{"stages":[0,3],)"
      R"("in_flight":[[4,0],[3,1]]},{"stages":[2,1],"in_flight":[[2,2],[1,3]]}],"nodes":[{"forward":3,"held":1},)"
      R"({"forward":4,"held":3},{"forward":5,"fixed":2},{"forward":1,"held":2},{"forward":2}],"values":[{"from":0,)"
      R"("to":[1]},{"from":1,"to":[2,3],"bytes":2},{"from":2,"to":[4]}]})",
      R"({"devices":[{"count":2}],"nodes":[{"forward":1},{}]})"};
}

void mutate(std::string &input, Random &random) {
  if (input.empty() || random() % 8 == 0)
    return mutateBytes(input, random);
  if (random() % 2) { // another number
    const size_t digit = input.find_first_of("0123456789", random() % input.size());
    if (digit != std::string::npos)
      input[digit] = char('0' + random() % 10);
    return;
  }
  input[random() % input.size()] = "0123456789,[]{}\":-e"[random() % 19];
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error, text(reinterpret_cast<const char *>(data), size);
  std::optional<StageProblem> problem = parseStageProblem(text, "input", error);
  if (!problem) {
    if (error.empty() || error.find('\n') != std::string::npos)
      abort(); // one sentence
    return 0;
  }
  const FoundStages found = findStages(*problem, {.work = 0.002, .mostDownsets = uint32_t(1 + size % 20)});
  if (found.plan.empty())
    return 0;
  const StageRating rating = rateStages(*problem, found.plan);
  if (found.infeasible || !rating.error.empty() || rating.value != found.value || found.value < found.lowerBound)
    abort();
  return 0;
}
