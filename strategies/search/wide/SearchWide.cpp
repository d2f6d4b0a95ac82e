#include "strategies/search/wide/SearchWide.h"

#include "strategies/search/Evaluate.h"
#include "strategies/search/wide/Reparametrized.h"
#include "strategies/search/wide/Undominated.h"
#include "strategies/search/wide/WideDual.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>

namespace tessera::strategies {

namespace {

// These numbers and WideLimits were set by hand. Half and twice of them are not measured: search_tuning.py varies
// numbers in tessera-solve, which has no wide graphs.
// Raising the bound:
constexpr int kLeastPasses = 10;               // of one raise; its rise is looked at once in as many passes
constexpr int kStalled = 40;                   // a raise ends after as many passes without a better bound
constexpr double kLittle = 1e-6;               // relative rise in kLeastPasses; below it a raise without memory ends
constexpr double kLittleOfGap = 0.03;          // of the gap that is asked for: the same where no answer is known yet
constexpr double kFirstBoundShare = 0.2;       // of the whole work, at most
constexpr double kFirstPricedBoundShare = 0.4; // the same of the first round where memory binds: prices need passes
constexpr double kSecondBoundShare = 0.2;      // of the whole work, at most; from the prices of the first search
constexpr int kEarlyPasses = 30;               // where an answer is known, before options are dropped
constexpr int kPassesUnpriced = 10;            // at the start of a raise: messages settle before prices move
constexpr double kStepFromPrices = 0.03;       // of WideDual::stepFactor where the prices are those of a search
constexpr double kTargetWithoutAnswer = 2;     // times the bound: where prices aim while no answer is known
// Searching:
constexpr double kFirstSearchShare = 0.2;       // of the whole work: the search among the options of least reduced cost
constexpr double kFirstPricedSearchShare = 0.4; // the same of the first round where memory binds
constexpr double kLastSearchShare = 0.2;        // of the whole work: the search after the work is spent
constexpr double kLeastSearch = 0.05;           // work of one search, in 1e9 steps, even if less is left
constexpr double kEntriesPerWork = 1e7;   // that last search has so many at most, or it would only state its problem
constexpr double kHardlySmaller = 0.5;    // part of the entries; if more are left, another round is not worth its bound
constexpr double kCutOffPrecision = 0.05; // relative, of the reduced cost at which options are cut off

constexpr size_t kFirstOffers = 1; // copies per share and state in the first search
constexpr size_t kFirstSets = 64;  // of copies that an option offers there
constexpr double kAmong =
    3; // times WideLimits::entries: with more left, what is dominated among them is not looked for

constexpr size_t kEvery = std::numeric_limits<size_t>::max();

// Rounding of the bound's sums: relative, and in units of cost. A lower bound is rounded down by both.
constexpr double kBoundRounding = 1e-12, kBoundRoundingUnits = 1e-3;
constexpr double kStepsPerWork = 1e9; // SearchOptions::work counts so many steps as 1

class WideSearch {
public:
  WideSearch(const WideGraph &wide, const SearchOptions &options, const WideLimits &limits)
      : wide_(wide), options_(options), limits_(limits) {
    if (!wide.dataParallel.empty())
      seeds_.push_back(wide.dataParallel);
  }

  WideSolution run() {
    if (options_.start)
      begin(*options_.start);
    const bool dropped = !best_.choice.empty() && dropBefore();
    if (proven()) // what is dominated does not matter any more
      return finish();
    kept_ = dropped ? undominatedAmong(wide_, std::move(kept_), chosen_, work_)
                    : undominated(wide_, {}, work_, options_.exactThreads);
    addSeeds(kept_);
    count(kept_, result_.undominated);
    offers_ = everyOffer(wide_, kept_);
    log("%ld undominated options, %.3g entries", long(result_.undominated), entries(kept_, offers_));
    if (nothingIn(kept_)) {
      result_.dense = denseGraph(wide_, kept_, offers_);
      result_.solution.infeasible = true;
      return finish();
    }
    bool nothing = false;
    for (double before; (before = entries(kept_, offers_)) > limits_.atOnce;) {
      WideDual dual(wide_, kept_);
      if (!known_.empty())
        dual.begin(known_);
      dual.setPrices(prices_); // of the round before
      if (isPriced(prices_))
        dual.stepFactor() = kStepFromPrices;
      const bool first = best_.choice.empty();
      const bool early = !first && !spent();
      if (early)
        raiseEarly(dual);
      if (early && dropEarly(dual)) {
        if (proven())
          return finish();
        known_ = dual.known();
        kept_ = undominatedAmong(wide_, std::move(kept_), chosen_, work_);
        offers_ = everyOffer(wide_, kept_);
        continue;
      }
      raise(dual, kFirstBoundShare, first ? kFirstPricedBoundShare : kFirstBoundShare);
      if (provenBound() >= options_.tooDear)
        return tooDear();
      if (proven())
        return finish();
      known_ = dual.known();
      // Where an answer is known and the work is done already, one search is left: that of the options below a limit.
      const bool isOver = spent() && !best_.choice.empty();
      if (isOver && options_.boundAlone)
        return atBound();
      if (!isOver) {
        const Kept likely = least(dual, limits_.perNode);
        Offers some = dual.offers(std::numeric_limits<double>::infinity(), kFirstOffers);
        some.mostSets = kFirstSets;
        solve(likely, some, first && isPriced(prices_) ? kFirstPricedSearchShare : kFirstSearchShare);
      }
      if (!isOver && !proven() && dual.hasMemory()) {
        // The prices that a search among few options found are near those for all options.
        dual.setPrices(prices_);
        dual.stepFactor() = kStepFromPrices;
        raise(dual, kSecondBoundShare, kSecondBoundShare);
        if (provenBound() >= options_.tooDear)
          return tooDear();
      }
      if (proven())
        return finish();
      const bool last = spent() && !best_.choice.empty();
      if (last && options_.boundAlone) // the bound is what it is
        return atBound();
      const std::vector<double> reduced = reducedCosts(dual);
      const double room =
          std::min(double(best_.cost) - dual.last(), *std::max_element(reduced.begin(), reduced.end()) + 1);
      Kept kept = below(dual, reduced, room);
      if (entries(kept, {}) < kAmong * limits_.entries)
        kept = undominatedAmong(wide_, std::move(kept), chosen_, work_);
      if (nothingIn(kept)) { // an answer that is known would be among them
        nothing = true;
        break;
      }
      // What two options cost together may be more than what any option costs.
      Offers offers = dual.offers(double(best_.cost) - dual.last(), kEvery);
      double left = entries(kept, offers);
      log("within %.3g above the bound: %.3g entries", room, left);
      const double most = last ? std::min(limits_.atOnce, kEntriesPerWork * workOf(kLastSearchShare)) : limits_.entries;
      if ((last || left > kHardlySmaller * before) && left > most) {
        const double limit = cutOff(dual, reduced, room, most, kept, offers);
        leftOut_ = std::min(leftOut_, dual.last() + limit);
        left = entries(kept, offers);
        log("cut off at %.3g: %.3g entries", limit, left);
      }
      if (last) { // the bound is what it is, the answer may become better
        solve(kept, offers, kLastSearchShare);
        return atBound();
      }
      known_ = dual.known();
      kept_ = std::move(kept);
      offers_ = std::move(offers);
      if (left > kHardlySmaller * before)
        break;
    }
    if (nothing)
      infeasible_ = true;
    else
      solve(kept_, offers_, 0);
    if (best_.choice.empty()) {
      result_.solution.infeasible = infeasible_ && std::isinf(leftOut_);
      return finish();
    }
    const Cost searched = Cost(std::min(double(best_.lowerBound), std::floor(leftOut_)));
    best_.lowerBound = std::min(best_.cost, std::max(provenBound(), searched));
    best_.optimal = best_.cost == best_.lowerBound;
    result_.solution = best_;
    return finish();
  }

private:
  static bool nothingIn(const Kept &kept) {
    return std::any_of(kept.begin(), kept.end(), [](const auto &list) { return list.empty(); });
  }
  void addSeeds(Kept &kept) const {
    for (const Choice &seed : seeds_)
      for (size_t n = 0; n < kept.size(); ++n)
        add(kept[n], seed[n]);
  }
  static void add(std::vector<int32_t> &list, int32_t option) {
    auto at = std::lower_bound(list.begin(), list.end(), option);
    if (at == list.end() || *at != option)
      list.insert(at, option);
  }
  static void count(const Kept &kept, int64_t &number) {
    number = 0;
    for (const auto &list : kept)
      number += int64_t(list.size());
  }
  double entries(const Kept &kept, const Offers &offers) const {
    std::vector<double> sizes;
    if (offers.list.empty())
      for (const auto &list : kept)
        sizes.push_back(double(list.size()));
    else
      sizes = denseSizes(wide_, kept, offers);
    double sum = 0;
    for (const WideEdge &edge : wide_.edges)
      sum += sizes[size_t(edge.from)] * sizes[size_t(edge.to)];
    return sum;
  }
  /// Begins at an answer that is known, if it fits.
  void begin(const Choice &start) {
    Kept only;
    for (int32_t option : start)
      only.push_back({option});
    DenseGraph made = denseGraph(wide_, only, everyOffer(wide_, only));
    Choice choice = made.choiceOf(wide_, start);
    const Evaluation judged = choice.empty() ? Evaluation() : evaluate(made.graph, choice);
    log("begins at cost %ld%s", long(judged.cost), judged.feasible ? "" : ", which does not fit");
    if (!judged.feasible || judged.cost >= options_.tooDear)
      return;
    best_.choice = std::move(choice);
    best_.cost = judged.cost;
    best_.searcher = options_.searcher;
    chosen_ = start;
    seeds_.push_back(start);
    result_.dense = std::move(made);
    result_.solution = best_;
  }
  /// Where an answer is known, a few passes show of most options that they are in no better one. That takes less time
  /// than to look for what is dominated among all of them.
  bool dropBefore() {
    kept_ = withPartners(wide_, work_);
    addSeeds(kept_);
    if (nothingIn(kept_) || entries(kept_, {}) <= limits_.atOnce)
      return false;
    WideDual dual(wide_, kept_);
    raiseEarly(dual);
    if (proven() || !dropEarly(dual))
      return false;
    known_ = dual.known();
    return true;
  }
  void raiseEarly(WideDual &dual) { raise(dual, kFirstBoundShare, kFirstBoundShare, kEarlyPasses); }
  bool dropEarly(WideDual &dual) {
    const std::vector<double> reduced = reducedCosts(dual);
    const double room = double(best_.cost) - dual.last();
    Kept kept = below(dual, reduced, room);
    const double before = entries(kept_, {}), left = entries(kept, {});
    log("within %.3g above the first bound: %.3g of %.3g entries", room, left, before);
    if (left > kHardlySmaller * before)
      return false;
    kept_ = std::move(kept);
    return true;
  }
  /// Memory binds.
  static bool isPriced(const std::vector<double> &prices) {
    return std::any_of(prices.begin(), prices.end(), [](double price) { return price > 0; });
  }
  /// Makes passes until the bound stands still, or `share` of the work is done, or `pricedShare` where memory binds.
  void raise(WideDual &dual, double share, double pricedShare, int mostPasses = std::numeric_limits<int>::max()) {
    const double whole = kStepsPerWork * (options_.work > 0 ? options_.work : options_.seconds), begun = work_;
    auto mayGoOn = [&] { return work_ < begun + whole * (isPriced(dual.bestPrices()) ? pricedShare : share); };
    double before = dual.best();
    int passes = 0;
    while (passes < kLeastPasses ||
           (passes < mostPasses && mayGoOn() && !options_.stopped() && dual.stalledPasses() < kStalled)) {
      dual.pass(/*answers=*/dual.hasMemory());
      work_ += dual.passWork();
      if (dual.hasMemory() && passes > kPassesUnpriced)
        dual.stepPrices(best_.choice.empty() ? kTargetWithoutAnswer * std::abs(dual.best()) : double(best_.cost));
      if (++passes % kLeastPasses)
        continue;
      // Where memory binds, prices make the bound fall before it rises.
      const double little = best_.choice.empty() ? std::max(kLittle, kLittleOfGap * options_.gap) : kLittle;
      if (!(dual.hasMemory() && (isPriced(dual.bestPrices()) || passes < 2 * kLeastPasses)) &&
          dual.best() - before < little * std::abs(dual.best()))
        break;
      before = dual.best();
      if (!best_.choice.empty() && double(best_.cost) <= dual.best() * (1 + options_.gap))
        break;
      if (dual.best() * (1 - kBoundRounding) - kBoundRoundingUnits >= double(options_.tooDear))
        break;
    }
    limited_ |= !mayGoOn();
    dual.restoreBest();
    dual.pass(/*answers=*/false);
    dual.pass(/*answers=*/false);
    work_ += 2 * dual.passWork();
    bound_ = std::max(bound_, std::min(dual.best(), leftOut_));
    prices_ = dual.bestPrices();
    tell();
    log("bound %.0f after %d passes", bound_, passes);
  }
  std::vector<double> reducedCosts(WideDual &dual) {
    // Each of the two directions of a pass gives bounds, and the larger one counts.
    std::vector<double> reduced = dual.reducedCosts();
    const double at = dual.last();
    dual.pass();
    std::vector<double> other = dual.reducedCosts();
    for (size_t i = 0; i < reduced.size(); ++i)
      reduced[i] = std::max(reduced[i] + at - dual.last(), other[i]);
    return reduced;
  }
  Kept least(WideDual &dual, size_t number) {
    std::vector<double> reduced = reducedCosts(dual);
    Kept kept(kept_.size());
    for (size_t n = 0; n < kept_.size(); ++n) {
      std::vector<std::pair<double, int32_t>> order;
      for (size_t s = 0; s < kept_[n].size(); ++s)
        order.push_back({reduced[dual.first(n) + s], kept_[n][s]});
      std::stable_sort(order.begin(), order.end());
      order.resize(std::min(order.size(), number));
      for (auto [cost, k] : order)
        kept[n].push_back(k);
      std::sort(kept[n].begin(), kept[n].end());
      add(kept[n], kept_[n][size_t(dual.answer()[n])]);
      if (!chosen_.empty())
        add(kept[n], chosen_[n]);
    }
    addSeeds(kept);
    return kept;
  }
  Kept below(const WideDual &dual, const std::vector<double> &reduced, double limit) const {
    Kept kept(kept_.size());
    for (size_t n = 0; n < kept_.size(); ++n)
      for (size_t s = 0; s < kept_[n].size(); ++s)
        if (reduced[dual.first(n) + s] <= limit || (!chosen_.empty() && kept_[n][s] == chosen_[n]))
          kept[n].push_back(kept_[n][s]);
    // Rounding may leave none.
    for (size_t n = 0; n < kept_.size(); ++n)
      if (kept[n].empty()) {
        const auto first = reduced.begin() + long(dual.first(n));
        kept[n].push_back(kept_[n][size_t(std::min_element(first, first + long(kept_[n].size())) - first)]);
      }
    return kept;
  }

  /// Finds a limit of the reduced cost that leaves at most `most` entries. `offers` are those within `room` at least.
  /// Sets `kept` and `offers` to what is below the limit, and returns it.
  double cutOff(const WideDual &dual, const std::vector<double> &reduced, double room, double most, Kept &kept,
                Offers &offers) const {
    const Kept all = std::move(kept);
    const Offers every = std::move(offers);
    auto among = [&](double limit) {
      Kept some = below(dual, reduced, limit);
      for (size_t n = 0; n < some.size(); ++n) {
        auto isIn = [&](int32_t k) { return std::binary_search(all[n].begin(), all[n].end(), k); };
        if (std::any_of(some[n].begin(), some[n].end(), isIn))
          std::erase_if(some[n], [&](int32_t k) { return !isIn(k); });
      }
      return some;
    };
    double low = 0, high = room;
    while (high - low > kCutOffPrecision * high) {
      const double limit = 0.5 * (low + high);
      const Kept some = among(limit);
      // Every option is there without an offer at least.
      const bool tooMany = entries(some, {}) > most || entries(some, every.within(limit)) > most;
      (tooMany ? high : low) = limit;
    }
    kept = among(low);
    offers = every.within(low);
    return low;
  }
  Cost provenBound() const { return Cost(std::ceil(bound_ * (1 - kBoundRounding) - kBoundRoundingUnits)); }

  /// Of one search, in 1e9 steps: `share` of the whole; 0: what is left.
  double workOf(double share) const {
    const double whole = options_.work > 0 ? options_.work : options_.seconds;
    return std::max(kLeastSearch, share > 0 ? share * whole : whole - 1e-9 * work_);
  }

  /// Searches among these options and offers with `share` of the work; 0: with all that is left.
  void solve(const Kept &kept, const Offers &offers, double share) {
    SearchOptions own = options_;
    if (options_.work > 0)
      own.work = workOf(share);
    own.seconds = options_.seconds;
    own.before = 1e-9 * work_;
    own.bound = std::max<Cost>(0, provenBound());
    DenseGraph made = denseGraph(wide_, kept, offers);
    const Choice start = chosen_.empty() ? Choice() : made.choiceOf(wide_, chosen_);
    std::vector<double> prices = prices_;
    own.prices = &prices;
    own.start = start.empty() ? nullptr : &start;
    own.provenUpTo = share > 0 || !made.whole ? 0 : std::min(leftOut_, own.provenUpTo);
    // Messages differ a little from layer to layer.
    own.alike = &made.graph;
    Solution found = known_.empty() ? search(made.graph, own) : search(reparametrized(wide_, made, known_), own);
    if (!prices.empty())
      prices_ = std::move(prices);
    work_ += kStepsPerWork * found.work;
    limited_ |= found.limited;
    log("searched: cost %ld, bound %ld%s", long(found.cost), long(found.lowerBound), found.optimal ? ", optimal" : "");
    if (!made.whole) { // what it proves holds for fewer copies only
      found.lowerBound = std::numeric_limits<Cost>::min();
      found.infeasible = false;
    }
    if (!found.choice.empty() && (best_.choice.empty() || found.cost <= best_.cost)) {
      chosen_.resize(kept.size());
      for (size_t n = 0; n < kept.size(); ++n)
        chosen_[n] = made.option[n][size_t(found.choice[n])];
      result_.dense = std::move(made);
      best_ = found;
    } else if (!best_.choice.empty()) {
      best_.lowerBound = std::min(found.infeasible ? best_.cost : found.lowerBound, best_.cost);
    } else {
      result_.dense = std::move(made);
      best_ = found;
      best_.infeasible = false; // it is proven for the searched options only
      infeasible_ = found.infeasible;
    }
    count(kept, result_.searched);
    result_.solution = best_;
  }
  bool spent() const {
    return options_.stopped() || work_ >= kStepsPerWork * (options_.work > 0 ? options_.work : options_.seconds);
  }
  void tell() const {
    if (!options_.watch)
      return;
    if (bound_ > 0)
      options_.watch->raise(provenBound());
    options_.watch->spend(1e-9 * work_);
  }
  bool proven() {
    if (best_.choice.empty())
      return false;
    const Cost bound = provenBound();
    if (double(best_.cost) > double(bound) * (1 + options_.gap))
      return false;
    best_.lowerBound = std::min(bound, best_.cost);
    best_.optimal = best_.lowerBound == best_.cost;
    result_.solution = best_;
    return true;
  }
  /// The best answer, with the bound over every option.
  WideSolution atBound() {
    best_.lowerBound = std::min(best_.cost, provenBound());
    best_.optimal = best_.cost == best_.lowerBound;
    result_.solution = best_;
    return finish();
  }
  WideSolution tooDear() {
    result_ = {};
    Kept one; // all of them may be too many
    for (const auto &list : kept_)
      one.push_back({list.front()});
    result_.dense = denseGraph(wide_, one, {std::vector<std::vector<Offer>>(wide_.shares.size())});
    result_.solution.infeasible = true;
    log("nothing is cheaper than %ld", long(options_.tooDear));
    return finish();
  }
  WideSolution finish() {
    result_.solution.work = 1e-9 * work_;
    result_.solution.limited = limited_ || spent();
    if (!result_.solution.choice.empty())
      result_.memoryPeak = evaluate(result_.dense.graph, result_.solution.choice).memoryPeak;
    return std::move(result_);
  }
  template <typename... Args> void log(const char *format, Args... args) const {
    if (!options_.log)
      return;
    fprintf(stderr, "wide: %.2f  ", work_ * 1e-9);
    fprintf(stderr, format, args...);
    fputc('\n', stderr);
  }

  const WideGraph &wide_;
  const SearchOptions &options_;
  const WideLimits &limits_;
  std::vector<Choice> seeds_;
  Kept kept_;
  Offers offers_;
  WideDual::Known known_;       // of the last bound, where the next one begins
  std::vector<double> prices_;  // of memory, by point in time; the last search's or bound's
  std::vector<int32_t> chosen_; // options of the best answer, by node; empty: none
  bool infeasible_ = false;     // proven for what the last search saw
  bool limited_ = false;        // a larger budget would have led elsewhere
  Solution best_;
  WideSolution result_;
  double work_ = 0, bound_ = 0;
  double leftOut_ = std::numeric_limits<double>::infinity(); // what an answer with an option that was cut off costs
};

} // namespace

WideSolution searchWide(const WideGraph &wide, const SearchOptions &options, const WideLimits &limits) {
  return WideSearch(wide, options, limits).run();
}

Cost summedCost(const WideGraph &wide, const std::vector<int32_t> &options) {
  Kept kept;
  for (int32_t option : options)
    kept.push_back({option});
  const DenseGraph alone = denseGraph(wide, kept, everyOffer(wide, kept));
  return evaluate(alone.graph, alone.choiceOf(wide, options)).cost;
}

} // namespace tessera::strategies
