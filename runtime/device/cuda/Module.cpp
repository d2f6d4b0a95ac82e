// The module's one exported symbol.
#include "runtime/device/cuda/Common.h"

extern "C" __attribute__((visibility("default"))) const TesseraDeviceApi *tesseraDeviceApi(void) {
  static const TesseraDeviceApi table = [] {
    TesseraDeviceApi api = {};
    api.abi = TESSERA_DEVICE_ABI;
    api.size = sizeof api;
    api.kind = "cuda";
    tessera::device::addDevices(api);
    tessera::device::addCode(api);
    tessera::device::addMatMul(api);
    tessera::device::addConv(api);
    tessera::device::addAttention(api);
    tessera::device::addCollectives(api);
    return api;
  }();
  return &table;
}
