#include "strategies/graph/BuildGraph.h"

#include "dialects/dist/Reshard.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/MemoryLoad.h"
#include "strategies/graph/ReshardPrices.h"
#include "strategies/space/InParallel.h"
#include "strategies/space/LiveRanges.h"

#include "llvm/ADT/MapVector.h"

#include <future>
#include <optional>
#include <set>

using namespace mlir;

namespace tessera::strategies {

namespace {

/// Of a copy in another sharding: its price, and what remains of it where messages are joined.
struct CopyPrice {
  Cost cost = 0, least = 0;
};

class Builder {
public:
  Builder(const FunctionAssignment &function, const CostModel &model, const FixedStrategies *fixed,
          const SharedShardings &shared, int64_t memoryLimit, KnownOptions *known, bool parts, Groups groups,
          PipelineShare share, int threads)
      : function_(function), program_(function.program), batch_(function.program), model_(model), fixed_(fixed),
        shared_(shared), memoryLimit_(memoryLimit), known_(known), parts_(parts), splits_(groups == Groups::Split),
        share_(share), threads_(threads), prices_(model.mesh()) {}

  BuiltGraph run() {
    // When values live depends on no option.
    if (threads_ > 1 && program_.func->getContext()->isMultithreadingEnabled())
      ranges_ = std::async(std::launch::async | std::launch::deferred, [this] { return LiveRanges(program_); });
    llvm::SmallVector<bool> isHead(program_.operators.size(), false);
    for (size_t i = 0; fixed_ && i < isHead.size(); ++i)
      isHead[i] = fixed_->groupOf[i] >= 0;
    built_.groups = formFollowGroups(function_, batch_, isHead);
    if (splits_)
      built_.groups = splitFollowGroups(function_, batch_, isHead, built_.groups);
    addNodes();
    addEdges();
    addMemory();
    return std::move(built_);
  }

private:
  const FollowGroup &group(int c) const { return built_.groups.list[c]; }
  const GroupOptions &options(int c) const { return *built_.options[c]; }

  void addNodes() {
    shares_.emplace(program_, built_.groups);
    OptionBuilder builder(function_, built_.groups, *shares_, model_, batch_, fixed_, known_, parts_);
    std::vector<const Sharding *> pinned(built_.groups.list.size(), nullptr);
    for (size_t c = 0; c < pinned.size(); ++c) {
      int arg = group(int(c)).arg;
      if (arg >= 0 && function_.isPersistent(unsigned(arg)))
        if (auto it = shared_.find(function_.argName(unsigned(arg))); it != shared_.end())
          pinned[c] = &it->second;
    }
    built_.options = builder.options(pinned, threads_);
    std::map<const GroupOptions *, std::shared_ptr<const std::vector<Cost>>> costs;
    std::map<const GroupOptions *, std::shared_ptr<const std::vector<CostParts>>> parts;
    for (size_t c = 0; c < built_.groups.list.size(); ++c) {
      const int arg = group(int(c)).arg;
      std::shared_ptr<const std::vector<Cost>> &known = costs[&options(int(c))];
      if (!known) {
        auto made = std::make_shared<std::vector<Cost>>();
        for (const GroupOption &option : options(int(c)))
          made->push_back(option.cost());
        known = std::move(made);
      }
      built_.wide.nodes.push_back(
          {arg >= 0 ? function_.argName(unsigned(arg)) : program_.operators[group(int(c)).ops.front()].name, known});
      if (!parts_)
        continue;
      std::shared_ptr<const std::vector<CostParts>> &split = parts[&options(int(c))];
      if (!split) {
        auto made = std::make_shared<std::vector<CostParts>>();
        for (const GroupOption &option : options(int(c)))
          made->push_back(option.parts());
        split = std::move(made);
      }
      built_.wide.nodes.back().parts = split;
    }
  }

  /// What the options of a group have in common, as numbers: equal things have one, in the order of their first option.
  template <typename T> struct States {
    std::shared_ptr<const std::vector<int32_t>> ofOption;
    std::vector<T> things; // by state
  };
  /// A value as a group hands it on: its sharding, and those in which the group has copies of it for itself. Shardings
  /// are numbered.
  using Handed = States<std::pair<int, std::vector<int>>>;
  using Wanted = States<std::vector<int>>;

  /// `alike`: a number for each option, counted from 0; options with the same number have the same thing, `of(option)`.
  template <typename T, typename Of>
  static States<T> statesOf(const GroupOptions &options, const std::vector<int32_t> &alike, Of of) {
    std::map<T, int32_t> numbers;
    std::vector<int32_t> known, state;
    States<T> result;
    for (auto [option, number] : llvm::zip_equal(options, alike)) {
      if (size_t(number) >= known.size())
        known.resize(size_t(number) + 1, -1);
      int32_t &here = known[size_t(number)];
      if (here < 0) {
        auto [it, fresh] = numbers.try_emplace(of(option), int32_t(numbers.size()));
        if (fresh)
          result.things.push_back(it->first);
        here = it->second;
      }
      state.push_back(here);
    }
    result.ofOption = std::make_shared<const std::vector<int32_t>>(std::move(state));
    return result;
  }

  /// By option its tail. Options of one tail hand on alike.
  static std::vector<int32_t> tailsOf(const GroupOptions &options) {
    std::vector<int32_t> tails;
    for (const GroupOption &option : options)
      tails.push_back(option.tail->id);
    return tails;
  }

  /// How group `c` hands on the value under each of its options. Equal groups share their options, and so this.
  const Handed &handed(int c, Value value) {
    const int producer = program_.producer(value);
    const int at = producer < 0 ? -1 : int(position(c, producer));
    const int result = producer < 0 ? 0 : int(cast<OpResult>(value).getResultNumber());
    auto [it, fresh] = handed_.try_emplace({&options(c), at, result});
    if (fresh)
      it->second =
          statesOf<std::pair<int, std::vector<int>>>(options(c), tailsOf(options(c)), [&](const GroupOption &option) {
            std::pair<int, std::vector<int>> state;
            auto &[id, copies] = state;
            id = at < 0 ? prices_.number(option.arg())
                        : prices_.number(dist::resultSharding(model_.mesh(), program_.operators[producer].cls->rule,
                                                              option.strategy(size_t(at)), result));
            for (const GroupTail::Copy &copy : option.tail->copies)
              if (copy.member == at && copy.result == result)
                copies.push_back(prices_.number(copy.sharding));
            llvm::sort(copies);
            return state;
          });
    return it->second;
  }

  /// How a group reads a value of another group.
  struct Reads {
    Value value;
    std::vector<std::pair<int, int>> places; // operators and their operands, in program order
    bool isUpdate;                           // it is also the new value of the group's argument
  };

  /// The distinct shardings under which each option of group `c` takes the value.
  const Wanted &wanted(int c, const Reads &reads) {
    std::vector<std::pair<int, int>> key;
    for (auto [op, operand] : reads.places)
      key.push_back({int(position(c, op)), operand});
    if (reads.isUpdate)
      key.push_back({-1, -1});
    auto [it, fresh] = wanted_.try_emplace({&options(c), key});
    if (fresh)
      it->second = findWanted(c, reads);
    return it->second;
  }

  Wanted findWanted(int c, const Reads &reads) {
    // A head's operands follow from how it takes them, those of the others from the tail.
    std::vector<std::pair<int, int>> ofHead, ofTail;
    for (auto [op, operand] : reads.places)
      (group(c).arg < 0 && op == group(c).ops.front() ? ofHead : ofTail).push_back({op, operand});
    auto take = [&](const GroupOption &option, const std::vector<std::pair<int, int>> &places, bool isUpdate) {
      std::vector<int> distinct;
      for (auto [op, operand] : places)
        distinct.push_back(prices_.number(dist::operandSharding(model_.mesh(), program_.operators[size_t(op)].cls->rule,
                                                                option.strategy(position(c, op)), operand)));
      if (isUpdate)
        distinct.push_back(prices_.number(option.arg()));
      llvm::sort(distinct);
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      return distinct;
    };
    const int32_t tails = int32_t(options(c).numTails());
    std::vector<int32_t> alike = tailsOf(options(c));
    for (auto [number, option] : llvm::zip_equal(alike, options(c)))
      if (!ofHead.empty())
        number = ofTail.empty() ? option.head->taken : option.head->taken * tails + number;
    std::vector<std::vector<int>> byTail(options(c).numTails());
    std::vector<int> byHead;
    int taken = -1;
    return statesOf<std::vector<int>>(options(c), alike, [&](const GroupOption &option) {
      std::vector<int> &tail = byTail[size_t(option.tail->id)], both;
      if (tail.empty())
        tail = take(option, ofTail, reads.isUpdate);
      if (!ofHead.empty() && option.head->taken != taken) {
        byHead = take(option, ofHead, false);
        taken = option.head->taken;
      }
      std::set_union(byHead.begin(), byHead.end(), tail.begin(), tail.end(), std::back_inserter(both));
      return both;
    });
  }

  size_t position(int c, int op) const { return size_t(llvm::lower_bound(group(c).ops, op) - group(c).ops.begin()); }

  /// What copies of a tensor cost, by their shardings, beside what a group that hands it on so has.
  void copyPrices(int tensor, const std::pair<int, std::vector<int>> &handed, llvm::ArrayRef<int> wanted,
                  const CostModel &model, std::vector<CopyPrice> &copies) {
    ReshardPrices::Row row = prices_.row(tensor, handed.first, model);
    copies.clear();
    for (int want : wanted)
      if (llvm::is_contained(handed.second, want))
        copies.push_back({0, 0});
      else
        copies.push_back({row.cost(want), parts_ ? row.least(want) : 0});
  }

  /// What fusion loses where the value is resharded, by state of group `c`: the time that its operators at `places`,
  /// which make or read the value, take longer. Empty: nothing.
  std::vector<Cost> lossOf(int c, Value value, llvm::ArrayRef<int> places, const std::vector<int32_t> &ofOption,
                           size_t states, const CostModel &model) const {
    std::vector<Cost> loss;
    if (!shares_->matters(value))
      return loss;
    loss.assign(states, kUnknown);
    for (size_t k = 0; k < ofOption.size(); ++k) {
      Cost &sum = loss[size_t(ofOption[k])];
      if (sum != kUnknown)
        continue;
      sum = 0;
      for (int op : places) {
        auto time = [&](bool isResharded) {
          return shares_->compute(model, op, options(c)[k].strategy(position(c, op)),
                                  [&](Value v) { return isResharded && v == value; });
        };
        sum += time(true) - time(false);
      }
    }
    return loss;
  }

  /// What states want, with the distinct things numbered.
  struct Columns {
    std::vector<int> things;
    std::vector<int32_t> list;  // of all columns, one after the other: numbers of things
    std::vector<size_t> begins; // by column, and the end
  };
  static Columns columnsOf(const Wanted &wanted) {
    Columns columns;
    for (const std::vector<int> &column : wanted.things)
      columns.things.insert(columns.things.end(), column.begin(), column.end());
    llvm::sort(columns.things);
    columns.things.erase(std::unique(columns.things.begin(), columns.things.end()), columns.things.end());
    for (const std::vector<int> &column : wanted.things) {
      columns.begins.push_back(columns.list.size());
      for (int want : column)
        columns.list.push_back(int32_t(llvm::lower_bound(columns.things, want) - columns.things.begin()));
    }
    columns.begins.push_back(columns.list.size());
    return columns;
  }

  using Table = std::shared_ptr<const StateTable>;
  /// A table that is to be made: by how the value is handed on, and how group `group` wants it.
  struct Asked {
    int tensor;
    const Handed *from;
    int group;
    const Wanted *to;
    Reads reads;
    Table *table;
  };
  /// What the reshards cost, and what fusion loses by them.
  Table tableOf(const Asked &asked, const CostModel &model) {
    const auto &[tensor, handed, c, wanted, reads, place] = asked;
    const Handed &from = *handed;
    const Wanted &to = *wanted;
    const int producer = program_.producer(reads.value);
    llvm::SmallVector<int> readers;
    for (auto [op, operand] : reads.places)
      if (readers.empty() || readers.back() != op)
        readers.push_back(op);
    const std::vector<Cost> made = producer < 0 ? std::vector<Cost>()
                                                : lossOf(built_.groups.ofOp[producer], reads.value, producer,
                                                         *from.ofOption, from.things.size(), model),
                            read = lossOf(c, reads.value, readers, *to.ofOption, to.things.size(), model);
    auto costs = std::make_shared<StateTable>();
    costs->rows = from.things.size();
    costs->columns = to.things.size();
    costs->costs.reserve(costs->rows * costs->columns);
    if (parts_)
      costs->least.reserve(costs->rows * costs->columns);
    if (parts_ && !made.empty())
      costs->compute.reserve(costs->rows * costs->columns);
    const Columns columns = columnsOf(to);
    std::vector<CopyPrice> copies;
    for (size_t row = 0; row < costs->rows; ++row) {
      copyPrices(tensor, from.things[row], columns.things, model, copies);
      for (size_t column = 0; column < costs->columns; ++column) {
        CopyPrice sum;
        for (size_t at = columns.begins[column]; at < columns.begins[column + 1]; ++at) {
          const CopyPrice &copy = copies[size_t(columns.list[at])];
          sum.cost = std::min(kForbidden, sum.cost + copy.cost);
          sum.least = std::min(kForbidden, sum.least + copy.least);
        }
        const Cost loss = sum.cost > 0 && !made.empty() ? made[row] + read[column] : 0;
        costs->costs.push_back(std::min(kForbidden, sum.cost + loss));
        if (parts_)
          costs->least.push_back(sum.least);
        if (parts_ && !made.empty())
          costs->compute.push_back(loss);
      }
    }
    return costs;
  }

  /// How a group takes a value of another one.
  struct Reader {
    int32_t group;
    const Wanted *wanted;
    const Table *table;
  };

  /// Edges of one value share their copies.
  void addEdges() {
    std::vector<std::pair<Value, Reader>> all;
    std::map<int, std::vector<Asked>> asked; // by tensor
    for (size_t c = 0; c < built_.groups.list.size(); ++c)
      for (Reads &reads : readsFromOthers(int(c))) {
        const Wanted &to = wanted(int(c), reads);
        const Handed &from = handed(built_.groups.of(program_, reads.value), reads.value);
        const int tensor = prices_.tensor(reads.value);
        auto [it, fresh] = tables_.try_emplace({tensor, &from, &to});
        all.push_back({reads.value, {int32_t(c), &to, &it->second}});
        if (fresh)
          asked[tensor].push_back({tensor, &from, int(c), &to, std::move(reads), &it->second});
      }
    makeTables(std::move(asked));
    llvm::MapVector<Value, std::vector<Reader>> readers;
    for (const auto &[value, reader] : all)
      if (llvm::any_of((*reader.table)->costs, [](Cost x) { return x != 0; }))
        readers[value].push_back(reader);
    for (const auto &[value, list] : readers)
      addEdges(value, list);
  }

  /// One thread makes all tables of a tensor, since they ask for the same reshards: the largest first.
  void makeTables(std::map<int, std::vector<Asked>> asked) {
    std::vector<std::pair<size_t, const std::vector<Asked> *>> order;
    for (const auto &[tensor, list] : asked) {
      size_t entries = 0;
      for (const Asked &table : list)
        entries += table.from->things.size() * table.to->things.size();
      order.push_back({entries, &list});
    }
    llvm::stable_sort(order, [](const auto &a, const auto &b) { return a.first > b.first; });
    const std::vector<const CostModel *> models = model_.perThread(threads_);
    inParallel(threads_, order.size(), [&](size_t i, size_t thread) {
      for (const Asked &table : *order[i].second)
        *table.table = tableOf(table, *models[thread]);
    });
  }

  Table scaled(const Table &table, int64_t number) {
    if (number == 1)
      return table;
    Table &costs = scaled_[{table, number}];
    if (!costs) {
      auto made = std::make_shared<StateTable>(*table);
      for (std::vector<Cost> *list : {&made->costs, &made->compute, &made->least})
        for (Cost &cost : *list)
          cost = repeated(cost, number);
      costs = std::move(made);
    }
    return costs;
  }

  void addEdges(Value value, const std::vector<Reader> &readers) {
    const int node = built_.groups.of(program_, value), tensor = prices_.tensor(value);
    const Handed &from = handed(node, value);
    const int64_t times = program_.times(value);
    WideShare share;
    std::vector<const Wanted *> wants;
    for (const Reader &reader : readers) {
      share.edges.push_back(int32_t(built_.wide.edges.size()));
      built_.wide.edges.push_back({int32_t(node), reader.group, from.ofOption, reader.wanted->ofOption,
                                   scaled(*reader.table, times), batch_.values.contains(value)});
      wants.push_back(reader.wanted);
    }
    if (readers.size() < 2)
      return;
    share.copies = copiesOf(tensor, from, wants, times);
    if (share.copies)
      built_.wide.shares.push_back(std::move(share));
  }

  /// What the readers of such a value can share; null: nothing.
  std::shared_ptr<const SharedCopies> copiesOf(int tensor, const Handed &handed,
                                               const std::vector<const Wanted *> &readers, int64_t number) {
    auto [it, fresh] = copies_.try_emplace({tensor, number, &handed, readers});
    if (!fresh)
      return it->second;
    auto made = std::make_shared<SharedCopies>();
    std::map<int, int32_t> place;
    std::vector<int> copies, wanting; // by copy: its sharding, and how many readers may want it
    for (const Wanted *reader : readers) {
      auto &wants = made->wants.emplace_back();
      std::set<int> all;
      for (const std::vector<int> &column : reader->things) {
        std::vector<int32_t> &list = wants.emplace_back();
        for (int want : column) {
          auto [at, isNew] = place.try_emplace(want, int32_t(copies.size()));
          if (isNew) {
            copies.push_back(want);
            wanting.push_back(0);
          }
          wanting[size_t(at->second)] += all.insert(want).second;
          list.push_back(at->second);
        }
        llvm::sort(list);
      }
    }
    made->prices.rows = handed.things.size();
    made->prices.columns = copies.size();
    bool shared = false;
    std::vector<CopyPrice> prices;
    for (const auto &row : handed.things) {
      copyPrices(tensor, row, copies, model_, prices);
      for (size_t copy = 0; copy < copies.size(); ++copy) {
        made->prices.costs.push_back(repeated(prices[copy].cost, number));
        if (parts_)
          made->prices.least.push_back(repeated(prices[copy].least, number));
        shared |= wanting[copy] > 1 && made->prices.costs.back() > 0 && made->prices.costs.back() < kForbidden;
      }
    }
    if (shared)
      it->second = std::move(made);
    return it->second;
  }

  std::vector<Reads> readsFromOthers(int c) const {
    std::vector<Reads> reads;
    llvm::DenseMap<Value, size_t> at; // looked up only
    auto of = [&](Value v) -> Reads * {
      if (int p = built_.groups.of(program_, v); p < 0 || p == c)
        return nullptr;
      auto [it, fresh] = at.try_emplace(v, reads.size());
      if (fresh)
        reads.push_back({v, {}, false});
      return &reads[it->second];
    };
    for (int i : group(c).ops)
      for (OpOperand &operand : program_.operators[i].op->getOpOperands())
        if (Reads *read = of(operand.get()))
          read->places.push_back({i, int(operand.getOperandNumber())});
    if (group(c).arg < 0)
      return reads;
    if (auto r = graph::updateOf(program_.func, unsigned(group(c).arg)))
      if (Reads *read = of(program_.returnOp()->getOperand(*r)))
        read->isUpdate = true;
    return reads;
  }

  /// Bytes by option of a group, and the most of them.
  struct Bytes {
    Bytes() = default;
    explicit Bytes(std::vector<int64_t> byOption)
        : of(std::move(byOption)), most(*std::max_element(of.begin(), of.end())) {}
    std::vector<int64_t> of;
    int64_t most = 0;
  };
  using SharedBytes = std::shared_ptr<const Bytes>;
  static SharedBytes sharedBytes(std::vector<int64_t> bytes) { return std::make_shared<const Bytes>(std::move(bytes)); }

  /// What is live only while the operator runs.
  const SharedBytes &transient(int op) {
    const int c = built_.groups.ofOp[op];
    const size_t at = position(c, op);
    SharedBytes &known = transient_[{&options(c), at}];
    if (!known) {
      std::vector<int64_t> bytes;
      for (const GroupOption &option : options(c))
        bytes.push_back(option.transient(at));
      known = sharedBytes(std::move(bytes));
    }
    return known;
  }

  /// What a group keeps in memory for a while.
  struct Live {
    int group;
    SharedBytes bytes;
    LiveRange range;
    int64_t times = 1; // in the memory of all stages
  };

  const SharedBytes &bytesOf(int c, Value v) {
    const Handed &states = handed(c, v);
    SharedBytes &known = bytes_[{&states, v.getType().getAsOpaquePointer()}];
    if (!known) {
      std::vector<int64_t> byState, bytes;
      for (const auto &[id, copies] : states.things)
        byState.push_back(model_.localBytes(shapeOf(v), elementBytes(v.getType()), prices_.sharding(id)));
      for (int32_t state : *states.ofOption)
        bytes.push_back(byState[size_t(state)]);
      known = sharedBytes(std::move(bytes));
    }
    return known;
  }

  /// What a result takes before the operator's own reshard of it, by option of its group.
  std::vector<int64_t> bytesAsMade(int op, Value v) {
    const int c = built_.groups.ofOp[op];
    std::vector<int64_t> bytes;
    for (const GroupOption &option : options(c))
      bytes.push_back(model_.localBytes(shapeOf(v), elementBytes(v.getType()),
                                        dist::naturalResult(model_.mesh(), program_.operators[size_t(op)].cls->rule,
                                                            option.strategy(position(c, op)),
                                                            int(cast<OpResult>(v).getResultNumber()))));
    return bytes;
  }

  /// What a view takes, by option of its group: nothing unless it hands on a copy.
  std::vector<int64_t> bytesOfCopies(int op, Value v) {
    const int c = built_.groups.ofOp[op];
    std::vector<int64_t> bytes = bytesOf(c, v)->of;
    for (auto [k, option] : llvm::enumerate(options(c)))
      if (option.strategy(position(c, op)).results.empty())
        bytes[k] = 0;
    return bytes;
  }

  std::vector<Live> findLives() {
    std::vector<Live> lives;
    const LiveRanges ranges = ranges_.valid() ? ranges_.get() : LiveRanges(program_);
    func::FuncOp func = program_.func;
    for (unsigned a = 0; a < function_.args.size(); ++a) {
      int c = built_.groups.ofArg[a];
      lives.push_back({c, bytesOf(c, func.getArgument(a)), ranges.argument(a)});
    }
    for (size_t i = 0; i < program_.operators.size(); ++i) {
      int c = built_.groups.ofOp[i];
      if (c < 0)
        continue;
      if (const SharedBytes &bytes = transient(int(i)); bytes->most > 0)
        lives.push_back({c, bytes, {ranges.time(int(i)), ranges.time(int(i))}, inStage(int(i))});
      for (Value v : program_.operators[i].op->getResults()) {
        // What updates the group's own argument lies as that does.
        std::optional<LiveRange> range = ranges.result(v, [&](unsigned arg) { return int(arg) == group(c).arg; });
        if (program_.operators[i].cls->addsUp) {
          // Carried as it is added up, and reduced behind the body.
          lives.push_back({c, sharedBytes(bytesAsMade(int(i), v)), ranges.body()});
          if (range)
            range->from = ranges.body().to + 1;
        }
        if (range && range->from <= range->to)
          lives.push_back({c, bytesOf(c, v), *range, inStage(int(i), v)});
        else if (program_.operators[i].mayKeepCopy)
          lives.push_back({c, sharedBytes(bytesOfCopies(int(i), v)), ranges.copy(v), inStage(int(i), v)});
      }
    }
    return lives;
  }

  /// How often what an operator makes counts in the memory of all stages. No value: what is there while it runs.
  int64_t inStage(int op, Value v = {}) {
    if (share_.stages == 1 || !inBody(op) || program_.operators[size_t(op)].cls->addsUp ||
        (v && graph::isAccumulated(v)))
      return 1;
    return v && !isGradient(program_.operators[size_t(op)].op) && isReadBackward(v) ? share_.held : share_.stages;
  }
  bool inBody(int op) const { return program_.operators[size_t(op)].section == graph::Section::Body; }
  static bool isGradient(Operation *op) { return op->hasAttr(graph::kGradOfAttr); }
  bool isReadBackward(Value v) const {
    return llvm::any_of(v.getUsers(), [&](Operation *user) {
      auto reader = program_.index.find(user);
      if (reader == program_.index.end() || !inBody(reader->second))
        return false;
      return isGradient(user) || (graph::isView(user) && isReadBackward(user->getResult(0)));
    });
  }

  /// Even if every group took its most wasteful option.
  static bool mustFit(const std::vector<Live> &lives, int64_t limit) {
    graph::MemoryLoad most;
    for (const Live &live : lives)
      most.add(live.range.from, live.range.to, live.times * live.bytes->most);
    return most.peak().bytes <= limit;
  }

  void addMemory() {
    std::vector<Live> lives = findLives();
    if (mustFit(lives, memoryLimit_))
      return;
    built_.wide.memoryLimit = memoryLimit_;
    // By node and time; what lives at the same times is one use.
    std::map<std::pair<size_t, std::pair<int64_t, int64_t>>, size_t> places;
    std::vector<std::vector<WideUse>> uses(built_.wide.nodes.size());
    std::vector<std::vector<std::vector<int64_t>>> bytes(uses.size());
    for (const Live &live : lives) {
      const int64_t from = live.range.from, to = live.range.to + 1;
      const size_t n = size_t(live.group);
      auto [it, fresh] = places.try_emplace({n, {from, to}}, uses[n].size());
      if (fresh) {
        uses[n].push_back({nullptr, from, to});
        bytes[n].emplace_back(live.bytes->of.size(), 0);
      }
      std::vector<int64_t> &sum = bytes[n][it->second];
      for (size_t k = 0; k < sum.size(); ++k)
        sum[k] += live.times * live.bytes->of[k];
    }
    std::map<std::vector<int64_t>, std::shared_ptr<const std::vector<int64_t>>> lists;
    for (size_t n = 0; n < uses.size(); ++n)
      for (size_t u = 0; u < uses[n].size(); ++u) {
        std::shared_ptr<const std::vector<int64_t>> &known = lists[bytes[n][u]];
        if (!known)
          known = std::make_shared<const std::vector<int64_t>>(std::move(bytes[n][u]));
        uses[n][u].bytes = known;
        built_.wide.nodes[n].uses.push_back(uses[n][u]);
      }
  }

  const FunctionAssignment &function_;
  const Program &program_;
  const BatchDependence batch_;
  const CostModel &model_;
  const FixedStrategies *fixed_;
  const SharedShardings &shared_;
  int64_t memoryLimit_;
  KnownOptions *known_;
  const bool parts_, splits_;
  const PipelineShare share_;
  const int threads_;
  BuiltGraph built_;
  std::future<LiveRanges> ranges_;
  std::optional<LoopShares> shares_;
  static constexpr Cost kUnknown = -1;
  ReshardPrices prices_;
  // Equal groups have one GroupOptions; maps keep the places of what they hold.
  std::map<std::tuple<const GroupOptions *, int, int>, Handed> handed_;
  std::map<std::pair<const GroupOptions *, std::vector<std::pair<int, int>>>, Wanted> wanted_;
  std::map<std::tuple<int, const Handed *, const Wanted *>, Table> tables_;
  std::map<std::pair<Table, int64_t>, Table> scaled_;
  std::map<std::pair<const GroupOptions *, size_t>, SharedBytes> transient_; // by member
  std::map<std::pair<const Handed *, const void *>, SharedBytes> bytes_;     // by type
  std::map<std::tuple<int, int64_t, const Handed *, std::vector<const Wanted *>>, std::shared_ptr<const SharedCopies>>
      copies_;
};

} // namespace

BuiltGraph buildGraph(const FunctionAssignment &function, const CostModel &model, const FixedStrategies *fixed,
                      const SharedShardings &shared, int64_t memoryLimit, KnownOptions *known, bool parts,
                      Groups groups, PipelineShare share, int threads) {
  return Builder(function, model, fixed, shared, memoryLimit, known, parts, groups, share, threads).run();
}

} // namespace tessera::strategies
