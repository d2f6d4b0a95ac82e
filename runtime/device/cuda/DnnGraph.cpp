#include "runtime/device/cuda/DnnGraph.h"
#include "runtime/device/cuda/Common.h"
#include "runtime/support/KeyedCache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <sstream>

namespace tessera::device {
namespace {

/// The configurations of one heuristic mode, best first.
std::vector<Descriptor> configurations(const DnnTarget &target, const Descriptor &graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.one(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).one(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.described)
    heuristics.one(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.described);
  std::vector<Descriptor> list;
  int64_t count = 0;
  if (!heuristics.finalize() ||
      cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                               &count, nullptr) != CUDNN_STATUS_SUCCESS)
    return list; // a failure gives no configurations; the other mode may still have some
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    list.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(list.back().raw());
  }
  int64_t given = 0;
  if (cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                               &given, raw.data()) != CUDNN_STATUS_SUCCESS)
    given = 0;
  list.resize(size_t(std::clamp<int64_t>(given, 0, count)));
  return list;
}

/// Reads the number and the numerical notes of a configuration's engine; false where cuDNN does not
/// tell them.
bool inspect(const Descriptor &configuration, DnnPlan &made) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  int64_t count = 0;
  if (cudnnBackendGetAttribute(configuration.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                               &count, &raw) != CUDNN_STATUS_SUCCESS)
    return false;
  made.notes.resize(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  if (cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, made.notes.data()) != CUDNN_STATUS_SUCCESS)
    return false;
  made.notes.resize(size_t(std::clamp<int64_t>(count, 0, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)));
  made.engine = -1;
  return cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &made.engine) ==
         CUDNN_STATUS_SUCCESS;
}

} // namespace

int32_t failDnn(TesseraMessage *m, cudnnStatus_t status, const char *what) {
  // cuDNN reports some operations that it does not support as a bad parameter.
  const int category = CUDNN_STATUS_CATEGORY(int(status));
  const bool unsupported = category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
  return fail(m, std::string("cuDNN: ") + what + " failed: " + cudnnGetErrorString(status),
              unsupported ? TESSERA_UNSUPPORTED : TESSERA_FAILED);
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) : status_(cudnnBackendCreateDescriptor(type, &raw_)) {}

Descriptor::~Descriptor() {
  if (raw_)
    cudnnBackendDestroyDescriptor(raw_);
}

Descriptor &Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                            const void *values) {
  if (status_ == CUDNN_STATUS_SUCCESS)
    status_ = cudnnBackendSetAttribute(raw_, name, type, count, values);
  return *this;
}

bool Descriptor::finalize() {
  if (status_ == CUDNN_STATUS_SUCCESS)
    status_ = cudnnBackendFinalize(raw_);
  return status_ == CUDNN_STATUS_SUCCESS;
}

cudnnDataType_t dnnType(int32_t dtype) {
  return dtype == TESSERA_F64    ? CUDNN_DATA_DOUBLE
         : dtype == TESSERA_F16  ? CUDNN_DATA_HALF
         : dtype == TESSERA_BF16 ? CUDNN_DATA_BFLOAT16
                                 : CUDNN_DATA_FLOAT;
}

Descriptor dnnTensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t> &sizes, bool channelsLast,
                     bool isVirtual) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  if (channelsLast) {
    strides[1] = step;
    step *= sizes[1];
  }
  for (size_t d = sizes.size(); d-- > 0;)
    if (d != 1 || !channelsLast) {
      strides[d] = step;
      step *= sizes[d];
    }
  return dnnTensor(id, type, sizes, strides, isVirtual ? DnnTensorKind::Virtual : DnnTensorKind::Memory);
}

Descriptor dnnTensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t> &sizes,
                     const std::vector<int64_t> &strides, DnnTensorKind kind) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.one(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .one(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .one(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
           int64_t(16)) // a plan's buffers begin at multiples of 64
      .ints(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .ints(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, kind == DnnTensorKind::Virtual);
  if (kind == DnnTensorKind::Number)
    tensor.one(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  tensor.finalize();
  return tensor;
}

bool allowedNotes(const std::vector<cudnnBackendNumericalNote_t> &notes, const DnnLimits &limits) {
  for (cudnnBackendNumericalNote_t note : notes)
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: // sums stay in F32 or F64
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_FFT: // lose several digits
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      if (!limits.tensorCores)
        return false;
      break;
    default:
      break;
    }
  return true;
}

int32_t prepare(const DnnTarget &target, const DnnLimits &limits, DnnPlan &made, TesseraMessage *m) {
  made.graph = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor &operation : made.operations)
    operations.push_back(operation.raw());
  made.graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, int64_t(operations.size()),
                 operations.data());
  if (target.handle)
    made.graph.one(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  if (!made.graph.finalize())
    return failDnn(m, made.graph.status(), "describing a graph");
  cudnnStatus_t why = CUDNN_STATUS_NOT_SUPPORTED;
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const Descriptor &configuration : configurations(target, made.graph, mode)) {
      if (!inspect(configuration, made) || !allowedNotes(made.notes, limits))
        continue;
      made.plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      made.plan.one(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (target.handle)
        made.plan.one(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
      else
        made.plan.one(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.described);
      if (!made.plan.finalize()) {
        why = made.plan.status();
        continue;
      }
      int64_t count = 0, bytes = 0;
      if (cudnnBackendGetAttribute(made.plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                   &count, &bytes) != CUDNN_STATUS_SUCCESS ||
          bytes < 0 || uint64_t(bytes) > limits.workspace)
        continue;
      made.workspace = size_t(bytes);
      return TESSERA_OK;
    }
  made.plan = Descriptor();
  return fail(m, std::string("cuDNN has no deterministic engine for this operation (") + cudnnGetErrorString(why) + ")",
              TESSERA_UNSUPPORTED);
}

std::string savedPlan(const DnnPlan &made) {
  int64_t count = 0;
  if (cudnnBackendGetAttribute(made.plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0,
                               &count, nullptr) != CUDNN_STATUS_SUCCESS ||
      count <= 0)
    return "";
  std::string json(size_t(count), '\0');
  if (cudnnBackendGetAttribute(made.plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, count,
                               &count, json.data()) != CUDNN_STATUS_SUCCESS)
    return "";
  json.resize(std::strlen(json.c_str()));
  std::string operands;
  for (int64_t id : made.operands) {
    operands += std::to_string(id);
    if (const auto number = made.numbers.find(id); number != made.numbers.end())
      operands += ":" + std::to_string(std::bit_cast<uint32_t>(number->second));
    operands += " ";
  }
  return operands + "\n" + json;
}

bool restorePlan(const DnnTarget &target, const DnnLimits &limits, const std::string &saved, DnnPlan &made) {
  const size_t line = saved.find('\n');
  if (line == std::string::npos)
    return false;
  made = DnnPlan();
  made.operands.clear();
  std::istringstream operands(saved.substr(0, line));
  for (int64_t id = 0; operands >> id;) {
    made.operands.push_back(id);
    uint32_t bits = 0;
    if (operands.peek() == ':' && operands.ignore() >> bits)
      made.numbers[id] = std::bit_cast<float>(bits);
  }
  const std::string json = saved.substr(line + 1);
  made.plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle)
    made.plan.one(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  else
    made.plan.one(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.described);
  made.plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, int64_t(json.size() + 1), json.c_str());
  int64_t count = 0, bytes = 0;
  if (!made.plan.finalize() ||
      cudnnBackendGetAttribute(made.plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                               &bytes) != CUDNN_STATUS_SUCCESS ||
      bytes < 0 || uint64_t(bytes) > limits.workspace) {
    made = DnnPlan();
    return false;
  }
  made.workspace = size_t(bytes);
  return true;
}

int32_t planThroughCache(const DnnTarget &target, const std::string &key,
                         const std::function<int32_t(const DnnTarget &, DnnPlan &)> &make, DnnPlan &made) {
  const std::string whole = std::to_string(cudnnGetVersion()) + " " + key;
  if (restorePlan(target, DnnLimits(), rt::readCached("plan of cuDNN", whole), made))
    return TESSERA_OK;
  const int32_t code = make(target, made);
  if (code == TESSERA_OK)
    if (const std::string saved = savedPlan(made); !saved.empty())
      rt::writeCached("plan of cuDNN", whole, saved);
  return code;
}

} // namespace tessera::device
