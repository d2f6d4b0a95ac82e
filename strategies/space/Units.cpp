#include "strategies/space/Units.h"

#include <set>

using namespace mlir;

namespace tessera::strategies {

namespace {

using Units = llvm::SmallVector<int64_t, 2>;

/// More units of one factor are not followed. Each is one more way to cut it, where it does not divide.
constexpr size_t kMaxUnits = 4;
/// Units reach everything that a program connects in a few rounds; this many end any chain of reshapes.
constexpr int kMaxRounds = 8;

/// Returns whether the unit is new.
bool add(Units &units, int64_t unit) {
  if (unit == 1 || units.size() == kMaxUnits || llvm::is_contained(units, unit))
    return false;
  units.insert(llvm::lower_bound(units, unit), unit);
  return true;
}

/// The factor of a dimension that padded blocks can cut, and the elements behind one of its own.
struct Lead {
  int factor = -1; // there is none
  int64_t inner = 1;
};

Lead leadOf(const OperatorClass &cls, llvm::ArrayRef<int> factors) {
  Lead lead;
  for (int f : factors) {
    if (lead.factor >= 0)
      lead.inner *= cls.rule.factors[f].size;
    else if (cls.rule.factors[f].size > 1)
      lead.factor = f;
  }
  if (lead.factor >= 0 && !dist::mayPad(cls.rule, lead.factor, cls.operandShapes, cls.resultShapes))
    lead.factor = -1;
  return lead;
}

/// The units of a dimension with this lead.
Units unitsOf(const OperatorClass &cls, const Lead &lead) {
  Units units;
  if (lead.factor < 0)
    return units;
  add(units, lead.inner);
  if (!cls.units.empty())
    for (int64_t unit : cls.units[size_t(lead.factor)])
      add(units, unit * lead.inner);
  return units;
}

class Finder {
public:
  Finder(const Program &program, llvm::function_ref<OperatorClass &(int)> classOf)
      : program_(program), classOf_(classOf) {}

  void run() {
    bool any = false; // most programs have nothing to follow
    for (const auto &cls : program_.classes) {
      const auto &rule = cls->rule;
      auto compound = [](const ShardingRule::TensorFactors &tensor) {
        return llvm::any_of(tensor, [](const auto &dim) { return dim.size() > 1; });
      };
      any |= llvm::any_of(rule.operands, compound) || llvm::any_of(rule.results, compound);
      classOf_(cls->id).units.assign(rule.factors.size(), {});
      Leads &leads = leads_.emplace_back();
      for (const auto *tensors : {&rule.operands, &rule.results})
        for (const ShardingRule::TensorFactors &tensor : *tensors) {
          std::vector<Lead> &of = leads.emplace_back();
          for (const auto &factors : tensor)
            of.push_back(leadOf(*cls, factors));
        }
    }
    if (!any)
      return;
    listPlaces();
    for (int round = 0; round < kMaxRounds; ++round) {
      changed_ = false;
      for (size_t i = 0; i < places_.size(); ++i)
        visit(places_[i]);
      for (size_t i = places_.size(); i-- > 0;)
        visit(places_[i]);
      if (!changed_)
        break;
    }
  }

private:
  using Leads = std::vector<std::vector<Lead>>; // by operand, then result, and dimension
  /// A tensor that an operator reads or makes.
  struct Tensor {
    const std::vector<Lead> *leads; // one of them is there at least
    std::vector<Units> *dims;
  };
  struct Place {
    OperatorClass *cls;
    llvm::SmallVector<Tensor, 4> tensors; // operands, then results
  };

  /// Lists the operators that may pass units on, once for all rounds.
  void listPlaces() {
    for (const OperatorInfo &info : program_.operators) {
      const Leads &leads = leads_[size_t(info.cls->id)];
      Place place{&classOf_(info.cls->id), {}};
      size_t tensor = 0;
      auto list = [&](Value v) {
        const std::vector<Lead> &of = leads[tensor++];
        if (llvm::none_of(of, [](const Lead &lead) { return lead.factor >= 0; }))
          return;
        std::unique_ptr<std::vector<Units>> &dims = values_[v];
        if (!dims)
          dims = std::make_unique<std::vector<Units>>(of.size());
        place.tensors.push_back({&of, dims.get()});
      };
      llvm::for_each(info.op->getOperands(), list);
      llvm::for_each(info.op->getResults(), list);
      if (!place.tensors.empty())
        places_.push_back(std::move(place));
    }
  }

  void visit(const Place &place) {
    for (bool give : {false, true})
      for (const Tensor &tensor : place.tensors)
        exchange(*place.cls, *tensor.leads, *tensor.dims, give);
  }

  /// Takes units of a value's dimensions to the factors, or gives those of the factors to the dimensions.
  void exchange(OperatorClass &cls, llvm::ArrayRef<Lead> leads, std::vector<Units> &dims, bool give) {
    for (auto [d, lead] : llvm::enumerate(leads)) {
      if (lead.factor < 0)
        continue;
      if (give) {
        for (int64_t unit : unitsOf(cls, lead))
          changed_ |= add(dims[d], unit);
        continue;
      }
      for (int64_t unit : dims[d])
        if (const int64_t size = cls.rule.factors[lead.factor].size, own = unit / lead.inner;
            unit % lead.inner == 0 && own < size && size % own == 0)
          changed_ |= add(cls.units[size_t(lead.factor)], own);
    }
  }

  const Program &program_;
  llvm::function_ref<OperatorClass &(int)> classOf_;
  std::vector<Leads> leads_;                                          // by class
  llvm::DenseMap<Value, std::unique_ptr<std::vector<Units>>> values_; // looked up only
  std::vector<Place> places_;
  bool changed_ = false;
};

} // namespace

void findUnits(const Program &program, llvm::function_ref<OperatorClass &(int)> classOf) {
  Finder(program, classOf).run();
}

llvm::SmallVector<int64_t, 2> dimensionUnits(const OperatorClass &cls, llvm::ArrayRef<int> factors) {
  return unitsOf(cls, leadOf(cls, factors));
}

std::vector<llvm::SmallVector<int64_t, 2>> argumentUnits(const Program &program, const Mesh &mesh, Value argument) {
  const Shape shape = shapeOf(argument);
  std::set<int64_t> parts = {1}; // into which some axes cut
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    for (int64_t before : std::vector<int64_t>(parts.begin(), parts.end()))
      parts.insert(before * mesh.axisSize(axis));
  auto pads = [&](int64_t extent, int64_t unit) {
    return llvm::any_of(parts, [&](int64_t n) { return extent / unit % n != 0 && Sharding::canCut(extent, n, unit); });
  };
  std::vector<Units> units(shape.size());
  for (const ValueUse &use : program.uses(argument)) {
    const OperatorClass &cls = *program.operators[use.op].cls;
    for (auto [d, factors] : llvm::enumerate(cls.rule.operands[use.operand]))
      for (int64_t unit : dimensionUnits(cls, factors))
        if (pads(shape[d], unit))
          add(units[d], unit);
  }
  return units;
}

} // namespace tessera::strategies
