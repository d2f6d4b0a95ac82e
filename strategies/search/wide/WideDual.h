//===- WideDual.h - lower bounds over every option -------------------------------------------------===//
//
// The dual ascent of bound/Dual.h on a WideGraph: messages are by state, not by option, so a pass takes time in
// proportion to the options and the tables, never to pairs of options. The local polytope is the same as over pairs of
// options, since options of one state cost an edge the same.
//
// A node gives an edge ahead, for each state, a share of the least sum of the options in that state. What an option has
// beyond that stays with it.
//
// The price of a copy that several readers share is divided among them. Whatever the parts are, readers of one copy pay
// no more than its price together, so the sum over edges is a bound. Parts are equal at first. After a sweep, what of a
// reader's part no message needs goes to readers that need all of theirs. Equal shares, as equal layers have them, have
// equal parts.
//
// Example:
//   WideDual dual(wide, everyOption(wide));
//   double bound = dual.pass();
//   dual.reducedCosts();       // by option: how far the bound rises at least if it is chosen
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_WIDE_WIDEDUAL_H
#define TESSERA_STRATEGIES_SEARCH_WIDE_WIDEDUAL_H

#include "strategies/search/bound/MemoryPrices.h"
#include "strategies/space/WideGraph.h"

#include <deque>
#include <span>

namespace tessera::strategies {

class WideDual {
public:
  /// `kept` must outlive this. Every kept option has, on every edge, a partner that is not forbidden (Partners.h).
  WideDual(const WideGraph &wide, const Kept &kept);

  /// What one dual tells the next one, of the same wide graph with fewer kept options: messages by states of the wide
  /// graph, and how prices of shared copies are divided.
  struct Known {
    struct Parts {
      std::vector<int32_t> copies, rows;      // numbers of the wide graph
      std::vector<std::vector<double>> parts; // by reader, by copy and row
    };
    std::vector<std::vector<double>> messages;        // by edge, first those of its end `from`, then those of `to`
    std::vector<std::shared_ptr<const Parts>> shares; // null: nothing is divided
    bool forward = true;                              // the direction of the next pass
    bool empty() const { return messages.empty(); }
  };
  Known known() const;
  /// Begins there, before the first pass. A pass gives a bound whatever messages and parts it begins with.
  void begin(const Known &known);

  /// One sweep over all nodes, in alternating directions. Returns the bound for the present prices. Without `answers` it
  /// leaves no answer, and takes less time.
  double pass(bool answers = true);
  /// Elementary steps of a pass.
  double passWork() const { return work_; }
  double best() const { return best_; }
  int stalledPasses() const { return stalled_; }
  /// Per node the position in `kept` that the last pass with answers chose.
  const std::vector<int32_t> &answer() const { return chosen_; }
  /// Moves the memory prices towards the cost `target`.
  void stepPrices(double target);
  /// Of memory, by point in time. Others than of this problem are ignored.
  void setPrices(const std::vector<double> &prices);
  /// Length of the next step of the prices, of Polyak's.
  double &stepFactor() { return prices_.factor; }
  /// Those of the best bound.
  const std::vector<double> &bestPrices() const { return bestPrices_; }
  bool hasMemory() const { return !flat_.room.empty(); }
  /// Goes back to the messages and prices of the best bound. Two passes then make reducedCosts good.
  void restoreBest();

  /// Place of a node's first option in reducedCosts.
  size_t first(size_t node) const { return flat_.first[node]; }
  /// For each kept option a lower bound on the rise of the last pass' bound if it is chosen.
  std::vector<double> reducedCosts() const;
  /// Copies that may be offered: that two readers each want in some answer whose price is within `limit` of the last
  /// pass' bound. At most `most` per share and state, those first that come nearest to the bound.
  Offers offers(double limit, size_t most) const;
  double last() const { return last_; }

private:
  /// The states that kept options have, numbered anew.
  struct States {
    std::vector<int32_t> ofOption; // by kept option
    std::vector<int32_t> inTable;  // the wide graph's number
  };
  /// A table among such states in both directions.
  struct WideTable {
    std::vector<double> costs, turned;
  };
  /// Shares with the same copies and kept states, which divide prices alike.
  struct Reader {
    WideTable table;
    std::vector<double> part;                             // of the prices, by copy and state of the producer
    std::vector<std::vector<int32_t>> with;               // by copy: the reader's states that want it
    std::vector<int32_t> wants;                           // by state of the reader: how many copies
    std::vector<std::pair<int32_t, int32_t>> wanted = {}; // the same as pairs of state and copy, ascending
    const States *states;
  };
  struct Member {
    size_t share; // in the wide graph
    int32_t from;
    std::vector<int32_t> to;                         // by reader
    std::vector<std::pair<size_t, size_t>> messages; // by reader: places of the producer's and of the reader's
  };
  struct Shared {
    bool disjoint = true;        // WideShare, of all members
    std::vector<int32_t> copies; // the wide graph's numbers
    std::vector<char> costs;     // by copy and state of the producer: it costs something that can be paid
    const States *handed = nullptr;
    std::deque<Reader> readers;
    std::vector<Member> members;
  };
  struct Link {
    int32_t other;
    const double *table;               // row: the other's state, column: this end's
    size_t states, theirStates;        // numbers of them
    const int32_t *state, *theirState; // by kept option of this end and the other
    size_t mine, theirs;               // places of the two ends' messages
  };
  std::span<const Link> linksOf(int32_t node) const {
    return std::span(links_).subspan(firstLink_[size_t(node)], firstLink_[size_t(node) + 1] - firstLink_[size_t(node)]);
  }
  void pull(const Link &link);
  void takeParts(Shared &shared, const Known::Parts &before);
  template <typename Visit> void eachMessage(Visit visit) const;
  using Ends = std::vector<std::pair<const States *, const States *>>; // by edge
  void addShares(const WideGraph &wide, const Ends &ends, const std::vector<std::pair<size_t, size_t>> &messages,
                 std::vector<const WideTable *> &tableOf);
  void divide(const SharedCopies &all, Shared &shared);
  static void changePart(const Shared &shared, Reader &reader, size_t row, size_t copy, double amount);
  void moveParts();
  void leastSlack(const Shared &shared, size_t reader);

  const FlatProblem flat_;  // nodes and memory, no edges
  const Kept &options_;     // that are kept
  std::vector<Link> links_; // node by node: a pass reads them one after the other
  std::vector<size_t> firstLink_;
  std::vector<size_t> sizes_; // options of the wide graph, by node
  size_t numShares_;
  std::deque<WideTable> tables_;
  std::deque<States> states_;
  std::deque<Shared> shared_;
  struct Edge {
    size_t states[2]; // of the wide graph, by end
    const States *ends[2];
    size_t messages; // of the first end's; the other end's follow
  };
  std::vector<Edge> edges_;
  MemoryPrices prices_;
  bool forward_ = true;
  std::vector<double> slack_, given_, needing_; // of moveParts
  std::vector<std::vector<double>> free_;
  std::vector<double> unary_, kept_, total_, score_, pushed_;
  std::vector<double> message_, bestMessage_, bestPrices_;
  bool atBest_ = true; // message_ are those of the best bound, and bestMessage_ is room for others
  std::vector<int32_t> chosen_;
  double last_ = 0, best_;
  int stalled_ = 0;
  double work_ = 0;
};

} // namespace tessera::strategies

#endif
