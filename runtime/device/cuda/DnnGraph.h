//===- DnnGraph.h - cuDNN's graph API behind small owners -------------------------------------------===//
//
// cuDNN describes work as a graph of operations on tensors, all made of untyped "backend descriptors" with
// attributes. `Descriptor` owns one; errors stick, so that a description is written down and checked once:
//
//   Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
//   conv.ints(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1}).one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
//   if (!conv.finalize()) ... conv.status()
//
// `prepare` turns a graph into an execution plan: the first engine configuration of heuristics mode A, then of the
// fallback list, whose numerical notes are allowed, whose workspace is small enough and that can be finalized. The
// same graph on the same device and cuDNN gives the same engine, and engines whose results differ from run to run
// are never taken: the same plan gives the same bits. That is also why nothing is timed to choose.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DEVICE_CUDA_DNNGRAPH_H
#define TESSERA_RUNTIME_DEVICE_CUDA_DNNGRAPH_H

#include "runtime/device/DeviceApi.h"

#include <cudnn_graph.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tessera::device {

class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor &&other) noexcept { *this = std::move(other); }
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(status_, other.status_);
    return *this;
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor();

  Descriptor &set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void *values);
  Descriptor &ints(cudnnBackendAttributeName_t name, const std::vector<int64_t> &values) {
    return set(name, CUDNN_TYPE_INT64, int64_t(values.size()), values.data());
  }
  Descriptor &one(cudnnBackendAttributeName_t name, int64_t v) { return set(name, CUDNN_TYPE_INT64, 1, &v); }
  Descriptor &one(cudnnBackendAttributeName_t name, cudnnDataType_t v) {
    return set(name, CUDNN_TYPE_DATA_TYPE, 1, &v);
  }
  Descriptor &one(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t v) {
    return set(name, CUDNN_TYPE_CONVOLUTION_MODE, 1, &v);
  }
  Descriptor &one(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t v) {
    return set(name, CUDNN_TYPE_HEUR_MODE, 1, &v);
  }
  Descriptor &one(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t v) {
    return set(name, CUDNN_TYPE_POINTWISE_MODE, 1, &v);
  }
  Descriptor &one(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t v) {
    return set(name, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &v);
  }
  Descriptor &one(cudnnBackendAttributeName_t name, bool v) { return set(name, CUDNN_TYPE_BOOLEAN, 1, &v); }
  Descriptor &one(cudnnBackendAttributeName_t name, cudnnHandle_t v) { return set(name, CUDNN_TYPE_HANDLE, 1, &v); }
  Descriptor &one(cudnnBackendAttributeName_t name, const Descriptor &v) {
    if (status_ == CUDNN_STATUS_SUCCESS)
      status_ = v.status_;
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v.raw_);
  }

  bool finalize();
  cudnnStatus_t status() const { return status_; }
  cudnnBackendDescriptor_t raw() const { return raw_; }

private:
  cudnnBackendDescriptor_t raw_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

/// Fills `m` with the library's error. Returns TESSERA_UNSUPPORTED where cuDNN does not support the operation.
int32_t failDnn(TesseraMessage *m, cudnnStatus_t status, const char *what);

/// cuDNN's type for one of TESSERA_F32 and its siblings.
cudnnDataType_t dnnType(int32_t dtype);

/// A tensor of a graph: its place among the operands (1, 2 and 3: a, b and y), element type, and sizes [outer, inner,
/// spatial...] where inner follows outer or comes last. A virtual one is only what an operation hands on to another.
Descriptor dnnTensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t> &sizes, bool channelsLast,
                     bool isVirtual = false);

/// A tensor whose elements lie `strides` apart. A number is passed by value: a call has its address on the host.
enum class DnnTensorKind { Memory, Virtual, Number };
Descriptor dnnTensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t> &sizes,
                     const std::vector<int64_t> &strides, DnnTensorKind kind);

/// The device that a plan is made for: a real one, or one that is only described (CUDNN_BACKEND_DEVICEPROP). Without a
/// GPU a description allows everything but execution.
struct DnnTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor *described = nullptr;
};

struct DnnLimits {
  bool tensorCores = true; // false: F32 operands may not be rounded to TF32
  size_t workspace = size_t(1) << 30;
};

struct DnnPlan {
  std::vector<Descriptor> operations;
  std::vector<int64_t> operands = {1, 2, 3}; // the tensors that a call has memory for
  std::map<int64_t, float> numbers;          // those that are numbers, by their ids
  Descriptor graph, plan;
  size_t workspace = 0;
  int64_t engine = -1;
  std::vector<cudnnBackendNumericalNote_t> notes;
};

/// Whether an engine with these notes may be taken.
bool allowedNotes(const std::vector<cudnnBackendNumericalNote_t> &notes, const DnnLimits &limits);

/// Makes made.graph and made.plan from the finalized made.operations.
int32_t prepare(const DnnTarget &target, const DnnLimits &limits, DnnPlan &made, TesseraMessage *m);

/// A prepared plan as text, with the kernels that cuDNN has compiled for it; empty where cuDNN does not write it. And
/// back: false where the text is not of this cuDNN, or the plan is not allowed.
std::string savedPlan(const DnnPlan &made);
bool restorePlan(const DnnTarget &target, const DnnLimits &limits, const std::string &saved, DnnPlan &made);

/// Takes a plan from the user's cache (KeyedCache.h), or makes it and keeps it there. `key`: the device and the
/// operation; the library's version is added. Some engines take a second to compile, the text of one a tenth of that.
int32_t planThroughCache(const DnnTarget &target, const std::string &key,
                         const std::function<int32_t(const DnnTarget &, DnnPlan &)> &make, DnnPlan &made);

/// Where the tensors of attention begin among the operands: TESSERA_ATTENTION_Q is this one.
constexpr int64_t kAttentionOperands = 4;

/// A convolution or a gradient (Conv.cpp), attention or its gradient (Attention.cpp).
int32_t planConv(const DnnTarget &target, const TesseraConv &what, DnnPlan &made, TesseraMessage *m);
int32_t planAttention(const DnnTarget &target, const TesseraAttention &what, DnnPlan &made, TesseraMessage *m);

} // namespace tessera::device

#endif
