#include "runtime/backend/cuda/bind/Copies.h"

#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/LoopTable.h"

#include <algorithm>
#include <numeric>

namespace tessera::rt::cuda {

template <typename F> static void forEachPlace(Action &action, F &&f) {
  if (auto *launch = std::get_if<Launch>(&action)) {
    for (Place &place : launch->arguments)
      f(place);
  } else if (auto *copy = std::get_if<CopyBytes>(&action)) {
    f(copy->to);
    f(copy->from);
  } else if (auto *fill = std::get_if<FillBytes>(&action)) {
    f(fill->to);
  } else if (auto *matmul = std::get_if<LibraryMatMul>(&action)) {
    for (Place *place : {&matmul->a, &matmul->b, &matmul->y, &matmul->bias, &matmul->aux})
      f(*place);
  } else if (auto *conv = std::get_if<LibraryConv>(&action)) {
    for (Place *place : {&conv->a, &conv->b, &conv->y})
      f(*place);
  } else if (auto *attention = std::get_if<LibraryAttention>(&action)) {
    for (Place &place : attention->tensors)
      f(place);
  }
}

Shape memoryStrides(const TensorView &tensor) {
  return tensor.layout.inner.empty() ? rowStrides(tensor.shape, tensor.layout.pitch)
                                     : channelsLastStrides(tensor.shape);
}

StridedCopy copyBetween(const TensorView &from, const TensorView &to) {
  StridedCopy copy;
  copy.elementBytes = bytesPerElement(to.dtype);
  const Shape toStrides = memoryStrides(to), fromStrides = memoryStrides(from);
  std::vector<size_t> order(to.shape.size());
  std::iota(order.begin(), order.end(), size_t(0));
  if (!to.layout.inner.empty())
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  for (size_t d : order) {
    copy.sizes.push_back(std::min(from.shape[d], to.shape[d]));
    copy.toStrides.push_back(toStrides[d]);
    copy.fromStrides.push_back(fromStrides[d]);
  }
  return copy;
}

/// Copies `from` to `to`, which differ in type or in layout. Of different sizes, what one has more is zero or left out.
static void addCopy(CudaKernel &kernel, const TensorView &from, const TensorView &to) {
  KernelCall call;
  call.inputs = {from};
  call.outputs = {to};
  if (from.elements() == 0)
    return;
  const uint64_t copied = (at(from.data).scratch ? from : to).bytes();
  if (from.dtype != to.dtype) {
    const Shape flat = {from.elements()};
    ExpressionCode code;
    code.domain = flat;
    code.inputs.push_back({from.dtype, flat});
    code.results.push_back({0, plan::NONE, to.dtype, flat});
    for (Action &action : bindExpression(code, call).actions) {
      if (auto *launch = std::get_if<Launch>(&action))
        launch->copied = copied;
      kernel.actions.push_back(std::move(action));
    }
    return;
  }
  if (to.elements() > from.elements())
    kernel.actions.emplace_back(FillBytes{at(to.data), to.bytes()});
  const StridedCopy copy = copyBetween(from, to);
  Launch launch = launchLoop(stridedCopy(copy), elementCount(copy.sizes), {at(from.data), at(to.data)});
  launch.copied = copied;
  kernel.actions.push_back(std::move(launch));
}

std::vector<CudaKernel> bindOnCopies(const KernelCall &call, uint64_t base, const std::string &what,
                                     const std::function<bool(TensorView &, size_t)> &change, const Bind &bind) {
  KernelCall other = call;
  uint64_t copies = 0;
  std::vector<size_t> inputs, outputs; // that are copied
  for (bool output : {false, true}) {
    std::vector<TensorView> &views = output ? other.outputs : other.inputs;
    for (size_t i = 0; i < views.size(); ++i)
      if (change(views[i], i + (output ? call.inputs.size() : 0))) {
        views[i].data = reinterpret_cast<void *>(kScratchBase + base + copies);
        copies += (views[i].bytes() + 255) / 256 * 256;
        (output ? outputs : inputs).push_back(i);
      }
  }
  std::vector<CudaKernel> choices = bind(other);
  for (CudaKernel &choice : choices) {
    CudaKernel all;
    all.description = choice.description + (inputs.empty() && outputs.empty() ? "" : what);
    all.scratch = copies + choice.scratch;
    for (size_t i : inputs)
      addCopy(all, call.inputs[i], other.inputs[i]);
    const size_t first = all.actions.size();
    for (Action &action : choice.actions)
      all.actions.push_back(std::move(action));
    for (size_t a = first; a < all.actions.size(); ++a)
      forEachPlace(all.actions[a], [&](Place &place) {
        if (place.scratch && place.value < base)
          place.value += copies;
      });
    for (size_t i : outputs)
      addCopy(all, other.outputs[i], call.outputs[i]);
    for (Action &action : all.actions)
      forEachPlace(action, [&](Place &place) {
        if (place.scratch && place.value >= base && place.value < 2 * base)
          place.value -= base;
      });
    choice = std::move(all);
  }
  return choices;
}

} // namespace tessera::rt::cuda
