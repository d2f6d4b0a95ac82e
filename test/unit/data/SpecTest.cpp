#include "runtime/data/Spec.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;
using Catch::Contains;

TEST_CASE("specifications are parsed", "[data]") {
  Result<Spec> spec = parseSpec("cifar10:/data/c10,crop=2,mean=0.5:1:1e-3");
  REQUIRE(spec.ok());
  CHECK(spec->kind == "cifar10");
  CHECK(spec->paths == std::vector<std::string>{"/data/c10"});
  CHECK(*spec->integer("crop", 4, 0, 8) == 2);
  CHECK(*spec->integer("flip", 1, 0, 1) == 1);
  CHECK(*spec->numbers("mean", {0, 0, 0}) == std::vector<double>{0.5, 1, 1e-3});
  CHECK(spec->knows({"crop", "mean"}).ok());
  CHECK_THAT(spec->knows({"crop"}).message(), Contains("no option 'mean'") && Contains("crop"));

  CHECK(parseSpec("synthetic")->kind == "synthetic");
  // A path may hold '=' where that cannot be an option, and a colon.
  spec = parseSpec("npy:./a=b.npy,c:d.npy");
  CHECK(spec->paths == std::vector<std::string>{"./a=b.npy", "c:d.npy"});
}

TEST_CASE("bad specifications are refused in one sentence", "[data]") {
  CHECK_THAT(parseSpec("npy:").status().message(), Contains("ends after its kind"));
  CHECK_THAT(parseSpec("npy:a,,b").status().message(), Contains("empty part"));
  CHECK_THAT(parseSpec("synthetic:seed=1,seed=2").status().message(), Contains("twice"));
  Result<Spec> spec = parseSpec("synthetic:classes=ten,samples=-1,noise=nan,std=1:2,eval_samples=5x");
  CHECK_THAT(spec->integer("classes", 10, 1, 99).status().message(),
             Contains("classes=ten") && Contains("from 1 to 99"));
  CHECK_FALSE(spec->integer("samples", 10, 1, 99).ok());
  CHECK_FALSE(spec->integer("eval_samples", 10, 1, 99).ok());
  CHECK_FALSE(spec->number("noise", 0, 0, 1).ok());
  CHECK_THAT(spec->numbers("std", {1, 1, 1}).status().message(), Contains("3 numbers"));
}
