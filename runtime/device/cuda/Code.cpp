// Kernels from source: NVRTC makes an image, the CUDA runtime loads and launches it. The driver API is not used, since
// libcuda must not be linked: cudaLibraryLoadData does what cuModuleLoadData does.
#include "runtime/device/cuda/Common.h"

#include <nvrtc.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

struct TesseraCode {
  cudaLibrary_t library;
  cudaKernel_t kernel;
};

namespace tessera::device {
namespace {

/// There is no --use_fast_math, since the backends must agree. Kernels include no headers.
constexpr const char *kOptions[] = {"--std=c++17", "--no-source-include", "-default-device"};

int32_t failNvrtc(TesseraMessage *m, nvrtcResult result, const char *what) {
  return fail(m, std::string(what) + " failed: " + nvrtcGetErrorString(result));
}

/// The newest architecture that this NVRTC generates machine code for and that `capability` runs.
int architectureFor(int capability) {
  int count = 0;
  if (nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0)
    return capability;
  std::vector<int> archs(static_cast<size_t>(count));
  if (nvrtcGetSupportedArchs(archs.data()) != NVRTC_SUCCESS)
    return capability;
  int best = 0;
  for (int arch : archs)
    if (arch <= capability && arch > best)
      best = arch;
  return best ? best : capability;
}

int32_t compile(const char *source, int32_t capability, int32_t roundProducts, void **image, size_t *bytes,
                TesseraMessage *m) {
  nvrtcProgram program = nullptr;
  nvrtcResult result = nvrtcCreateProgram(&program, source, "tessera.cu", 0, nullptr, nullptr);
  if (result != NVRTC_SUCCESS)
    return failNvrtc(m, result, "starting the CUDA compiler (NVRTC)");
  // NVRTC makes machine code if it knows the device. If the device is newer, it makes PTX of its newest architecture,
  // which the driver translates.
  int arch = architectureFor(capability);
  bool exact = arch == capability;
  std::string option = (exact ? "--gpu-architecture=sm_" : "--gpu-architecture=compute_") + std::to_string(arch);
  std::vector<const char *> options = {option.c_str()};
  options.insert(options.end(), std::begin(kOptions), std::end(kOptions));
  if (roundProducts)
    options.push_back("--fmad=false");
  result = nvrtcCompileProgram(program, int(options.size()), options.data());
  int32_t code = TESSERA_OK;
  if (result != NVRTC_SUCCESS) {
    size_t size = 0;
    std::string log;
    if (nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 1) {
      log.resize(size);
      nvrtcGetProgramLog(program, log.data());
    }
    code = fail(m, "compiling a kernel for " + option + " failed: " + log.substr(0, 700));
  } else {
    result = exact ? nvrtcGetCUBINSize(program, bytes) : nvrtcGetPTXSize(program, bytes);
    *image = result == NVRTC_SUCCESS ? std::malloc(*bytes) : nullptr;
    if (*image)
      result = exact ? nvrtcGetCUBIN(program, static_cast<char *>(*image))
                     : nvrtcGetPTX(program, static_cast<char *>(*image));
    if (!*image || result != NVRTC_SUCCESS) {
      std::free(*image);
      *image = nullptr;
      code = failNvrtc(m, result, "reading a compiled kernel");
    }
  }
  nvrtcDestroyProgram(&program);
  return code;
}

void freeImage(void *image) { std::free(image); }

const char *compilerText() {
  static const std::string text = [] {
    std::string all = codeLibrary();
    for (const char *option : kOptions)
      all += std::string(" ") + option;
    return all;
  }();
  return text.c_str();
}

int32_t loadCode(TesseraDevice *d, const void *image, size_t bytes, const char *function, TesseraCode **code,
                 TesseraMessage *m) {
  (void)bytes;
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  cudaLibrary_t library = nullptr;
  TESSERA_CUDA(cudaLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0), m, "loading a kernel");
  cudaKernel_t kernel = nullptr;
  if (cudaError_t error = cudaLibraryGetKernel(&kernel, library, function)) {
    cudaLibraryUnload(library);
    return failCuda(m, error, "finding a kernel");
  }
  *code = new TesseraCode{library, kernel};
  return TESSERA_OK;
}

void unloadCode(TesseraDevice *d, TesseraCode *code) {
  cudaSetDevice(d->ordinal);
  cudaLibraryUnload(code->library);
  delete code;
}

int32_t launch(TesseraDevice *d, int32_t stream, TesseraCode *code, const uint32_t grid[3], uint32_t block,
               void **arguments, uint32_t count, TesseraMessage *m) {
  (void)count; // the kernel has it as a constant
  cudaSetDevice(d->ordinal);
  TESSERA_CUDA(cudaLaunchKernel(reinterpret_cast<const void *>(code->kernel), dim3(grid[0], grid[1], grid[2]),
                                dim3(block), arguments, 0, d->streams[stream]),
               m, "launching a kernel");
  return TESSERA_OK;
}

} // namespace

std::string codeLibrary() {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  return "NVRTC " + std::to_string(major) + "." + std::to_string(minor);
}

void addCode(TesseraDeviceApi &api) {
  api.compile = compile;
  api.freeImage = freeImage;
  api.compilerText = compilerText;
  api.loadCode = loadCode;
  api.unloadCode = unloadCode;
  api.launch = launch;
}

} // namespace tessera::device
