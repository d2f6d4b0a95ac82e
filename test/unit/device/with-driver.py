#!/usr/bin/env python3
"""Runs a program beside a driver's library that is good for nothing but being there.

cuDNN proposes engines that are compiled at run time only where it can load libcuda.so.1. With this one, which has every function
of the toolkit's stub and reports success, it proposes and compiles them for described devices. There is still no device.

usage: with-driver.py STUB PROGRAM [ARGUMENT...]      STUB: the toolkit's lib64/stubs/libcuda.so
"""
import os
import subprocess
import sys
import tempfile

HANDLES = {"cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuModuleGetFunction", "cuLibraryLoadData",
           "cuLibraryGetKernel", "cuLibraryGetModule", "cuKernelGetFunction", "cuCtxGetCurrent", "cuDevicePrimaryCtxRetain"}
ANSWERS = {"cuInit": 100, "cuGetExportTable": 1}  # no device: the CUDA runtime does nothing then

BEGIN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static int nothing(void) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "no driver"; return 0; }
int cuGetErrorName(int error, const char **text) { *text = "no driver"; return 0; }
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *found) {
  char newer[200];
  void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  snprintf(newer, sizeof newer, "%s_v2", name);
  *function = dlsym(self, newer);
  if (!*function)
    *function = dlsym(self, name);
  if (!*function)
    *function = (void *)nothing;
  if (found)
    *found = 0;
  return 0;
}
int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, 0);
}
"""


def source(stub):
    symbols = subprocess.run(["nm", "-D", "--defined-only", stub], capture_output=True, text=True, check=True).stdout
    names = {line.split()[2] for line in symbols.splitlines()}
    text = BEGIN
    for name in sorted(n for n in names if n.startswith("cu") and f"int {n}(" not in BEGIN):
        if name in HANDLES:
            text += f"int {name}(void **handle) {{ *handle = (void *)0x1000; return 0; }}\n"
        else:
            text += f"int {name}(void) {{ return {ANSWERS.get(name, 0)}; }}\n"
    return text


def main():
    stub, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/driver.c", "w") as file:
            file.write(source(stub))
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", f"{folder}/libcuda.so.1", f"{folder}/driver.c", "-ldl"], check=True)
        path = ":".join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")]))
        sys.exit(subprocess.run(command, env={**os.environ, "LD_LIBRARY_PATH": path}).returncode)


if __name__ == "__main__":
    main()
