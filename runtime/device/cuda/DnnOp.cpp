#include "runtime/device/cuda/DnnOp.h"
#include "runtime/device/cuda/Common.h"

#include <cudnn.h>

#include <map>
#include <memory>
#include <utility>

namespace tessera::device {

/// The library's handle, and the plans made so far.
struct DnnState {
  cudnnHandle_t handle = nullptr;
  std::string device;                                    // what plans are made for
  std::map<std::string, std::shared_ptr<DnnPlan>> plans; // by name and description
  ~DnnState() {
    plans.clear();
    if (handle)
      cudnnDestroy(handle);
  }
};

namespace {

std::string hex(const std::string &bytes) {
  std::string text;
  for (unsigned char byte : bytes)
    for (int digit : {byte >> 4, byte & 15})
      text += "0123456789abcdef"[digit];
  return text;
}

struct DnnOp final : TesseraOp {
  const char *name = nullptr;
  std::shared_ptr<DnnPlan> plan;
  // The operands of the last run, as cuDNN takes them. They are kept, since a step's addresses
  // seldom change.
  Descriptor pack;
  std::vector<const void *> operands;

  int32_t run(TesseraDevice *d, const TesseraOperands &o, TesseraMessage *m) override {
    std::vector<const void *> now = {o.workspace};
    for (int64_t id : plan->operands)
      now.push_back(pointer(o, id));
    if (!pack.raw() || now != operands) {
      pack = Descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, int64_t(plan->operands.size()),
               now.data() + 1)
          .ints(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, plan->operands)
          .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, now.data());
      if (!pack.finalize()) {
        const cudnnStatus_t status = pack.status();
        pack = Descriptor();
        return failDnn(m, status, "packing operands");
      }
      operands = std::move(now);
    }
    if (cudnnStatus_t status = cudnnBackendExecute(d->dnn->handle, plan->plan.raw(), pack.raw()))
      return failDnn(m, status, name);
    return TESSERA_OK;
  }

private:
  const void *pointer(const TesseraOperands &o, int64_t id) const {
    if (const auto number = plan->numbers.find(id); number != plan->numbers.end())
      return &number->second;
    if (id >= kAttentionOperands)
      return o.tensors[id - kAttentionOperands];
    return id == 1 ? o.a : id == 2 ? o.b : o.y;
  }
};

} // namespace

void destroyDnn(TesseraDevice *d) {
  delete d->dnn;
  d->dnn = nullptr;
}

int32_t createDnnOp(TesseraDevice *d, const char *name, const std::string &description,
                    const std::function<int32_t(const DnnTarget &, DnnPlan &)> &make, TesseraOp **op, size_t *workspace,
                    TesseraMessage *m) {
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  if (!d->dnn) {
    auto state = std::make_unique<DnnState>();
    if (cudnnStatus_t status = cudnnCreate(&state->handle))
      return failDnn(m, status, "starting the library");
    if (cudnnStatus_t status = cudnnSetStream(state->handle, d->streams[TESSERA_COMPUTE_STREAM]))
      return failDnn(m, status, "choosing a stream");
    cudaDeviceProp properties;
    TESSERA_CUDA(cudaGetDeviceProperties(&properties, d->ordinal), m, "reading the properties of the device");
    state->device = std::string(properties.name) + " " + std::to_string(properties.major) + "." +
                    std::to_string(properties.minor) + " " + std::to_string(properties.multiProcessorCount);
    d->dnn = state.release();
  }
  const std::string key = name + description;
  auto known = d->dnn->plans.find(key);
  if (known == d->dnn->plans.end()) {
    auto plan = std::make_shared<DnnPlan>();
    if (int32_t code = planThroughCache({d->dnn->handle, nullptr}, d->dnn->device + " " + name + " " + hex(description),
                                        make, *plan))
      return code;
    known = d->dnn->plans.emplace(key, std::move(plan)).first;
  }
  auto made = std::make_unique<DnnOp>();
  made->name = name;
  made->plan = known->second;
  *workspace = made->plan->workspace;
  *op = made.release();
  return TESSERA_OK;
}

std::string dnnLibrary() {
  const size_t version = cudnnGetVersion(); // 91900 is 9.19.0
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

} // namespace tessera::device
