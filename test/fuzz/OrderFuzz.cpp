// Files with an order of a pipeline: one that is accepted runs, and one that is not gives one sentence.
#include "strategies/pipeline/CheckOrder.h"
#include "strategies/pipeline/PipelineIO.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>

using namespace tessera::strategies;

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  return {"0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n", "0F0,,0F1,0B0,0B1\r\n1F0, 1B0,1F1,1B1\r\n"};
}

void mutate(std::string &input, Random &random) {
  if (input.empty() || random() % 8 == 0)
    return mutateBytes(input, random);
  const size_t at = random() % input.size();
  if (random() % 3 == 0) { // two tasks change places
    const size_t cell = input.find_first_of(",\n", at);
    if (cell != std::string::npos && cell >= 3 && cell + 4 <= input.size())
      for (size_t i = 0; i < 3; ++i)
        std::swap(input[cell - 3 + i], input[cell + 1 + i]);
    return;
  }
  input[at] = "0123FIWB,\n 9"[random() % 12];
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  std::string error;
  const std::optional<PipelineOrder> order = parseOrder(text, "input", error);
  const Pipeline pipeline = evenPipeline({.devices = 2, .microBatches = 2, .forward = 2, .input = 2, .weight = 1});
  if (order)
    error = checkOrder(pipeline, *order, "input");
  if (error.empty() != (order && runInOrder(pipeline, *order).error.empty())) {
    // Micro-batches in another order run as numbers, but no plan has them.
    if (error.find("takes the micro-batches in order") == std::string::npos)
      abort();
  }
  return 0;
}
