//===- InitialUse.cpp - what initial values a parameter should have -----------------------------===//

#include "compiler/import/Roles.h"

using namespace llvm;

namespace tessera::compiler {
namespace {

int64_t intAttr(const onnx::NodeProto &node, StringRef name) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name.str())
      return attribute.i();
  return 0;
}

/// Sets fan-in and fan-out of a kernel as PyTorch counts them.
void setFans(Source &source, const Reach &reach) {
  const Shape &shape = source.whole;
  auto rank = int64_t(shape.size());
  if (rank < 2) {
    source.init.fanIn = source.init.fanOut = rank == 0 ? 1 : double(shape[0]);
    return;
  }
  StringRef type = reach.use.node->op_type();
  if (type.starts_with("Conv")) {
    double field = 1;
    for (int64_t d = 2; d < rank; ++d)
      field *= double(shape[d]);
    source.init.fanIn = double(shape[1]) * field;
    source.init.fanOut = double(shape[0]) * field;
    return;
  }
  // [in, out], unless it is transposed on the way or by the product.
  bool outIn = reach.transposed != (type == "Gemm" && intAttr(*reach.use.node, "transB") != 0);
  source.init.fanIn = double(shape[outIn ? rank - 1 : rank - 2]);
  source.init.fanOut = double(shape[outIn ? rank - 2 : rank - 1]);
}

WeightUse useOf(char code) {
  switch (code) {
  case 'k':
    return WeightUse::Kernel;
  case 'b':
    return WeightUse::Bias;
  case 'e':
    return WeightUse::Embedding;
  case 's':
    return WeightUse::NormScale;
  case 'o':
    return WeightUse::NormBias;
  case 'm':
    return WeightUse::RunningMean;
  case 'v':
    return WeightUse::RunningVar;
  default:
    return WeightUse::Other;
  }
}

} // namespace

void describeWeights(std::vector<Source> &sources, const UseMap &uses) {
  std::map<const onnx::NodeProto *, double> kernelFan;
  std::map<std::string, size_t> byName;
  std::vector<std::vector<Reach>> reaches;
  for (size_t i = 0; i < sources.size(); ++i) {
    Source &source = sources[i];
    byName[source.name] = i;
    reaches.push_back(uses.reach(source.name));
    for (const Reach &r : reaches.back())
      if (r.isWeight() && r.code != 'p' && source.init.use == WeightUse::Other) {
        source.init.use = useOf(r.code);
        if (r.code == 'k' || r.code == 'e')
          setFans(source, r);
      }
    if (source.init.use == WeightUse::Kernel)
      for (const Reach &r : reaches.back())
        kernelFan.emplace(r.use.node, source.init.fanIn);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    Source &source = sources[i];
    InitContext &init = source.init;
    if (init.use == WeightUse::Bias)
      for (const Reach &r : reaches[i])
        if (auto it = kernelFan.find(r.use.node); it != kernelFan.end())
          init.fanIn = it->second;
    if (init.use != WeightUse::Other)
      continue;
    // Biases and scales that separate Add and Mul nodes apply.
    StringRef name = source.name;
    if (name.consume_back(".bias")) {
      auto sibling = byName.find(name.str() + ".weight");
      const InitContext *weight = sibling == byName.end() ? nullptr : &sources[sibling->second].init;
      bool norm = weight && weight->use == WeightUse::NormScale;
      init.use = norm ? WeightUse::NormBias : WeightUse::Bias;
      init.fanIn = weight ? weight->fanIn : 1;
    } else if (source.shape.size() <= 1 && !reaches[i].empty() &&
               all_of(reaches[i], [](const Reach &r) { return r.code == '*'; })) {
      init.use = WeightUse::NormScale;
    }
  }
}

} // namespace tessera::compiler
