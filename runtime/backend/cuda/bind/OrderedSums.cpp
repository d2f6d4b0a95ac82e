#include "runtime/backend/cuda/bind/OrderedSums.h"

#include "runtime/backend/cuda/bind/PointCode.h"

namespace tessera::rt::cuda {
namespace {

constexpr int64_t kThreads = 256;

class OrderedSums {
public:
  OrderedSums(const ExpressionCode &e, const KernelCall &call, const std::vector<size_t> &rs,
              const std::vector<Place> &outputs)
      : e_(e), code_(e, rs), rs_(rs), type_(code_.type()), index_(type_.name()) {
    // Kept dimensions first in the numbering of results, reduced ones in that of terms.
    const Shape &strides = code_.resultStrides(), &sizes = code_.nest().sizes;
    for (size_t d = 0; d < sizes.size(); ++d)
      (strides[d] != 0 ? kept_ : reduced_).push_back(sizes[d]);
    results_ = elementCount(e.results[rs[0]].view);
    terms_ = elementCount(reduced_);
    blocks_ = (terms_ + kTermsOfBlock - 1) / kTermsOfBlock;
    while (ty_ < kThreads && ty_ < blocks_)
      ty_ *= 2;
    parameters_ = code_.parameters(call, launch_.arguments);
    for (size_t n = 0; n < rs.size(); ++n) {
      parameters_.push_back({memoryType(code_.result(n).type), "out" + std::to_string(n)});
      launch_.arguments.push_back(outputs[rs[n]]);
    }
  }

  Launch launch() {
    std::string list, declared, totals, shares, additions, stores;
    for (const PointLoop::Parameter &p : parameters_)
      list += (list.empty() ? "" : ", ") + p.type + " *" + p.name;
    for (size_t n = 0; n < rs_.size(); ++n) {
      const std::string number = std::to_string(n), total = "total" + number, share = "share" + number;
      totals += sum(n) + " " + total + " = " + none(n) + ";\n";
      declared += "__shared__ " + sum(n) + " " + share + "[" + literal(kThreads) + "];\n";
      shares += share + "[t] = (" + sum(n) + ")" + block(n) + ";\n";
      additions +=
          total + " = " + added(n, total, ty_ == 1 ? "(" + sum(n) + ")" + block(n) : share + "[t + u]") + ";\n";
      stores += "out" + number + "[result] = " + finished(code_.result(n).type, total) + ";\n";
    }
    const int64_t tx = kThreads / ty_;
    const std::string tile = "blockIdx.x * (" + index_ + ")" + literal(tx) + " + t / " + literal(ty_);
    std::string text = prelude() + "extern \"C\" __global__ void k(" + list +
                       ") {\nconst u32 t = threadIdx.x;\nconst " + index_ + " result = " + tile +
                       ";\nconst bool is = result < " + type_.literal(results_) + ";\n" +
                       indexCode(kept_, "result", type_, "k") + totals;
    if (ty_ == 1)
      text += "if (!is)\nreturn;\nfor (" + index_ + " first = 0; first < " + type_.literal(terms_) +
              "; first += " + literal(kTermsOfBlock) + ") {\n" + sumOfBlock() + additions + "}\n" + stores;
    else
      text += declared + "for (" + index_ + " round = 0; round < " + type_.literal(blocks_) +
              "; round += " + literal(ty_) + ") {\nconst " + index_ + " first = (round + t % " + literal(ty_) + ") * " +
              literal(kTermsOfBlock) + ";\nif (is && first < " + type_.literal(terms_) + ") {\n" + sumOfBlock() +
              shares + "}\n__syncthreads();\nif (is && t % " + literal(ty_) + " == 0)\nfor (u32 u = 0; u < " +
              literal(ty_) + " && round + u < " + type_.literal(blocks_) + "; ++u) {\n" + additions +
              "}\n__syncthreads();\n}\nif (is && t % " + literal(ty_) + " == 0) {\n" + stores + "}\n";
    launch_.source = text + "}\n";
    launch_.grid = {uint32_t((results_ + tx - 1) / tx), 1, 1};
    return std::move(launch_);
  }

private:
  static std::string literal(int64_t v) { return std::to_string(v) + "u"; }
  plan::Reduction reduction(size_t n) const { return code_.result(n).reduction; }
  std::string sum(size_t n) const { return sumType(valueClass(code_.result(n).type)); }
  std::string none(size_t n) const { return neutral(reduction(n), code_.result(n).type); }
  std::string added(size_t n, const std::string &a, const std::string &b) const { return combined(reduction(n), a, b); }
  /// The type of the terms.
  std::string term(size_t n) const { return valueType(valueClass(e_.typeOf(code_.result(n).value))); }

  /// The sum of a block whose partial sums are there.
  std::string block(size_t n) const {
    const std::string p = "p" + std::to_string(n);
    return added(n, added(n, p + "[0]", p + "[1]"), added(n, p + "[2]", p + "[3]"));
  }

  /// Makes the partial sums of the block that begins with the term `first`.
  std::string sumOfBlock() const {
    std::string start, sums, at = indexCode(reduced_, "term", type_, "r");
    size_t kept = 0, reduced = 0, number = 0;
    for (const int64_t stride : code_.resultStrides())
      at += "const " + index_ + " x" + std::to_string(number++) + " = " +
            (stride != 0 ? "k" + std::to_string(kept++) : "r" + std::to_string(reduced++)) + ";\n";
    for (size_t n = 0; n < rs_.size(); ++n) {
      const std::string p = "p" + std::to_string(n), neutral = "(" + term(n) + ")" + none(n);
      start += term(n) + " " + p + "[" + std::to_string(kPartialSums) + "] = {" + neutral + ", " + neutral + ", " +
               neutral + ", " + neutral + "};\n";
      sums += p + "[u] = " + added(n, p + "[u]", code_.valueOf(n)) + ";\n";
    }
    const std::string end = "first + " + literal(kTermsOfBlock);
    return start + "for (" + index_ + " four = first; four < " + end + " && four < " + type_.literal(terms_) +
           "; four += " + literal(kPartialSums) + ")\n#pragma unroll\nfor (u32 u = 0; u < " + literal(kPartialSums) +
           "; ++u) {\nconst " + index_ + " term = four + u;\nif (term < " + type_.literal(terms_) + ") {\n" + at +
           code_.body([&](size_t input) { return code_.element(input); }) + sums + "}\n}\n";
  }

  const ExpressionCode &e_;
  const PointCode code_;
  const std::vector<size_t> &rs_;
  const IndexType type_;
  const std::string index_;
  Shape kept_, reduced_;
  int64_t results_ = 0, terms_ = 0, blocks_ = 0;
  int64_t ty_ = 1; // threads of a result
  std::vector<PointLoop::Parameter> parameters_;
  Launch launch_;
};

} // namespace

Launch orderedSums(const ExpressionCode &e, const KernelCall &call, const std::vector<size_t> &rs,
                   const std::vector<Place> &outputs) {
  static_assert(kPartialSums == 4); // as the text of a block has it
  return OrderedSums(e, call, rs, outputs).launch();
}

} // namespace tessera::rt::cuda
