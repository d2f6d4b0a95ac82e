// checkStep: the operands of kernels and collectives.
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/CheckExchange.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/stages/Stages.h"
#include "runtime/support/Scalar.h"

#include <algorithm>
#include <set>

namespace tessera::rt {

int elementwiseOperands(const std::string &name) {
  const ElementwiseFunction *function = elementwiseFunction(name);
  return function ? function->operands : name == "cast" ? 1 : -1;
}

namespace {

Status checkOperand(const plan::Plan &plan, const std::vector<BufferRange> &ranges, uint32_t buffer, bool written) {
  if (buffer >= ranges.size())
    return Status::error(std::string(written ? "writes" : "reads") + " buffer " + std::to_string(buffer) +
                         ", which does not exist");
  if (written && !plan.buffers(int(ranges[buffer].root)).constant().empty())
    return Status::error("writes " + bufferText(plan, buffer) + ", which is a constant");
  if (written && !ranges[buffer].same(ranges[ranges[buffer].root]))
    return Status::error("writes " + bufferText(plan, buffer) + ", which is a part of " +
                         bufferText(plan, ranges[buffer].root));
  return Status();
}

Status checkAttributes(const plan::Kernel &kernel) {
  for (int i = 0; i < kernel.attributes_size(); ++i) {
    const plan::Attribute &attribute = kernel.attributes(i);
    if (attribute.value_case() == plan::Attribute::VALUE_NOT_SET)
      return Status::error("attribute " + quoted(attribute.name()) + " has no value");
    if (i > 0 && kernel.attributes(i - 1).name() >= attribute.name())
      return Status::error("attribute " + quoted(attribute.name()) + " is out of order or given twice");
  }
  return Status();
}

/// Whether output `o` of the kernel may lie where input `i` lies. The kernel must be elementwise in
/// both, so that no element is read after it was overwritten.
bool mayShare(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Kernel &kernel, int i,
              int o) {
  uint32_t in = kernel.inputs(i), out = kernel.outputs(o);
  if (!ranges[in].same(ranges[out]) || plan.buffers(int(in)).dtype() != plan.buffers(int(out)).dtype())
    return false;
  if (kernel.name() != "fused")
    return elementwiseOperands(kernel.name()) > 0 && ranges[in].shape == ranges[out].shape;
  std::vector<int64_t> domain = toVector(kernel.expression().domain());
  return toVector(kernel.expression().input_views(i).shape()) == domain &&
         kernel.expression().results(o).reduction() == plan::NONE;
}

Status checkKernel(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Kernel &kernel) {
  if (kernel.name().empty())
    return Status::error("has a kernel without a name");
  for (uint32_t in : kernel.inputs())
    TESSERA_RETURN_IF_ERROR(checkOperand(plan, ranges, in, false));
  for (uint32_t out : kernel.outputs())
    TESSERA_RETURN_IF_ERROR(checkOperand(plan, ranges, out, true));
  if (kernel.outputs_size() == 0)
    return Status::error("has a kernel " + quoted(kernel.name()) + " without a result");
  TESSERA_RETURN_IF_ERROR(checkAttributes(kernel));
  if ((kernel.name() == "fused") != kernel.has_expression())
    return Status::error(
        "kernel " + quoted(kernel.name()) +
        (kernel.has_expression() ? " has an expression, which only 'fused' may" : " has no expression"));
  if (kernel.has_expression())
    TESSERA_RETURN_IF_ERROR(checkExpression(plan, ranges, kernel));
  for (int o = 0; o < kernel.outputs_size(); ++o) {
    uint32_t out = kernel.outputs(o);
    for (int i = 0; i < kernel.inputs_size(); ++i)
      if (ranges[out].overlaps(ranges[kernel.inputs(i)]) && !mayShare(plan, ranges, kernel, i, o))
        return Status::error("writes " + bufferText(plan, out) + " over its input " +
                             bufferText(plan, kernel.inputs(i)) + ", which kernel " + quoted(kernel.name()) +
                             " cannot do in place");
    for (int p = 0; p < o; ++p)
      if (ranges[out].overlaps(ranges[kernel.outputs(p)]))
        return Status::error("its results " + bufferText(plan, kernel.outputs(p)) + " and " + bufferText(plan, out) +
                             " overlap");
  }
  return Status();
}

bool isPermutation(const plan::Collective &c, size_t n) {
  std::vector<uint32_t> sorted(c.sources().begin(), c.sources().end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != i)
      return false;
  return sorted.size() == n;
}

/// The output's shape, or an error that says what is wrong with the attributes.
Status expectedShape(const plan::Collective &c, int64_t n, std::vector<int64_t> &shape) {
  auto usesDim = [](plan::CollectiveKind kind) {
    return kind == plan::ALL_GATHER || kind == plan::REDUCE_SCATTER || kind == plan::ALL_TO_ALL || kind == plan::HALO;
  };
  if (usesDim(c.kind()) && (c.dim() >= shape.size() || (c.kind() == plan::ALL_TO_ALL && c.split_dim() >= shape.size())))
    return Status::error("works along a dimension that its input of shape " + shapeText(shape) + " does not have");
  auto notDivided = [&](uint32_t d) {
    return Status::error("cuts dimension " + std::to_string(d) + " of " + shapeText(shape) + " in " +
                         std::to_string(n) + ", which does not divide it");
  };
  switch (c.kind()) {
  case plan::ALL_REDUCE:
    return Status();
  case plan::ALL_GATHER:
    shape[c.dim()] *= n;
    return Status();
  case plan::REDUCE_SCATTER:
    if (shape[c.dim()] % n != 0)
      return notDivided(c.dim());
    shape[c.dim()] /= n;
    return Status();
  case plan::ALL_TO_ALL:
    if (shape[c.split_dim()] % n != 0)
      return notDivided(c.split_dim());
    shape[c.split_dim()] /= n;
    shape[c.dim()] *= n;
    return Status();
  case plan::PERMUTE:
    if (!isPermutation(c, size_t(n)))
      return Status::error("its sources are no permutation of 0 to " + std::to_string(n - 1));
    return Status();
  case plan::HALO:
    if (c.halo_lo() < 0 || c.halo_hi() < 0 || c.halo_lo() > shape[c.dim()] || c.halo_hi() > shape[c.dim()])
      return Status::error("its halos of " + std::to_string(c.halo_lo()) + " and " + std::to_string(c.halo_hi()) +
                           " are negative or wider than the " + std::to_string(shape[c.dim()]) + " of a neighbour");
    shape[c.dim()] += c.halo_lo() + c.halo_hi();
    return Status();
  case plan::BROADCAST:
    if (c.root() >= uint64_t(n))
      return Status::error("its root " + std::to_string(c.root()) + " is not in the group of " + std::to_string(n));
    return Status();
  default:
    return Status::error("is a collective of no valid kind");
  }
}

Status checkCollective(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Collective &c) {
  TESSERA_RETURN_IF_ERROR(checkOperand(plan, ranges, c.input(), false));
  TESSERA_RETURN_IF_ERROR(checkOperand(plan, ranges, c.output(), true));
  if (c.group() >= uint32_t(plan.groups_size()))
    return Status::error("is over group " + std::to_string(c.group()) + ", which does not exist");
  const BufferRange &in = ranges[c.input()], &out = ranges[c.output()];
  std::vector<int64_t> shape = in.shape;
  std::string what = collectiveName(c.kind());
  TESSERA_RETURN_IF_ERROR(checkExchange(plan, c, in.shape, out.shape).context(what));
  if (c.kind() == plan::EXCHANGE)
    shape = out.shape; // any: the boxes say what it holds
  else
    TESSERA_RETURN_IF_ERROR(expectedShape(c, plan.groups(int(c.group())).ranks_size(), shape).context(what));
  if (shape != out.shape)
    return Status::error(what + ": " + bufferText(plan, c.output()) + " has the shape " + shapeText(out.shape) +
                         " where " + shapeText(shape) + " follows from the input");
  if (plan.buffers(int(c.input())).dtype() != plan.buffers(int(c.output())).dtype())
    return Status::error(what + ": " + bufferText(plan, c.input()) + " and " + bufferText(plan, c.output()) +
                         " have different types");
  bool reduces = c.kind() == plan::ALL_REDUCE || c.kind() == plan::REDUCE_SCATTER;
  if (reduces != (c.reduction() == plan::SUM || c.reduction() == plan::MAX || c.reduction() == plan::MIN))
    return Status::error(what + (reduces ? " has no reduction" : " has a reduction"));
  if (c.tree() && !reduces)
    return Status::error(what + " adds nothing, so not as a tree either");
  // Only an all-reduce may work in place: the other kinds still read the input after they wrote
  // parts of the output.
  bool inPlace = c.kind() == plan::ALL_REDUCE && in.same(out);
  if (in.overlaps(out) && !inPlace)
    return Status::error(what + ": " + bufferText(plan, c.output()) + " overlaps the input " +
                         bufferText(plan, c.input()));
  return Status();
}

/// The other end of a send or a receive.
Status checkPeer(const plan::Plan &plan, const Stages &stages, uint32_t peer, uint32_t channel,
                 const std::string &verb) {
  if (peer >= stages.ranks())
    return Status::error(verb + "rank " + std::to_string(peer) + ", which the mesh of " +
                         std::to_string(stages.ranks()) + " ranks does not have");
  if (stages.of(peer) == stages.of(plan.rank()))
    return Status::error(verb + "rank " + std::to_string(peer) + ", which is in the same stage");
  if (channel >= kMaxChannels)
    return Status::error(verb + "rank " + std::to_string(peer) + " on channel " + std::to_string(channel) +
                         "; there are " + std::to_string(kMaxChannels));
  return Status();
}

/// The messages of a send or a receive of `shape`.
Status checkPeers(const plan::Plan &plan, const plan::Step &step, const std::vector<int64_t> &shape) {
  const std::string verb = step.has_send() ? "sends to " : "receives from ";
  const uint32_t channel = step.has_send() ? step.send().channel() : step.receive().channel();
  if (!hasOwnMeshes(plan) && step.send().boxes_size() + step.receive().boxes_size() > 0)
    return Status::error("has boxes, but stages have one mesh");
  if (hasOwnMeshes(plan) && (step.send().peer() != 0 || step.receive().peer() != 0))
    return Status::error("names a peer, but stages with meshes of their own send boxes");
  const Stages stages = stagesOf(plan);
  std::set<uint32_t> peers;
  std::vector<Block> boxes;
  for (PeerMessage &message : peerMessages(plan, step)) {
    TESSERA_RETURN_IF_ERROR(checkPeer(plan, stages, message.peer, channel, verb));
    const std::string what = verb + "rank " + std::to_string(message.peer);
    if (!peers.insert(message.peer).second)
      return Status::error(what + " twice");
    if (!isInside(message.box, shape))
      return Status::error(what + " a box at " + shapeText(message.box.offset) + " of shape " +
                           shapeText(message.box.shape) + ", which is not inside " +
                           bufferText(plan, peerBuffer(step)) + " of shape " + shapeText(shape));
    boxes.push_back(std::move(message.box));
  }
  if (!step.has_receive())
    return Status();
  return checkTiling(boxes, shape).context("what is received does not cover " + bufferText(plan, peerBuffer(step)));
}

} // namespace

Status checkStep(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Step &step) {
  if (step.has_kernel())
    return checkKernel(plan, ranges, step.kernel());
  if (step.has_collective())
    return checkCollective(plan, ranges, step.collective());
  if (step.has_send()) {
    TESSERA_RETURN_IF_ERROR(checkOperand(plan, ranges, step.send().input(), false));
    return checkPeers(plan, step, ranges[step.send().input()].shape);
  }
  if (step.has_receive()) {
    TESSERA_RETURN_IF_ERROR(checkOperand(plan, ranges, step.receive().output(), true));
    return checkPeers(plan, step, ranges[step.receive().output()].shape);
  }
  return Status::error("does nothing");
}

} // namespace tessera::rt
