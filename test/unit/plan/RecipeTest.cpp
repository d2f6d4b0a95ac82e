// compile.json is written, read and compared with the files. Some texts are refused.
#include "runtime/plan/Recipe.h"
#include "runtime/support/File.h"
#include "runtime/support/Nesting.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

using namespace tessera::rt;

TEST_CASE("a mesh is arranged for other numbers of ranks") {
  CHECK(meshFor("8", 7) == "7");
  CHECK(meshFor("data=4", 3) == "data=3");
  CHECK(meshFor("data=4,model=2", 6) == "data=3,model=2");
  CHECK(meshFor("data=4,model=2", 4) == "data=2,model=2");
  CHECK(meshFor("data=4,model=3", 8) == "data=4,model=2"); // the first axis is left alone
  CHECK(meshFor("data=2,model=2", 3) == "data=3,model=1");
  CHECK(meshFor("a=2,b=2,c=2", 1) == "a=1,b=1,c=1");
  CHECK(meshFor("", 2) == "2");
  CHECK(meshFor("a=,b=x", 2) == "a=2,b=1");
  CHECK(meshFor("stage=2,data=4", 6) == "stage=2,data=3");
  CHECK(meshFor("stage=2,data=2", 3) == "stage=3,data=1");
  CHECK(meshFor("stage=2,data=2", 2) == "stage=2,data=1"); // and not one stage
  CHECK(meshFor("stage=2,data=2", 1) == "data=1");
  CHECK(meshFor("stage=2", 1) == "1");
  CHECK(meshFor("stages=[data=2; data=1]", 2) == "2");
}

TEST_CASE("a mesh without stages has no schedule of them") {
  const Recipe recipe{"model.onnx", "stage=2", "data", {"--train", "--pipeline=schedule=1f1b", "--accumulate=4"}, {}};
  CHECK(argumentsFor(recipe, "stage=3") == recipe.arguments);
  CHECK(argumentsFor(recipe, "1") == std::vector<std::string>{"--train", "--accumulate=4"});
  const Recipe chosen{"model.onnx", "8", "auto", {"--pipeline=auto"}, {}};
  CHECK(argumentsFor(chosen, "7") == chosen.arguments);
}

TEST_CASE("how deep a text goes is known before it is parsed") {
  CHECK_FALSE(nestsDeeper("", 0));
  CHECK_FALSE(nestsDeeper(R"({"a": [1, "[[\"[[", 2], "b": [{}]})", 3));
  CHECK(nestsDeeper(R"({"a": [1, "[[\"[[", 2], "b": [{}]})", 2));
  CHECK_FALSE(nestsDeeper("]]]][", 1));
  CHECK_FALSE(nestsDeeper("\"[[[[[", 1)); // a text that does not end
  CHECK_FALSE(nestsDeeper("\"\\", 1));
  CHECK_FALSE(Recipe::parse(std::string(1 << 20, '[')).ok()); // at once
}

TEST_CASE("a recipe is read as it was written, and notices changed files") {
  std::string pattern = (std::filesystem::temp_directory_path() / "tessera-test-XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data()), model = folder + "/model.onnx";
  REQUIRE(writeFile(model, std::string(3 << 20, 'm')).ok());
  Recipe recipe{model, "data=2", "auto", {"--train", "--dim=batch=8"}, {*Recipe::File::of(model)}};
  CHECK(readRecipe(folder).status().message().find("has no compile.json") != std::string::npos);
  REQUIRE(writeFile(folder + "/compile.json", recipe.format()).ok());
  Result<Recipe> read = readRecipe(folder);
  REQUIRE(read.ok());
  CHECK(read->format() == recipe.format());
  CHECK(read->arguments == recipe.arguments);
  CHECK(read->checkFiles().ok());
  std::string other(3 << 20, 'm');
  other[2 << 20] = 'n';
  REQUIRE(writeFile(model, other).ok());
  CHECK(read->checkFiles().message() == model + ": has changed since the plan was compiled from it");
  std::filesystem::remove(model);
  CHECK(read->checkFiles().message().find("is not there any more") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that is no recipe, or that would write elsewhere, is refused") {
  const std::string good = Recipe{"m", "2", "data", {"--train"}, {{"m", 1, "d"}}}.format();
  REQUIRE(Recipe::parse(good).ok());
  auto with = [&](const std::string &old, const std::string &now) {
    std::string text = good;
    const size_t at = text.find(old);
    REQUIRE(at != std::string::npos);
    return text.replace(at, old.size(), now);
  };
  for (const std::string &bad :
       {std::string(), std::string("{"), std::string("[]"), std::string(100000, '['), with("tessera-recipe", "x"),
        with("\"version\": 1", "\"version\": 2"), with("\"m\"", "1"), with("\"--train\"", "7"),
        with("\"--train\"", "\"/etc/passwd\""), with("--train", "--output=/etc"),
        with("--train", "--save-strategies=/etc/passwd"), with("--train", "--dump-phases"),
        with("\"bytes\": 1", "\"bytes\": -1"), with("--train", "--dim=a\\u0000b")})
    CHECK_FALSE(Recipe::parse(bad).ok());
}
