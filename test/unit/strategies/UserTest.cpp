#include "Programs.h"

using namespace tessera::strategies;

static std::string semiAuto(const std::string &user, const std::string &mesh = "data=2,model=2") {
  Module m(kMlp);
  return assign(m, optionsFor(mesh, "semi-auto", user));
}

static std::string parseError(const std::string &json) {
  auto user = UserStrategies::parse(json, "test.json");
  if (user)
    return "";
  return llvm::toString(user.takeError());
}

TEST_CASE("split counts become axes in mesh order") {
  Module m(kMlp);
  REQUIRE(assign(m, optionsFor("data=2,model=2", "semi-auto", R"([{"op": "fc1", "in": [[2, 1], [1, 2]]}])")) == "");
  CHECK(m.strategy("train", "fc1") == "m=data, n=model");
  CHECK(m.strategy("train", "fc2") == "m=data+model"); // batch parallel
  CHECK(m.arg("train", 2) == "[-, model]");            // w1
  CHECK(m.arg("train", 3) == "[-, -]");                // w2
  // Gradients of fc1 inherit: dw1 = x^T dh sums over the batch and is cut as w1.
  CHECK(m.strategy("train", "fc1.grad_w") == "k=data, n=model -> [-, model]");
  CHECK(m.strategy("train", "fc2.grad_w") == "k=data+model -> [-, -]");
  // The momentum and the update follow the parameter.
  CHECK(m.arg("train", 4) == "[-, model]");
  for (const char *op : {"w1.update", "w1.update.1", "w1.update.2", "w1.update.3"})
    CHECK(m.strategy("train", op) == "b1=model");
  CHECK(m.result("train", 1) == "[-, model]");
  CHECK(m.result("train", 3) == "[-, model]");
  // Inference keeps the parameter's sharding and the operator's strategy.
  CHECK(m.arg("eval", 1) == "[-, model]");
  CHECK(m.strategy("eval", "fc1") == "m=data, n=model");
}

TEST_CASE("named axes say which") {
  Module m(kMlp);
  REQUIRE(assign(m, optionsFor("data=2,model=2", "semi-auto", R"({"strategies": [
      {"op": "fc1", "in": [["model", null], [null, "data"]]},
      {"op": "fc2", "in": [[null, "data+model"], [["data", "model"], null]]}]})")) == "");
  CHECK(m.strategy("train", "fc1") == "m=model, n=data");
  CHECK(m.strategy("train", "fc2") == "k=data+model -> [-, -]");
  CHECK(m.arg("train", 3) == "[data+model, -]");
}

TEST_CASE("a cut sum may be handed on scattered") {
  Module m(kMlp);
  REQUIRE(assign(m, optionsFor("data=2,model=2", "semi-auto", R"([
      {"op": "fc2", "in": [[1, 4], [4, 1]], "out": [[4, 1]]}])")) == "");
  CHECK(m.strategy("train", "fc2") == "k=data+model -> [data+model, -]");
}

TEST_CASE("the axes of split counts are searched jointly over the inputs") {
  // Only data=2 times one of the others makes 6; the batch cannot take model=3 (16 rows).
  Module m(kMlp);
  REQUIRE(assign(m, optionsFor("data=2,model=3", "semi-auto", R"([{"op": "fc1", "in": [[1, 1], [1, 6]]}])")) == "");
  CHECK(m.strategy("train", "fc1") == "n=data+model");
  Module n(kMlp);
  REQUIRE(assign(n, optionsFor("a=2,b=4", "semi-auto", R"([{"op": "fc1", "in": [[4, 1], [1, 2]]}])")) == "");
  CHECK(n.strategy("train", "fc1") == "m=b, n=a");
}

TEST_CASE("a pattern stands for several operators") {
  Module m(kMlp);
  REQUIRE(assign(m, optionsFor("data=2,model=2", "semi-auto", R"([{"op": "fc*", "in": [[2, 1], [1, 2]]}])")) == "");
  CHECK(m.strategy("train", "fc1") == "m=data, n=model");
  CHECK(m.strategy("train", "fc2") == "m=data, n=model");
}

TEST_CASE("a user's strategy that cannot be applied is one clear error") {
  CHECK(semiAuto(R"([{"op": "fc3", "in": [[1, 1], [1, 2]]}])") ==
        "strategy file test.json: the model has no operator 'fc3'; the nearest names are 'fc1', "
        "'fc2', 'relu'");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[1, 1]]}])") ==
        "operator 'fc1': it has 2 inputs but its strategy 1; null leaves an input open");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[1, 1], [1, 2], [1]]}])") ==
        "operator 'fc1': it has 2 inputs but its strategy 3");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[1, 1, 1], [1, 2]]}])") ==
        "operator 'fc1': input 0 has 2 dimensions but its strategy 3; give one entry per dimension");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[1, 1], [1, 16]]}])", "data=16") ==
        "operator 'fc1': dimension 1 (factor n) of input 1 has 12 elements and cannot be split in "
        "16");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [["data", null], [null, "rows"]]}])") ==
        "operator 'fc1': mesh data=2,model=2 has no axis 'rows'");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [["data", "data"], [null, null]]}])") ==
        "operator 'fc1': axis 'data' is used twice in input 0");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [["data", null], [null, "data"]]}])") ==
        "operator 'fc1': the splits of its inputs do not fit together on mesh data=2,model=2: a "
        "factor that two inputs share must be split alike, and an axis can split only one factor");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[8, 1], [1, 1]]}])") ==
        "operator 'fc1': input 0 is split in 8 parts or more but mesh data=2,model=2 has 4 ranks");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[1, 1], [1, 3]]}])") ==
        "operator 'fc1': no axes of mesh data=2,model=2 split dimension 1 of input 1 in 3 parts");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[1, 2], [1, 1]]}])").find("do not fit together") != std::string::npos);
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[1, 1], [1, 2]], "out": [[1, 2], [1, 2]]}])") ==
        "operator 'fc1': it has 1 outputs but its strategy 2");
  CHECK(semiAuto(R"([{"op": "fc1", "in": [[1, 1], [1, 2]]}, {"op": "fc*", "in": [[1, 1], [1, 2]]}])") ==
        "operator 'fc1' has two strategies: 'fc1' and 'fc*'; give it one");
  Module m(kMlp);
  CHECK_THAT(assign(m, optionsFor("data=2", "data", R"([{"op": "fc1", "in": [[1, 1], [1, 2]]}])")),
             Catch::Contains("no effect in mode data"));
}

TEST_CASE("operators are given stages, with shardings and without") {
  Module m(kMlp);
  auto stages = [&](const std::string &text) -> std::string {
    llvm::Expected<UserStrategies> user = UserStrategies::parse(text, "test.json");
    if (!user)
      return llvm::toString(user.takeError());
    llvm::Expected<std::map<std::string, int>> given = givenStages(*m.module, *user);
    if (!given)
      return llvm::toString(given.takeError());
    std::string found = std::to_string(user->entries.size()) + " strategies";
    for (const auto &[name, stage] : *given)
      found += ", " + name + " " + std::to_string(stage);
    return found;
  };
  CHECK(stages(R"([{"op": "fc1", "in": [[2, 1], [1, 2]], "stage": 0}, {"op": "fc2", "pipeline_stage": 1}])") ==
        "1 strategies, fc1 0, fc2 1"); // and no gradient of them
  CHECK(stages(R"([{"op": "fc*", "stage": 3}])") == "0 strategies, fc1 3, fc2 3");
  CHECK(stages(R"([{"op": "fc*", "stage": 3}, {"op": "fc2", "stage": 4}])") ==
        "strategy file test.json: operator 'fc2' has two stages: 3 by 'fc*' and 4 by 'fc2'");
  CHECK(stages(R"([{"op": "fc1", "stage": 3}, {"op": "fc1", "stage": 3}])") ==
        "strategy file test.json: operator 'fc1' has two stages");
  CHECK(stages(R"([{"op": "fc1", "stage": 3, "pipeline_stage": 3}])") ==
        "strategy file test.json: operator 'fc1': 'stage' and 'pipeline_stage' are two names of one field");
  for (const char *bad : {"-1", "1.5", "\"1\"", "null", "4000000000"})
    CHECK(stages(std::string(R"([{"op": "fc1", "stage": )") + bad + "}]") ==
          "strategy file test.json: operator 'fc1': 'stage' must be a whole number from 0");
  CHECK(stages(R"([{"op": "fc1", "stage": 1, "out": [[1, 2]]}])") ==
        "strategy file test.json: operator 'fc1': the shardings of its inputs are missing ('in')");
  // A name that the model does not have is an error as for strategies, and stages alone go with mode data.
  CHECK_THAT(assign(m, optionsFor("data=2", "data", R"([{"op": "fc3", "stage": 1}])")),
             Catch::Contains("the model has no operator 'fc3'"));
  REQUIRE(assign(m, optionsFor("data=2", "data", R"([{"op": "fc2", "stage": 1}])")) == "");
  // What is saved has them.
  const std::string saved = saveStrategies(*m.module, {{"fc1", 0}, {"fc2", 1}});
  const UserStrategies again = llvm::cantFail(UserStrategies::parse(saved, "test.json"));
  REQUIRE(again.stages.size() == 2);
  CHECK(again.stages[1].op == "fc2");
  CHECK(again.stages[1].stage == 1);
  CHECK(again.saved.size() == 2);
  std::string damaged = saved;
  damaged.replace(damaged.find("\"stage\":1"), 9, "\"stage\":-");
  CHECK_THAT(parseError(damaged), Catch::Contains("not valid JSON"));
  damaged.replace(damaged.find("\"stage\":-"), 9, "\"stag\":1");
  CHECK_THAT(parseError(damaged), Catch::Contains("a stage lacks op or stage"));
}

TEST_CASE("a shared parameter has one sharding") {
  const char *program = R"(
func.func @infer(%x: tensor<8x4xf32> {graph.role = "input", graph.name = "x"},
                 %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<8x4xf32> {graph.role = "output", graph.name = "y"}) {
  %a = graph.matmul %x, %w {graph.name = "first"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %b = graph.matmul %a, %w {graph.name = "second"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %b : tensor<8x4xf32>
})";
  Module m(program), n(program), o(program);
  CHECK(assign(m, optionsFor("data=2,model=2", "semi-auto", R"([
      {"op": "first", "in": [[1, 1], [1, 2]]}, {"op": "second", "in": [[1, 2], [2, 1]]}])")) ==
        "operators 'first' and 'second' share parameter 'w' but shard it differently: [-, data] and "
        "[data, -]; give both the same strategy for it");
  CHECK_THAT(assign(n, optionsFor("data=2,model=2", "semi-auto", R"([{"op": "second", "in": [[1, 2], [2, 1]]}])")),
             Catch::Contains("'first' and 'second' share parameter 'w'"));
  CHECK(assign(o, optionsFor("data=2,model=2", "semi-auto", R"([
      {"op": "first", "in": [[1, 1], [1, 2]]}, {"op": "second", "in": [[2, 1], [1, 2]]}])")) ==
        "operators 'first' and 'second' share parameter 'w' but shard it differently: [-, data] and "
        "[-, model]; give both the same strategy for it");
}

TEST_CASE("an operator of the model that is several in the graph is one group") {
  Module m(R"(
func.func @infer(%x: tensor<8x4xf32> {graph.role = "input", graph.name = "x"},
                 %w: tensor<4x6xf32> {graph.role = "parameter", graph.name = "w"},
                 %b: tensor<6xf32> {graph.role = "parameter", graph.name = "b"})
    -> (tensor<8x6xf32> {graph.role = "output", graph.name = "y"}) {
  %a = graph.matmul %x, %w {graph.name = "fc/matmul"} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %y = graph.add %a, %b {graph.name = "fc"} : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
})");
  SECTION("columns: the bias follows") {
    REQUIRE(assign(m, optionsFor("data=2,model=2", "semi-auto", R"([{"op": "fc", "in": [[2, 1], [1, 2]]}])")) == "");
    CHECK(m.strategy("infer", "fc/matmul") == "m=data, n=model");
    CHECK(m.strategy("infer", "fc") == "b0=data, b1=model");
    CHECK(m.arg("infer", 2) == "[model]");
    CHECK(m.result("infer", 0) == "[data, model]");
  }
  SECTION("rows: the sum is reduced before the bias is added") {
    REQUIRE(assign(m, optionsFor("data=2,model=2", "semi-auto", R"([{"op": "fc", "in": [[1, 4], [4, 1], [1]]}])")) ==
            "");
    CHECK(m.strategy("infer", "fc/matmul") == "k=data+model -> [-, -]");
    CHECK(m.strategy("infer", "fc") == "");
    CHECK(m.arg("infer", 2) == "[-]");
  }
  SECTION("out speaks of the group's end") {
    REQUIRE(assign(m, optionsFor("data=2,model=2", "semi-auto",
                                 R"([{"op": "fc", "in": [[2, 1], [1, 1]], "out": [[2, 2]]}])")) == "");
    CHECK(m.strategy("infer", "fc/matmul") == "m=data");
    CHECK(m.strategy("infer", "fc") == "b0=data -> [data, model]");
  }
}

TEST_CASE("hostile strategy files are refused") {
  CHECK(parseError("[") == "strategy file test.json: not valid JSON");
  CHECK(parseError("7").find("expected a list") != std::string::npos);
  CHECK(parseError(R"([{"in": []}])").find("entry 0") != std::string::npos);
  CHECK(parseError(R"([{"op": "a"}])").find("'in'") != std::string::npos);
  CHECK(parseError(R"([{"op": "a", "in": [[0]]}])").find("whole number") != std::string::npos);
  CHECK(parseError(R"([{"op": "a", "in": [[-1]]}])").find("whole number") != std::string::npos);
  CHECK(parseError(R"([{"op": "a", "in": [[1e30]]}])").find("must be") != std::string::npos);
  CHECK(parseError(R"([{"op": "a", "in": [["x+"]]}])").find("axis names") != std::string::npos);
  CHECK(parseError(R"([{"op": "a", "in": [["x"], [2]]}])").find("one notation") != std::string::npos);
  CHECK(parseError(R"([{"op": "a", "in": [], "axes": 1}])").find("unknown field 'axes'") != std::string::npos);
  CHECK(parseError(R"([{"op": "a", "in": []}, {"op": "a", "in": []}])").find("two strategies") != std::string::npos);
  CHECK(parseError(std::string(100000, '[')).find("nested") != std::string::npos);
  CHECK(parseError(R"({"format": "other"})").find("format") != std::string::npos);
  CHECK(parseError(R"({"format": "tessera-strategies", "mesh": "1"})").find("damaged") != std::string::npos);
}

TEST_CASE("a pattern matches by its stars") {
  CHECK(matchesName("a", "a"));
  CHECK(!matchesName("a", "ab"));
  CHECK(matchesName("*", ""));
  CHECK(matchesName("/layer1/*/conv*", "/layer1/x/conv2/Conv"));
  CHECK(!matchesName("/layer1/*/conv*", "/layer2/x/conv2/Conv"));
  CHECK(matchesName("*Conv", "/conv1/Conv"));
  CHECK(!matchesName("a*a", "a"));
}

TEST_CASE("an entry says why a mesh cannot follow it") {
  auto why = [](const std::string &mesh, const std::string &in) {
    const UserStrategies user =
        llvm::cantFail(UserStrategies::parse(R"([{"op": "fc1", "in": )" + in + "}]", "test.json"));
    return whyNotOn(llvm::cantFail(Mesh::parse(mesh)), user.entries.front());
  };
  CHECK(why("data=2,model=2", R"([["data", null], null])") == "");
  CHECK(why("data=2", R"([["data", null], [null, "model"]])") == "has no axis 'model'");
  CHECK(why("data=2,model=3", "[[6, 1]]") == "");
  CHECK(why("data=2,model=3", "[[1, 3]]") == "");
  CHECK(why("data=2,model=3", "[[1, 4]]") == "has no axes for 4 parts");
  CHECK(why("data=1", "[[1, 1]]") == "");
}

TEST_CASE("strategies for several meshes are saved together, and belong to no single mesh") {
  Module two(kMlp), one(kMlp);
  REQUIRE(assign(two, optionsFor("data=2", "data")) == "");
  REQUIRE(assign(one, optionsFor("data=1", "data")) == "");
  const std::string text = saveVersions({*two.module, *one.module}, "stages=[data=2; data=1]", {{"fc2", 1}});
  const UserStrategies user = llvm::cantFail(UserStrategies::parse(text, "test.json"));
  CHECK(user.isSaved());
  CHECK(user.savedMesh == "stages=[data=2; data=1]");
  REQUIRE(user.stages.size() == 1);
  REQUIRE(user.versions.size() == 2);
  CHECK(user.versions[1].savedMesh == "data=1");

  Module again(kMlp);
  AssignOptions options = optionsFor("data=2", "data");
  options.user = user.versions[0];
  REQUIRE(assign(again, options) == "");
  CHECK(saveStrategies(*again.module) == saveStrategies(*two.module));
  options.user = user;
  CHECK(assign(again, options) ==
        "strategy file test.json: it was saved for mesh stages=[data=2; data=1], not for data=2");

  for (const char *versions : {"[]", "[{}]", R"([{"mesh": "data=1", "versions": []}])"})
    CHECK_FALSE(bool(llvm::expectedToOptional(UserStrategies::parse(
        std::string(R"({"format": "tessera-strategies", "mesh": "stages=[a=1; b=1]", "versions": )") + versions + "}",
        "test.json"))));
}
