#include "strategies/time/Schedule.h"

#include "strategies/time/Bound.h"
#include "strategies/time/Decode.h"

namespace tessera::strategies {

void keepBetter(const Decoder &decoder, Schedule &best) {
  if (!best.start.empty() && decoder.makespan() >= best.makespan)
    return;
  best.start = decoder.start();
  best.makespan = decoder.makespan();
}

Schedule schedule(const TaskGraph &graph, const ScheduleOptions &options) {
  Schedule best;
  best.lowerBound = lowerBound(graph);
  Decoder decoder(graph);
  scheduleByLists(graph, decoder, best);
  if (!best.start.empty() && !best.optimal())
    scheduleByAnnealing(graph, decoder, options, options.work * 1e9, best);
  return best;
}

} // namespace tessera::strategies
