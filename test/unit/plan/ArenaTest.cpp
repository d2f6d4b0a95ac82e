// What the page shows of an arena: how long buffers live where a section repeats.
#include "tools/page/Arena.h"
#include "test/unit/plan/LoopPlan.h"

#include <catch2/catch.hpp>

using namespace tessera;
using P = rt::LoopPlan;

namespace {

/// [first step, last step] of a buffer; the sequences are those of Arena.h.
std::pair<int, int> life(const Json &arena, const std::string &name) {
  for (const Json &buffer : arena["buffers"])
    if (buffer[0] == name)
      return {buffer[6], buffer[7]};
  return {-1, -1};
}

using Life = std::pair<int, int>;

} // namespace

TEST_CASE("what a repeated section reads before it writes it lives through the section") {
  const Json loop = arenaJson(P::make(0, 1, 4, true));
  CHECK(loop["sections"] == Json::parse("[[0, 2, 1], [2, 9, 4], [11, 1, 1]]"));
  CHECK(loop["steps"].size() == 12);
  CHECK(life(loop, "s") == Life{P::SQUARE, P::CARRY});  // made before, read by every call
  CHECK(life(loop, "acc") == Life{P::ZERO, P::LAST});   // read and written by every call
  CHECK(life(loop, "x") == Life{0, P::CARRY});          // fed
  CHECK(life(loop, "xi") == Life{P::ROWS, P::PRODUCT}); // made anew in every call
  CHECK(life(loop, "ys") == Life{P::SUM_Y, P::LAST});   // the last call's is read behind
  CHECK(life(loop, "zs") == Life{P::SUM_Z, P::SCALE});
  CHECK(life(loop, "m") == Life{0, P::LAST}); // a state
}

TEST_CASE("without repetition a buffer lives from its first step to its last") {
  const Json once = arenaJson(P::make(0, 1, 2, false));
  CHECK(once["sections"] == Json::parse("[[0, 21, 1]]"));
  CHECK(life(once, "s") == Life{0, 13});
  CHECK(arenaJson(plan::Plan())["sections"].empty());
}
