//===- BackendName.h - a backend on the command line ----------------------------------------------===//
//
//   app.add_option("--backend", backend)->check(knownBackend());
//   // tessera-run PLAN --backend foo:  "--backend: there is no backend 'foo'; choose one of cpu, cuda, …"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_BACKENDNAME_H
#define TESSERA_TOOLS_BACKENDNAME_H

#include "runtime/backend/Backend.h"

#include <CLI/CLI.hpp>

namespace tessera {

inline CLI::Validator knownBackend() {
  return CLI::Validator(
      [](const std::string &name) {
        return rt::findBackend(name) ? std::string()
                                     : "there is no backend '" + name + "'; choose one of " + rt::backendNames();
      },
      "");
}

} // namespace tessera

#endif
