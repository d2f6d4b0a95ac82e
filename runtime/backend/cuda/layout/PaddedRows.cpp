#include "runtime/backend/cuda/layout/PaddedRows.h"

#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/KernelWork.h"
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/plan/Frames.h"
#include "runtime/plan/TimeOrder.h"

#include <algorithm>
#include <numeric>

namespace tessera::rt::cuda {
namespace {

constexpr int64_t kRowBytes = 16;
/// The operations of a product that takes longer than a launch.
constexpr double kWorthLaunch = double(1 << 30);
/// Steps that are joined read and write in each other's place. They are at most so far apart (join/JoinedSteps.cpp); so
/// far tensors that share memory are kept, too.
constexpr uint32_t kWindow = 64;
/// Tensors behind the arena take at most this part of it.
constexpr uint64_t kPart = 2;

bool isProduct(const KernelCall &call) { return call.kernel && call.name() == "matmul"; }

/// Where a tensor is used: by which steps of which section of which program.
struct Use {
  int program = -1;
  uint32_t section = 0, first = 0, last = 0;
};

class Search {
public:
  Search(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls, const std::vector<Layout> &layouts)
      : plan_(plan), calls_(calls), root_(wholeBuffers(plan)), good_(root_.size(), true), wanted_(root_.size(), false),
        madeByProduct_(root_.size(), false), followed_(root_.size(), false), uses_(root_.size()) {
    const Frames frames(plan);
    for (uint32_t b = 0; b < root_.size(); ++b) {
      const plan::Buffer &buffer = plan.buffers(int(b)), &whole = plan.buffers(int(root_[b]));
      if (buffer.persistent() || frames.frameOf(buffer.offset()) >= 0 || !layouts[b].plain() ||
          buffer.shape_size() < 2 || whole.shape_size() < 2 || columns(buffer) != columns(whole) ||
          elementCount(shapeOf(buffer)) == 0 || (buffer.offset() - whole.offset()) % rowBytes(buffer) != 0)
        spoil(b);
    }
    for (const plan::Binding &binding : plan.bindings())
      spoil(binding.buffer());
    for (int p = 0; p < plan.programs_size(); ++p)
      visit(p);
  }

  /// The tensors whose rows are held apart: those first that are surely stored.
  std::vector<uint32_t> found() const {
    std::vector<uint32_t> list;
    for (const bool followed : {false, true})
      for (uint32_t b = 0; b < root_.size(); ++b)
        if (root_[b] == b && good_[b] && wanted_[b] && followed_[b] == followed)
          list.push_back(b);
    return list;
  }
  uint32_t root(uint32_t b) const { return root_[b]; }
  const Use &use(uint32_t root) const { return uses_[root]; }

  static Shape shapeOf(const plan::Buffer &buffer) { return {buffer.shape().begin(), buffer.shape().end()}; }
  static uint64_t rowBytes(const plan::Buffer &buffer) {
    return uint64_t(columns(buffer)) * bytesPerElement(buffer.dtype());
  }

private:
  static int64_t columns(const plan::Buffer &buffer) {
    return std::max<int64_t>(buffer.shape(buffer.shape_size() - 1), 1);
  }
  void spoil(uint32_t b) { good_[root_[b]] = false; }

  void visit(int p) {
    const plan::Program &program = plan_.programs(p);
    const TimeOrder order(program);
    for (uint32_t s = 0; s < uint32_t(program.steps_size()); ++s) {
      const plan::Step &step = program.steps(int(s));
      const KernelCall &call = calls_[size_t(p)][s];
      if (!call.kernel) {
        spoilAll(step);
        continue;
      }
      const Use now{p, order.sectionOf(s).begin, s, s};
      for (bool output : {false, true}) {
        const auto &list = output ? call.kernel->outputs() : call.kernel->inputs();
        for (int i = 0; i < list.size(); ++i) {
          const uint32_t r = root_[list[i]];
          Use &use = uses_[r];
          if (use.program < 0)
            use = now;
          else if (use.program != now.program || use.section != now.section)
            good_[r] = false; // it lives longer than a call of a section
          use.last = s;
          if (good_[r] && !takes(call, output, size_t(i)))
            good_[r] = false;
          if (isProduct(call) && gainsFromAlignedRows(call))
            want(r, (output ? call.outputs : call.inputs)[size_t(i)]);
        }
      }
      if (isProduct(call))
        madeByProduct_[root_[call.kernel->outputs(0)]] = true;
      else if (isExpressionKernel(call.name()))
        wantResults(call);
    }
  }

  /// The product itself adds a bias to its result and applies a function (join/Epilogue.h). It stores what the loop
  /// would store then.
  void wantResults(const KernelCall &loop) {
    for (size_t i = 0; i < loop.inputs.size(); ++i) {
      const uint32_t r = root_[loop.kernel->inputs(int(i))];
      if (!wanted_[r] || !madeByProduct_[r])
        continue;
      for (size_t o = 0; o < loop.outputs.size(); ++o)
        if (const TensorView &y = loop.outputs[o], &x = loop.inputs[i];
            y.elements() == x.elements() && !y.shape.empty() && y.shape.back() == x.shape.back()) {
          want(root_[loop.kernel->outputs(int(o))], y);
          followed_[r] = true;
        }
    }
  }

  void want(uint32_t root, const TensorView &view) { wanted_[root] = wanted_[root] || hasUnalignedRows(view); }

  void spoilAll(const plan::Step &step) {
    if (step.has_collective()) {
      spoil(step.collective().input());
      spoil(step.collective().output());
    } else if (step.has_send()) {
      spoil(step.send().input());
    } else if (step.has_receive()) {
      spoil(step.receive().output());
    }
  }

  /// Whether a kernel can step through an operand whose rows are further apart.
  static bool takes(const KernelCall &call, bool output, size_t i) {
    const std::string &name = call.name();
    if (name == "matmul")
      return true;
    if (name == "softmax" || name == "softmax_grad")
      return axisGeometry(call)->inner == 1;
    if (!isExpressionKernel(name))
      return false;
    KernelCall padded = call;
    TensorView &view = (output ? padded.outputs : padded.inputs)[i];
    view.layout.pitch = view.shape.empty() ? 0 : view.shape.back() + 1;
    const Result<ExpressionCode> code = lowerExpression(call);
    return code && withPitches(*code, padded);
  }

  const plan::Plan &plan_;
  const std::vector<std::vector<KernelCall>> &calls_;
  std::vector<uint32_t> root_;
  std::vector<bool> good_, wanted_, madeByProduct_, followed_; // by root
  std::vector<Use> uses_;
};

} // namespace

bool isAlignedPitch(int64_t pitch, int64_t bytes) { return pitch * bytes % kRowBytes == 0; }

bool outlastsLaunch(double operations) { return operations >= kWorthLaunch; }

bool hasUnalignedRows(const TensorView &t) { return !isAlignedPitch(t.pitch(), int64_t(bytesPerElement(t.dtype))); }

int64_t alignedPitch(const TensorView &t) {
  const int64_t multiple = std::max<int64_t>(kRowBytes / int64_t(bytesPerElement(t.dtype)), 1);
  return (t.shape.back() + multiple - 1) / multiple * multiple;
}

bool gainsFromAlignedRows(const KernelCall &product) {
  return bytesPerElement(product.inputs[0].dtype) == 2 && bytesPerElement(product.inputs[1].dtype) == 2 &&
         outlastsLaunch(workOf(product).flops.value_or(0));
}

std::optional<ExpressionCode> withPitches(const ExpressionCode &code, const KernelCall &call) {
  // Rows of the view are rows of the tensor.
  auto fits = [](const TensorView &t, const Shape &view) {
    return t.layout.plain() || (t.layout.inner.empty() && !view.empty() && view.back() == t.shape.back());
  };
  ExpressionCode padded = code;
  for (size_t i = 0; i < code.inputs.size(); ++i) {
    if (!fits(call.inputs[i], code.inputs[i].view))
      return std::nullopt;
    padded.inputs[i].pitch = call.inputs[i].layout.pitch;
  }
  for (size_t r = 0; r < code.results.size(); ++r) {
    const TensorView &to = call.outputs[r];
    if (!fits(to, code.results[r].view) || (!to.layout.plain() && code.results[r].reduction != plan::NONE))
      return std::nullopt;
    padded.results[r].pitch = to.layout.pitch;
  }
  return padded;
}

PaddedRows::PaddedRows(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls,
                       std::vector<Layout> layouts)
    : layouts_(std::move(layouts)) {
  const Search search(plan, calls, layouts_);
  struct Placed {
    uint32_t root;
    int64_t pitch;
    uint64_t begin, end;
  };
  std::vector<Placed> placed; // by begin
  for (const uint32_t b : search.found()) {
    TensorView view;
    view.dtype = plan.buffers(int(b)).dtype();
    view.shape = Search::shapeOf(plan.buffers(int(b)));
    view.layout.pitch = alignedPitch(view);
    const uint64_t bytes = (view.bytes() + 255) / 256 * 256;
    uint64_t begin = 0;
    for (const Placed &other : placed) {
      const Use &mine = search.use(b), &theirs = search.use(other.root);
      if (mine.program != theirs.program || mine.last + kWindow < theirs.first || theirs.last + kWindow < mine.first)
        continue;
      if (begin + bytes <= other.begin)
        break;
      begin = std::max(begin, other.end);
    }
    if (begin + bytes > plan.arena_bytes() / kPart)
      continue;
    placed.push_back({b, view.layout.pitch, begin, begin + bytes});
    std::sort(placed.begin(), placed.end(), [](const Placed &x, const Placed &y) { return x.begin < y.begin; });
    bytes_ = std::max(bytes_, begin + bytes);
  }
  for (const Placed &p : placed)
    for (uint32_t b = 0; b < uint32_t(plan.buffers_size()); ++b)
      if (search.root(b) == p.root) {
        const plan::Buffer &buffer = plan.buffers(int(b));
        const uint64_t rows = (buffer.offset() - plan.buffers(int(p.root)).offset()) / Search::rowBytes(buffer);
        layouts_[b].pitch = p.pitch;
        moves_.push_back({b, p.begin + rows * uint64_t(p.pitch) * bytesPerElement(buffer.dtype())});
      }
}

} // namespace tessera::rt::cuda
