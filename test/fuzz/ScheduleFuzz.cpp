// Task graph files: one that the reader accepts survives writing, and the schedule found for it is one that the judge
// accepts, not below the bound.
#include "strategies/time/Schedule.h"
#include "strategies/time/Simulate.h"
#include "strategies/time/TaskGraphIO.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>

using namespace tessera::strategies;

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"resources":["a","b"],"pools":[{"name":"m","limit":9}],"tasks":[{"name":"f","duration":3,"resources":[0]},)"
      R"({"name":"r","duration":5,"resources":[1],"needs":[0]},{"name":"g","duration":2,"resources":[0],"needs":)"
      R"([{"task":1,"lag":4},0]},{"name":"h","duration":2,"resources":[0,1],"needs":[2]}],"buffers":)"
      R"([{"pool":0,"bytes":5,)"
      R"("maker":0,"users":[2]},{"pool":0,"bytes":4,"maker":2,"from_end":true,"users":[3]}]})",
      R"({"tasks":[{"duration":1},{"duration":2,"needs":[0]}]})"};
}

void mutate(std::string &input, Random &random) {
  if (input.empty() || random() % 4 == 0)
    return mutateBytes(input, random);
  input[random() % input.size()] = "0123456789,[]{}\":-e"[random() % 19];
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error, text(reinterpret_cast<const char *>(data), size);
  std::optional<TaskGraph> graph = parseTaskGraph(text, "input", error);
  if (!graph) {
    if (error.empty() || error.find('\n') != std::string::npos)
      abort(); // one sentence
    return 0;
  }
  std::optional<TaskGraph> again = parseTaskGraph(toJson(*graph), "again", error);
  if (!again || toJson(*again) != toJson(*graph))
    abort();
  Schedule found = schedule(*graph, {.work = 0.0005, .seconds = 1});
  if (found.start.empty() && !graph->tasks.empty())
    return 0;
  Timeline line = simulate(*graph, found.start);
  if (!line.error.empty() || line.makespan != found.makespan || line.makespan < found.lowerBound)
    abort();
  return 0;
}
