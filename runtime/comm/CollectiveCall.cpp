#include "runtime/comm/CollectiveCall.h"

#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/Reduce.h"

#include <algorithm>

namespace tessera::rt {

const char *callName(CallKind kind) {
  switch (kind) {
  case CallKind::AllReduce:
    return "allReduce";
  case CallKind::AllGather:
    return "allGather";
  case CallKind::ReduceScatter:
    return "reduceScatter";
  case CallKind::Broadcast:
    return "broadcast";
  case CallKind::Exchange:
    return "exchange";
  case CallKind::Barrier:
    return "barrier";
  }
  return "unknown collective";
}

static std::string dtypeName(int32_t dtype) {
  const std::string &name = plan::DType_Name(static_cast<plan::DType>(dtype));
  return name.empty() ? "dtype " + std::to_string(dtype) : name;
}

static std::string reductionName(int32_t reduction) {
  const std::string &name = plan::Reduction_Name(static_cast<plan::Reduction>(reduction));
  return name.empty() ? "reduction " + std::to_string(reduction) : name;
}

/// " (SUM)", " (SUM as a tree)" or " (SUM by runs of 2)"
static std::string orderText(const Call &call) {
  return " (" + reductionName(call.reduction) + (call.tree ? " as a tree" : "") +
         (call.run > 1 ? " by runs of " + std::to_string(call.run) : "") + ")";
}

Call callOf(CallKind kind, std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) {
  Call call{kind, dtype, reducer.reduction, 0, 1, 0, 0, reducer.tree};
  if (tensors.size() == 1) {
    call.outer = tensors[0].outer;
    call.inner = tensors[0].inner;
    return call;
  }
  call.tensors = uint32_t(tensors.size());
  call.shapes = 14695981039346656037ull; // FNV-1a
  for (const Rows &rows : tensors) {
    uint64_t elements = 0;
    if (__builtin_mul_overflow(rows.outer, rows.inner, &elements) ||
        __builtin_add_overflow(call.inner, elements, &call.inner)) {
      call.inner = UINT64_MAX; // checkCall refuses it
      break;
    }
    for (const uint64_t size : {uint64_t(rows.outer), uint64_t(rows.inner)})
      call.shapes = (call.shapes ^ size) * 1099511628211ull;
  }
  return call;
}

std::string describeCall(const Call &call) {
  std::string text = callName(call.kind);
  std::string rows = " of " + std::to_string(call.outer) + " x " + std::to_string(call.inner) + " ";
  if (call.tensors != 1)
    rows = " of " + std::to_string(call.tensors) + " tensors with " + std::to_string(call.inner) + " ";
  switch (call.kind) {
  case CallKind::AllReduce:
    return text + " of " + std::to_string(call.inner) + " " + dtypeName(call.dtype) + orderText(call);
  case CallKind::AllGather:
    return text + rows + dtypeName(call.dtype);
  case CallKind::ReduceScatter:
    return text + rows + dtypeName(call.dtype) + orderText(call);
  case CallKind::Broadcast:
    return text + " of " + std::to_string(call.inner) + " " + dtypeName(call.dtype) + " from member " +
           std::to_string(call.root);
  case CallKind::Exchange:
    return text + " of " + dtypeName(call.dtype);
  case CallKind::Barrier:
    break;
  }
  return text;
}

Status checkCall(Call &call, int members) {
  Status status;
  const size_t size = bytesPerElement(static_cast<plan::DType>(call.dtype));
  uint64_t total = 0;
  const bool reduces = call.kind == CallKind::AllReduce || call.kind == CallKind::ReduceScatter;
  if (call.kind == CallKind::Barrier) {
    return status;
  } else if (size == 0) {
    status = Status::error(std::string(callName(call.kind)) + " cannot move " + dtypeName(call.dtype) + " elements");
  } else if (__builtin_mul_overflow(call.outer, call.inner, &total) ||
             __builtin_mul_overflow(total, uint64_t(members) * size, &total) || total > INT64_MAX) {
    status = Status::error(describeCall(call) + " is too large");
  } else if (reduces && call.reduction != plan::SUM && call.reduction != plan::MAX && call.reduction != plan::MIN) {
    status = Status::error(std::string(callName(call.kind)) + " needs the reduction SUM, MAX or " + "MIN, not " +
                           reductionName(call.reduction));
  } else if (call.root < 0 || call.root >= members) {
    status = Status::error(std::string(callName(call.kind)) + " has root " + std::to_string(call.root) +
                           " in a group of " + std::to_string(members));
  }
  call.invalid = !status.ok();
  return status;
}

Status checkTransfers(Call &call, int members, const std::vector<Transfer> &sends,
                      const std::vector<Transfer> &receives) {
  Status status = checkCall(call, members);
  for (const std::vector<Transfer> *list : {&sends, &receives})
    for (const Transfer &transfer : *list) {
      if (!status)
        break;
      if (transfer.peer < 0 || transfer.peer >= members)
        status = Status::error("exchange names member " + std::to_string(transfer.peer) + " of a group of " +
                               std::to_string(members));
      else
        status = checkBox(transfer.box).context("exchange with member " + std::to_string(transfer.peer));
    }
  call.invalid = !status.ok();
  return status;
}

Status checkAgreement(std::span<const Call *const> calls, std::span<const int> ranks) {
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i]->invalid)
      return Status::error("rank " + std::to_string(ranks[i]) + " calls " + callName(calls[i]->kind) +
                           " with invalid arguments");
  for (size_t i = 1; i < calls.size(); ++i)
    if (*calls[i] != *calls[0]) {
      const std::string first = describeCall(*calls[0]), other = describeCall(*calls[i]);
      return Status::error("collective mismatch: rank " + std::to_string(ranks[0]) + " calls " + first + ", rank " +
                           std::to_string(ranks[i]) + " calls " + other + (first == other ? " of other shapes" : ""));
    }
  return Status();
}

} // namespace tessera::rt
