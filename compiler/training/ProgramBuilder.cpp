#include "compiler/training/ProgramBuilder.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

void ProgramBuilder::addArguments(StringRef role) {
  for (unsigned i = 0; i < source_.getNumArguments(); ++i)
    if (argRole(source_, i) == role) {
      NamedAttrList attrs(source_.getArgAttrDict(i));
      attrs.erase(kUpdateAttr); // result numbers change
      arguments_.push_back({source_.getArgumentTypes()[i], attrs, source_.getArgument(i)});
    }
}

unsigned ProgramBuilder::addArgument(Type type, StringRef role, const Twine &wanted) {
  std::string name = wanted.str();
  while (llvm::any_of(llvm::seq(source_.getNumArguments()), [&](unsigned i) { return argName(source_, i) == name; }))
    name += "'"; // arguments of the model keep their names
  NamedAttrList attrs;
  Builder b(type.getContext());
  attrs.set(kRoleAttr, b.getStringAttr(role));
  attrs.set(kNameAttr, b.getStringAttr(name));
  arguments_.push_back({type, attrs, Value()});
  return unsigned(arguments_.size() - 1);
}

func::FuncOp ProgramBuilder::create(StringRef step) {
  OpBuilder b(source_);
  SmallVector<Type> types;
  for (const Slot &slot : arguments_)
    types.push_back(slot.type);
  func_ = func::FuncOp::create(b, source_.getLoc(), name_, b.getFunctionType(types, {}));
  Block *block = func_.addEntryBlock();
  for (auto [i, slot] : llvm::enumerate(arguments_))
    if (slot.from)
      mapping_.map(slot.from, block->getArgument(unsigned(i)));
  for (unsigned i = 0; i < source_.getNumArguments(); ++i)
    if (argRole(source_, i) == step && !step.empty())
      mapping_.map(source_.getArgument(i), block->getArgument(0));
  b.setInsertionPointToEnd(block);
  func::ReturnOp::create(b, source_.getLoc());
  return func_;
}

StringRef ProgramBuilder::argumentName(unsigned i) const {
  auto name = dyn_cast_or_null<StringAttr>(arguments_[i].attrs.get(kNameAttr));
  return name ? name.getValue() : StringRef();
}

void ProgramBuilder::cloneBody() {
  OpBuilder b(func_.getBody().front().getTerminator());
  for (Operation &op : source_.getBody().front().without_terminator())
    b.clone(op, mapping_);
}

void ProgramBuilder::addResult(Value value, StringRef role, StringRef name) {
  NamedAttrList attrs;
  Builder b(value.getContext());
  attrs.set(kRoleAttr, b.getStringAttr(role));
  attrs.set(kNameAttr, b.getStringAttr(name));
  results_.push_back({value.getType(), attrs, value});
}

void ProgramBuilder::addUpdate(unsigned argument, Value value) {
  Builder b(value.getContext());
  setArgumentAttr(argument, kUpdateAttr, b.getI64IntegerAttr(int64_t(results_.size())));
  addResult(value, kUpdate, argumentName(argument));
}

void ProgramBuilder::finish() {
  SmallVector<Value> values;
  SmallVector<Type> argumentTypes, resultTypes;
  for (const Slot &slot : arguments_)
    argumentTypes.push_back(slot.type);
  for (const Slot &slot : results_) {
    values.push_back(slot.from);
    resultTypes.push_back(slot.type);
  }
  func_.getBody().front().getTerminator()->setOperands(values);
  MLIRContext *context = func_.getContext();
  func_.setFunctionType(FunctionType::get(context, argumentTypes, resultTypes));
  auto dictionaries = [&](const SmallVector<Slot> &slots) {
    return llvm::map_to_vector(slots, [&](const Slot &s) { return s.attrs.getDictionary(context); });
  };
  func_.setAllArgAttrs(dictionaries(arguments_));
  func_.setAllResultAttrs(dictionaries(results_));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func_.getBody().front())))
    if (op.use_empty() && isMemoryEffectFree(&op) && !op.hasTrait<OpTrait::IsTerminator>())
      op.erase();
}

} // namespace tessera::compiler
