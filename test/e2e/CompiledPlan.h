//===- CompiledPlan.h - plans that tessera-compile makes, for tests that change them --------------===//
//
//   Folder folder;
//   rt::PlanDirectory plan = compilePlan(folder, "lenet_train.onnx --mesh data=2 --train");
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_E2E_COMPILEDPLAN_H
#define TESSERA_TEST_E2E_COMPILEDPLAN_H

#include "runtime/plan/PlanFile.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace tessera {

/// A temporary folder of its own.
struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "tessera-test-XXXXXX").string();
  Folder() { REQUIRE(mkdtemp(path.data())); }
  ~Folder() { std::filesystem::remove_all(path); }
};

inline void shell(const std::string &command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

/// `arguments` begin with a model of test/models. The plan lies in the folder; the next one takes its place.
inline rt::PlanDirectory compilePlan(const Folder &folder, const std::string &arguments) {
  const std::string plan = folder.path + "/plan";
  shell(TESSERA_COMPILE " " TESSERA_MODELS "/" + arguments + " -o " + plan + " >" + folder.path + "/log 2>&1");
  rt::Result<rt::PlanDirectory> read = rt::readPlanDirectory(plan);
  REQUIRE(read.ok());
  return std::move(*read);
}

} // namespace tessera

#endif
