//===- Loops.h - fused loops by hand, and norms made of them -------------------------------------------===//
//
//   Loop(p, {4, 8}).in(x).in(m, {4, 1}).op("sub", {0, 1}).out(y, 2).out(s, 2, plan::SUM, {4, 1});
//
// is y = x - m over 4 x 8 points and the sums of its rows. Inputs come first; values are numbered as they are written
// here.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_BACKEND_LOOPS_H
#define TESSERA_TEST_CONFORMANCE_BACKEND_LOOPS_H

#include "test/conformance/backend/PlanBuilder.h"

namespace tessera::rt::test {

class Loop {
public:
  /// Computes in `type`, F32 or F64. Operands of 16 bits are converted when they are read and written.
  Loop(PlanBuilder &p, const Shape &domain, plan::DType type = plan::F32)
      : domain_(domain), type_(type), plan_(p.plan()), kernel_(p.kernel("fused", {}, {})),
        e_(*kernel_.mutable_expression()) {
    add(e_.mutable_domain(), domain);
  }
  Loop &in(uint32_t buffer) { return in(buffer, domain_); }
  Loop &in(uint32_t buffer, const Shape &view) {
    kernel_.add_inputs(buffer);
    add(e_.add_input_views()->mutable_shape(), view);
    ids_.push_back(uint32_t(ids_.size()));
    return *this;
  }
  /// Without `type` the operator has the loop's type.
  Loop &op(const std::string &name, const std::vector<uint32_t> &operands, plan::DType type = plan::DTYPE_INVALID,
           double immediate = 0, const Attributes &attributes = {}) {
    convertInputs();
    std::vector<uint32_t> ids;
    for (uint32_t o : operands)
      ids.push_back(ids_[o]);
    ids_.push_back(instruction(name, ids, type == plan::DTYPE_INVALID ? type_ : type, immediate, attributes));
    return *this;
  }
  Loop &constant(double value) { return op("constant", {}, plan::DTYPE_INVALID, value); }
  Loop &out(uint32_t buffer, uint32_t value) { return out(buffer, value, plan::NONE, domain_); }
  Loop &out(uint32_t buffer, uint32_t value, plan::Reduction reduction, const Shape &view) {
    convertInputs();
    const plan::DType type = typeOf(buffer);
    kernel_.add_outputs(buffer);
    plan::Result &r = *e_.add_results();
    r.set_value(isHalf(type) ? instruction("cast", {ids_[value]}, type, 0, {}) : ids_[value]);
    r.set_reduction(reduction);
    add(r.mutable_shape(), view);
    return *this;
  }

private:
  static void add(google::protobuf::RepeatedField<int64_t> *to, const Shape &shape) {
    for (int64_t d : shape)
      to->Add(d);
  }
  static bool isHalf(plan::DType type) { return type == plan::F16 || type == plan::BF16; }
  plan::DType typeOf(uint32_t buffer) const { return plan_.buffers(int(buffer)).dtype(); }
  void convertInputs() {
    if (e_.code_size() > 0)
      return;
    for (uint32_t i = 0; i < ids_.size(); ++i)
      if (isHalf(typeOf(kernel_.inputs(int(i)))))
        ids_[i] = instruction("cast", {i}, type_, 0, {});
  }
  uint32_t instruction(const std::string &name, const std::vector<uint32_t> &operands, plan::DType type,
                       double immediate, const Attributes &attributes) {
    plan::Instruction &i = *e_.add_code();
    i.set_op(name);
    for (uint32_t o : operands)
      i.add_operands(o);
    i.set_type(type);
    i.set_immediate(immediate);
    setAttributes(*i.mutable_attributes(), attributes);
    return uint32_t(e_.input_views_size() + e_.code_size() - 1);
  }

  const Shape domain_;
  const plan::DType type_;
  plan::Plan &plan_;
  plan::Kernel &kernel_;
  plan::Expression &e_;
  std::vector<uint32_t> ids_; // by its number here: the value's number in the plan
};

} // namespace tessera::rt::test

#endif
