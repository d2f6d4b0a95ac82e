#include "runtime/executor/Collectives.h"
#include "runtime/comm/BoxCopy.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/tensor/ConvertElements.h"

#include <algorithm>
#include <chrono>

namespace tessera::rt {

/// The most bytes between two tensors that are sent as one. A plan aligns to 64 bytes, and to twice that in float64.
static constexpr uintptr_t kMostBetween = 128;

int64_t blockOf(const Layout &layout, size_t d) {
  int64_t block = 1;
  for (auto [dimension, size] : layout.inner)
    if (size_t(dimension) == d)
      block *= size;
  return block;
}

std::vector<int64_t> physicalSizes(const std::vector<int64_t> &shape, const Layout &layout) {
  std::vector<int64_t> sizes = shape;
  for (size_t d = 0; d < sizes.size(); ++d)
    sizes[d] /= blockOf(layout, d);
  for (auto [dimension, size] : layout.inner)
    sizes.push_back(size);
  return sizes;
}

int64_t layoutSignature(const plan::Collective &collective, const LoadedPlan &loaded) {
  uint64_t hash = 14695981039346656037ull; // FNV-1a
  auto add = [&](int64_t value) { hash = (hash ^ uint64_t(value)) * 1099511628211ull; };
  for (uint32_t buffer : {collective.input(), collective.output()}) {
    for (auto [dimension, size] : loaded.layout(buffer).inner) {
      add(dimension);
      add(size);
    }
    add(-1);
  }
  return int64_t(hash);
}

Box CollectiveCall::slab(const Tensor &t, size_t d, int64_t start, int64_t length) {
  Box box;
  box.count = physicalSizes(t.shape, t.layout);
  box.stride.assign(box.count.size(), 1);
  for (size_t i = box.count.size(); i-- > 1;)
    box.stride[i - 1] = box.stride[i] * box.count[i];
  if (d < t.shape.size()) {
    int64_t block = blockOf(t.layout, d);
    box.offset = start / block * box.stride[d];
    box.count[d] = length / block;
  }
  if (box.count.empty()) { // a scalar
    box.count = {1};
    box.stride = {1};
  }
  return box;
}

Box CollectiveCall::boxOf(const Tensor &t, const plan::PeerBox &from) {
  Box box = whole(t);
  for (int d = 0; d < from.shape_size(); ++d) {
    box.offset += from.offset(d) * box.stride[size_t(d)];
    box.count[size_t(d)] = from.shape(d);
  }
  return box;
}

Box CollectiveCall::whole(const Tensor &t) { return slab(t, t.shape.size(), 0, 0); }

/// The layouts' blocks divide the sizes of the buffers. So of all the slabs that collectives use,
/// only those of a halo's borders can begin or end inside a block.
bool CollectiveCall::direct() const {
  if (!(in_.layout == out_.layout))
    return false;
  if (collective_.kind() == plan::EXCHANGE)
    return in_.layout.plain();
  if (collective_.kind() != plan::HALO)
    return true;
  int64_t block = blockOf(in_.layout, collective_.dim());
  return collective_.halo_lo() % block == 0 && collective_.halo_hi() % block == 0;
}

CollectiveCall::CollectiveCall(const plan::Plan &plan, const plan::Collective &collective, LoadedPlan &loaded,
                               Communicator &group, bool copies)
    : collective_(collective), loaded_(loaded), group_(group) {
  auto tensor = [&](uint32_t buffer) {
    return Tensor{buffer, toVector(plan.buffers(int(buffer)).shape()), loaded.layout(buffer)};
  };
  in_ = tensor(collective.input());
  out_ = tensor(collective.output());
  type_ = loaded.dtype(collective.input());
  elementBytes_ = bytesPerElement(type_);
  count_ = size_t(elementsOf(in_.shape).value_or(0));
  if (copies || !direct()) {
    staged_ = true;
    in_.layout = out_.layout = Layout();
    stagedIn_.resize(count_ * elementBytes_);
    stagedOut_.resize(size_t(elementsOf(out_.shape).value_or(0)) * elementBytes_);
  }
  prepare();
}

void CollectiveCall::prepare() {
  int n = group_.size(), me = group_.rank();
  size_t dim = collective_.dim();
  switch (collective_.kind()) {
  case plan::ALL_GATHER:
  case plan::REDUCE_SCATTER: {
    // Seen in the smaller tensor, the dimensions before `dim` are outer, and `dim` and all that
    // follow are inner.
    const Tensor &small = collective_.kind() == plan::ALL_GATHER ? in_ : out_;
    std::vector<int64_t> sizes = physicalSizes(small.shape, small.layout);
    for (size_t i = 0; i < sizes.size(); ++i)
      (i < dim ? outer_ : inner_) *= size_t(sizes[i]);
    return;
  }
  case plan::ALL_TO_ALL: {
    size_t split = collective_.split_dim();
    int64_t out = in_.shape[split] / n, in = out_.shape[dim] / n;
    for (int peer = 0; peer < n; ++peer) {
      sends_.push_back({peer, slab(in_, split, peer * out, out)});
      receives_.push_back({peer, slab(out_, dim, peer * in, in)});
    }
    return;
  }
  case plan::PERMUTE:
    for (int peer = 0; peer < n; ++peer)
      if (int(collective_.sources(peer)) == me)
        sends_.push_back({peer, whole(in_)});
    receives_.push_back({int(collective_.sources(me)), whole(out_)});
    return;
  case plan::HALO: {
    int64_t size = in_.shape[dim], lo = collective_.halo_lo(), hi = collective_.halo_hi();
    sends_.push_back({me, whole(in_)});
    receives_.push_back({me, slab(out_, dim, lo, size)});
    if (lo > 0) { // this rank's last rows stand before the next member's first row
      if (me + 1 < n)
        sends_.push_back({me + 1, slab(in_, dim, size - lo, lo)});
      if (me > 0)
        receives_.push_back({me - 1, slab(out_, dim, 0, lo)});
      else
        fills_.push_back(slab(out_, dim, 0, lo));
    }
    if (hi > 0) {
      if (me > 0)
        sends_.push_back({me - 1, slab(in_, dim, 0, hi)});
      if (me + 1 < n)
        receives_.push_back({me + 1, slab(out_, dim, lo + size, hi)});
      else
        fills_.push_back(slab(out_, dim, lo + size, hi));
    }
    return;
  }
  case plan::EXCHANGE:
    for (const plan::PeerBox &box : collective_.sends())
      sends_.push_back({int(box.peer()), boxOf(in_, box)});
    for (const plan::PeerBox &box : collective_.receives())
      receives_.push_back({int(box.peer()), boxOf(out_, box)});
    return;
  default:
    return;
  }
}

bool CollectiveCall::join(const std::vector<CollectiveCall *> &others) {
  if (collective_.kind() == plan::ALL_REDUCE)
    return joinTensor(others);
  for (const CollectiveCall *other : others)
    if (staged_ || other->staged_ || other->type_ != type_)
      return false;
  along_ = others;
  for (CollectiveCall *other : others)
    other->joined_ = true;
  return true;
}

/// All-reduces become one of all their elements and of what lies between them.
bool CollectiveCall::joinTensor(const std::vector<CollectiveCall *> &others) {
  auto address = [](CollectiveCall &call, const Tensor &tensor) {
    return uintptr_t(call.loaded_.address(tensor.buffer));
  };
  const uintptr_t in = address(*this, in_), out = address(*this, out_);
  uintptr_t end = in + count_ * elementBytes_;
  for (CollectiveCall *other : others) {
    const uintptr_t at = address(*other, other->in_);
    if (staged_ || other->staged_ || other->type_ != type_ || at < end || at - end >= kMostBetween ||
        address(*other, other->out_) - out != at - in)
      return false;
    end = at + other->count_ * elementBytes_;
  }
  for (CollectiveCall *other : others)
    other->joined_ = true;
  count_ = (end - in) / elementBytes_;
  return true;
}

size_t CollectiveCall::scratchBytes() const {
  size_t bytes = 0; // room for every message, packed and aligned
  if (outer_ > 1)   // the larger tensor once more, in another order of its elements
    bytes = (std::max(count_, size_t(elementsOf(out_.shape).value_or(0))) * elementBytes_ + 255) / 256 * 256;
  if (const int n = group_.size(); collective_.tree() && !anyOrder(n, type_, collective_.reduction()))
    bytes += (count_ + size_t(n)) * elementBytes_ + 256; // a part of what each member has
  for (const CollectiveCall *other : along_)
    bytes += other->scratchBytes();
  for (const std::vector<Transfer> *list : {&sends_, &receives_})
    for (const Transfer &t : *list)
      bytes += (size_t(boxElements(t.box)) * elementBytes_ + 255) / 256 * 256;
  return bytes;
}

Status CollectiveCall::run(uint32_t index) {
  if (joined_)
    return Status();
  const void *in = staged_ ? stagedIn_.data() : loaded_.addressAt(in_.buffer, index);
  void *out = staged_ ? stagedOut_.data() : loaded_.addressAt(out_.buffer, index);
  if (!group_.enqueues())
    TESSERA_RETURN_IF_ERROR(loaded_.synchronize());
  if (staged_)
    TESSERA_RETURN_IF_ERROR(loaded_.downloadAt(in_.buffer, index, stagedIn_.data()));
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  TESSERA_RETURN_IF_ERROR(communicate(in, out, index));
  seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  return staged_ ? loaded_.uploadAt(out_.buffer, index, stagedOut_.data()) : Status();
}

Status CollectiveCall::communicate(const void *in, void *out, uint32_t index) {
  const Reducer reducer(collective_.reduction(), collective_.tree());
  if (collective_.kind() == plan::ALL_GATHER || collective_.kind() == plan::REDUCE_SCATTER) {
    rows_.assign(1, {in, out, outer_, inner_});
    for (const CollectiveCall *other : along_)
      rows_.push_back({loaded_.addressAt(other->in_.buffer, index), loaded_.addressAt(other->out_.buffer, index),
                       other->outer_, other->inner_});
    return collective_.kind() == plan::ALL_GATHER ? group_.allGather(rows_, type_)
                                                  : group_.reduceScatter(rows_, type_, reducer);
  }
  switch (collective_.kind()) {
  case plan::ALL_REDUCE:
    TESSERA_RETURN_IF_ERROR(group_.allReduce(in, out, count_, type_, reducer));
    break;
  case plan::BROADCAST:
    TESSERA_RETURN_IF_ERROR(group_.broadcast(in, out, count_, type_, int(collective_.root())));
    break;
  case plan::ALL_TO_ALL:
  case plan::PERMUTE:
  case plan::HALO:
  case plan::EXCHANGE:
    TESSERA_RETURN_IF_ERROR(group_.exchange(in, sends_, out, receives_, type_));
    if (!fills_.empty())
      TESSERA_RETURN_IF_ERROR(group_.fill(out, fills_, type_, collective_.fill()));
    break;
  default:
    return Status::error("the plan has a collective of no valid kind");
  }
  return Status();
}

} // namespace tessera::rt
