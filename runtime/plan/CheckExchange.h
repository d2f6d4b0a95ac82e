//===- CheckExchange.h - checks of exchanges ----------------------------------------------------===//
//
// Internal to the checker. What one rank sends and receives must lie inside its buffers, and what it receives covers
// its output. What ranks send each other must be what they receive.
//
//   rank 1: exchange: receives a box from member 2 that is outside buffer 4 'y'
//   step 3 of program 'train': rank 0 sends 2 boxes to rank 1, which receives 1 from it
//
//===--------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_CHECKEXCHANGE_H
#define TESSERA_RUNTIME_PLAN_CHECKEXCHANGE_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace tessera::rt {

/// Checks the boxes of one rank's collective, whose input and output have these shapes. Its group exists. Collectives
/// of other kinds have no boxes.
Status checkExchange(const plan::Plan &plan, const plan::Collective &collective, const std::vector<int64_t> &in,
                     const std::vector<int64_t> &out);

/// Compares what ranks send each other with what they receive. It keeps the shapes of boxes whose other end has not
/// been seen yet.
class ExchangeMatcher {
public:
  /// Adds one rank's part of the exchange at `place`: text for messages that is the same on all ranks.
  Status add(const plan::Plan &plan, const plan::Collective &collective, const std::string &place);
  /// Called after the last rank: boxes that only one end knows are an error.
  Status finish() const;

private:
  using Shapes = std::vector<std::vector<int64_t>>;
  struct Half {
    bool sent = false; // what a rank sends; else what it receives
    Shapes shapes;
  };
  using Key = std::tuple<std::string, uint32_t, uint32_t>; // place, sender, receiver
  Status addHalf(const Key &key, Half half);
  std::map<Key, Half> halves_;
};

} // namespace tessera::rt

#endif
