#include "Programs.h"
#include "strategies/graph/BuildGraph.h"
#include "strategies/search/Evaluate.h"
#include "strategies/space/Enumerate.h"

#include <set>

using namespace tessera::strategies;
namespace dist = tessera::dist;

static const Mesh kMesh = llvm::cantFail(Mesh::parse("data=2,model=2"));

TEST_CASE("enumeration lists exactly the strategies that a brute force finds") {
  struct Case {
    const char *rule;
    std::vector<Shape> in, out;
  };
  std::vector<Case> cases = {
      {"m k, k n -> m n | sum k | linear 0 1", {{8, 6}, {6, 4}}, {{8, 4}}},
      {"..., ... -> ... | linear 0+1", {{4, 2}, {4, 2}}, {{4, 2}}},
      {"b k -> b k | stat(max, sum) k", {{4, 8}}, {{4, 8}}},
      {"(a b) c -> a (b c)", {{8, 2}}, {{4, 4}}},
      {"a b -> a | max b", {{4, 4}}, {{4}}},
      {"a b c -> a | sum b c", {{3, 4, 2}}, {{3}}},
  };
  for (const Case &c : cases) {
    INFO(c.rule);
    OperatorClass cls;
    cls.operandShapes.assign(c.in.begin(), c.in.end());
    cls.resultShapes.assign(c.out.begin(), c.out.end());
    cls.rule = llvm::cantFail(ShardingRule::parse(c.rule, cls.operandShapes, cls.resultShapes));
    std::vector<Strategy> listed = enumerateStrategies(cls, kMesh);
    std::set<Strategy> distinct(listed.begin(), listed.end());
    CHECK(distinct.size() == listed.size());
    for (const Strategy &s : listed)
      CHECK(!dist::verifyStrategy(cls.rule, s, kMesh, cls.operandShapes, cls.resultShapes));
    // Brute force: both axes to every factor, to every linear group or to none; valid ones count once with
    // natural results.
    std::set<Strategy> expected;
    int places = int(cls.rule.factors.size() + cls.rule.linear.size()) + 1;
    for (int a = 0; a < places; ++a)
      for (int b = 0; b < places; ++b) {
        Strategy s;
        s.factors.resize(cls.rule.factors.size());
        bool ok = true;
        int axis = 0;
        for (int place : {a, b}) {
          if (place >= 1 && place <= int(cls.rule.factors.size())) {
            s.factors[place - 1].push_back(axis);
          } else if (place > 0) {
            int group = place - 1 - int(cls.rule.factors.size());
            ok &= s.linear < 0 || s.linear == group;
            s.linear = group;
            s.partial.push_back(axis);
          }
          ++axis;
        }
        llvm::Error e = dist::verifyStrategy(cls.rule, s, kMesh, cls.operandShapes, cls.resultShapes);
        if (ok && !e)
          expected.insert(s);
        llvm::consumeError(std::move(e));
      }
    std::set<Strategy> natural;
    for (const Strategy &s : listed)
      if (s.results.empty())
        natural.insert(s);
    CHECK(natural == expected);
    // A strategy whose results come out partial has a variant that reduces them.
    for (const Strategy &s : natural) {
      Strategy reduced = s;
      reduceNow(kMesh, cls.rule, reduced);
      CHECK(distinct.count(reduced) == 1);
    }
  }
}

TEST_CASE("up to three axes every strategy is listed, and on more a search says that some are not") {
  OperatorClass cls;
  cls.operandShapes = {{256, 128, 28, 28}, {256, 128, 28, 28}};
  cls.resultShapes = {{128, 128, 4, 4}};
  cls.rule = llvm::cantFail(
      ShardingRule::parse("n c h w, n f h w -> f c r s | sum n h w", cls.operandShapes, cls.resultShapes));
  const Mesh three = llvm::cantFail(Mesh::parse("a=2,b=2,c=2")), four = llvm::cantFail(Mesh::parse("a=2,b=2,c=2,d=2"));
  CHECK(enumerateStrategies(cls, three).size() < mostStrategies(three));
  CHECK(enumerateStrategies(cls, four).size() == mostStrategies(four));
  for (auto [mesh, isWhole] : {std::pair("a=2,b=2,c=2", true), std::pair("a=2,b=2,c=2,d=2", false)}) {
    Module m(kMlp);
    AssignOptions options = optionsFor(mesh, "auto");
    options.firstOnly = true;
    AssignReport report;
    REQUIRE(assign(m, options, &report) == "");
    const SearchReport &search = report.functions.front().search;
    INFO(mesh);
    CHECK((search.partly == 0) == isWhole);
    CHECK((isWhole || !search.optimal));
  }
}

TEST_CASE("a reduction is scattered in every way that divides") {
  OperatorClass cls;
  cls.operandShapes = {{4, 8}};
  cls.resultShapes = {{4}};
  cls.rule = llvm::cantFail(ShardingRule::parse("a b -> a | sum b", cls.operandShapes, cls.resultShapes));
  Strategy s;
  s.factors = {{}, {0, 1}};
  std::vector<std::string> texts;
  for (const Strategy &v : resultVariants(cls, kMesh, s))
    texts.push_back(dist::strategyText(v, cls.rule, kMesh));
  CHECK(texts == std::vector<std::string>{"b=data+model", "b=data+model -> [-]", "b=data+model -> [model]",
                                          "b=data+model -> [data]", "b=data+model -> [data+model]"});
}

TEST_CASE("an operator joins the group of the operand that it follows") {
  Module m(kMlp);
  FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("train"))));
  llvm::SmallVector<bool> none(plan.program.operators.size(), false);
  FollowGroups groups = formFollowGroups(plan, BatchDependence(plan.program), none);
  auto of = [&](const char *name) {
    for (size_t i = 0; i < plan.program.operators.size(); ++i)
      if (plan.program.operators[i].name == name)
        return groups.ofOp[i];
    return -2;
  };
  CHECK(of("relu") == of("fc1"));
  CHECK(of("relu.grad") == of("fc2.grad_x"));
  CHECK(of("loss/square") == of("fc2"));
  CHECK(of("loss/sum") == of("fc2")); // a small reduction
  CHECK(of("fc2.grad_w") != of("fc2"));
  CHECK(of("w1.update") == groups.ofArg[2]);   // lies as the parameter
  CHECK(of("w1.update.1") == groups.ofArg[4]); // lies as the momentum
}

TEST_CASE("a group is split where its kernels are") {
  Module m(kMlp);
  FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("train"))));
  llvm::SmallVector<bool> none(plan.program.operators.size(), false);
  const BatchDependence batch(plan.program);
  const FollowGroups whole = formFollowGroups(plan, batch, none), split = splitFollowGroups(plan, batch, none, whole);
  CHECK(split.list.size() > whole.list.size());
  CHECK(split.whole == whole.ofOp);
  CHECK(split.ofArg == whole.ofArg);
  std::set<std::pair<int, int>> loops;
  for (size_t i = 0; i < plan.program.operators.size(); ++i) {
    const OperatorInfo &info = plan.program.operators[i];
    INFO(info.name);
    CHECK((split.ofOp[i] < 0) == (whole.ofOp[i] < 0));
    if (!split.released[i])
      continue;
    CHECK(split.list[size_t(split.ofOp[i])].ops.front() == int(i));
    if (info.cls->part != tessera::graph::LoopPart::None) // once per loop and group
      CHECK(loops.insert({whole.ofOp[i], info.loop}).second);
  }
}

TEST_CASE("no option takes what a source makes as a partial sum") {
  Module m(R"(
    func.func @infer(%x: tensor<8x8xf32> {graph.name = "x", graph.role = "input"})
        -> (tensor<8x8xf32> {graph.name = "y", graph.role = "output"}) {
      %i = graph.iota {dim = 0 : i64, start = 0 : i64, graph.name = "i"} : () -> tensor<64xf32>
      %r = graph.reshape %i {graph.name = "r"} : (tensor<64xf32>) -> tensor<8x8xf32>
      %y = graph.add %x, %r {graph.name = "y"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    })");
  FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("infer"))));
  CostModel model(kMesh, llvm::cantFail(Topology::load("cpu")));
  SharedShardings shared;
  BuiltGraph built = buildGraph(plan, model, nullptr, shared, int64_t(1) << 40);
  int heads = 0;
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    if (group.arg >= 0)
      continue;
    const OperatorInfo &info = plan.program.operators[group.ops.front()];
    for (auto [o, v] : llvm::enumerate(info.op->getOperands())) {
      if (built.groups.of(plan.program, v) >= 0)
        continue;
      ++heads;
      REQUIRE(!built.options[c]->empty());
      for (const GroupOption &option : *built.options[c])
        CHECK(!dist::operandSharding(model.mesh(), info.cls->rule, option.strategy(0), int(o)).isPartial());
    }
  }
  CHECK(heads == 1); // the reshape
}

TEST_CASE("heads that hand on alike share the tail of their options") {
  Module m(kMlp);
  FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("train"))));
  CostModel model(llvm::cantFail(Mesh::parse("a=2,b=2,c=2")), llvm::cantFail(Topology::load("cpu")));
  SharedShardings shared;
  BuiltGraph built = buildGraph(plan, model, nullptr, shared, int64_t(1) << 40);
  size_t shorter = 0;
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    const GroupOptions &options = *built.options[c];
    shorter += options.numTails() < options.size();
    std::set<std::vector<Strategy>> distinct;
    for (const GroupOption &option : options) {
      if (group.arg >= 0)
        continue;
      // The head hands on the sharding for which the tail was made, and costs what it costs alone.
      const OperatorInfo &info = plan.program.operators[group.ops.front()];
      for (size_t r = 0; r < option.tail->handed.size(); ++r)
        CHECK(dist::resultSharding(model.mesh(), info.cls->rule, option.strategy(0), int(r)) == option.tail->handed[r]);
      CHECK(option.head->cost == model.operatorCost(*info.cls, option.strategy(0)).total());
      CHECK(option.cost() == option.head->cost + option.tail->cost);
      std::vector<Strategy> all;
      for (size_t k = 0; k < group.ops.size(); ++k)
        all.push_back(option.strategy(k));
      CHECK(distinct.insert(std::move(all)).second);
    }
  }
  CHECK(shorter > 0);
}

TEST_CASE("operators that another function has are priced once, and cost what they cost alone") {
  Module m(kMlp);
  CostModel model(llvm::cantFail(Mesh::parse("a=2,b=2")), llvm::cantFail(Topology::load("cpu")));
  KnownOptions known;
  std::set<const std::vector<GroupHead> *> ofTrain;
  size_t shared = 0, own = 0;
  for (const char *name : {"train", "eval"}) {
    FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func(name))));
    const BuiltGraph with = buildGraph(plan, model, nullptr, {}, int64_t(1) << 40, &known),
                     alone = buildGraph(plan, model, nullptr, {}, int64_t(1) << 40);
    REQUIRE(with.wide.nodes.size() == alone.wide.nodes.size());
    for (size_t n = 0; n < with.wide.nodes.size(); ++n) {
      CHECK(*with.wide.nodes[n].costs == *alone.wide.nodes[n].costs);
      const std::vector<GroupHead> *heads = with.options[n]->heads.get();
      if (!heads)
        continue;
      REQUIRE(heads->size() == alone.options[n]->heads->size());
      for (size_t h = 0; h < heads->size(); ++h)
        CHECK((*heads)[h].strategy == (*alone.options[n]->heads)[h].strategy);
      CHECK(heads != alone.options[n]->heads.get());
      if (m.func(name).getName() == "train")
        ofTrain.insert(heads);
      else
        ++(ofTrain.count(heads) ? shared : own);
    }
    REQUIRE(with.wide.edges.size() == alone.wide.edges.size());
    for (size_t e = 0; e < with.wide.edges.size(); ++e)
      CHECK(with.wide.edges[e].table->costs == alone.wide.edges[e].table->costs);
  }
  CHECK(shared == 2); // the products of the evaluation
  CHECK(own == 0);
}

/// Two statements of one problem.
static void checkEqual(const BuiltGraph &one, const BuiltGraph &other) {
  REQUIRE(other.wide.nodes.size() == one.wide.nodes.size());
  for (size_t n = 0; n < one.wide.nodes.size(); ++n) {
    INFO(one.wide.nodes[n].name);
    CHECK(*other.wide.nodes[n].costs == *one.wide.nodes[n].costs);
    REQUIRE(other.options[n]->size() == one.options[n]->size());
    for (size_t k = 0; k < one.options[n]->size(); ++k) {
      const GroupOption &a = (*one.options[n])[k], &b = (*other.options[n])[k];
      CHECK(b.tail->handed == a.tail->handed);
      CHECK(b.parts().compute == a.parts().compute);
      CHECK(b.parts().least == a.parts().least);
      CHECK(b.growing() == a.growing());
      for (size_t member = 0; member < one.groups.list[n].ops.size(); ++member) {
        CHECK(b.strategy(member) == a.strategy(member));
        CHECK(b.transient(member) == a.transient(member));
      }
    }
  }
  REQUIRE(other.wide.edges.size() == one.wide.edges.size());
  for (size_t e = 0; e < one.wide.edges.size(); ++e) {
    const WideEdge &a = one.wide.edges[e], &b = other.wide.edges[e];
    CHECK(std::pair(b.from, b.to) == std::pair(a.from, a.to));
    CHECK(*b.fromState == *a.fromState);
    CHECK(*b.toState == *a.toState);
    CHECK(b.table->costs == a.table->costs);
    CHECK(b.table->least == a.table->least);
    CHECK(b.table->compute == a.table->compute);
  }
  REQUIRE(other.wide.shares.size() == one.wide.shares.size());
  for (size_t s = 0; s < one.wide.shares.size(); ++s) {
    CHECK(other.wide.shares[s].edges == one.wide.shares[s].edges);
    CHECK(other.wide.shares[s].copies->wants == one.wide.shares[s].copies->wants);
    CHECK(other.wide.shares[s].copies->prices.costs == one.wide.shares[s].copies->prices.costs);
  }
}

TEST_CASE("several threads state the problem that one thread states") {
  Module m(kMlp);
  const FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("train"))));
  auto state = [&](int threads) {
    const CostModel model(llvm::cantFail(Mesh::parse("a=2,b=2,c=2")), llvm::cantFail(Topology::load("cpu")));
    return buildGraph(plan, model, nullptr, {}, /*memoryLimit=*/1, nullptr, /*parts=*/true, Groups::Whole, {}, threads);
  };
  const BuiltGraph one = state(1), four = state(4);
  CHECK(one.wide.edges.size() > 5);
  checkEqual(one, four);
}

TEST_CASE("options that are kept are those that are made anew") {
  Module m(kMlp);
  const CostModel model(llvm::cantFail(Mesh::parse("a=2,b=2,c=2")), llvm::cantFail(Topology::load("8xh100")));
  Sharding cut = Sharding::replicated(2);
  cut.dims[0].push_back(0);
  const SharedShardings whole, cuts = {{"w1", cut}, {"w2", cut}};
  KnownOptions known;
  known.keepsOptions = true;
  auto state = [&](const char *name, const SharedShardings &shared, Groups groups, bool parts) {
    const FunctionAssignment function(llvm::cantFail(Program::analyse(m.func(name))));
    BuiltGraph with = buildGraph(function, model, nullptr, shared, 1, &known, parts, groups);
    checkEqual(buildGraph(function, model, nullptr, shared, 1, nullptr, parts, groups), with);
    return with;
  };
  // Programs of other groups and costs must not get what was kept for these.
  for (Groups groups : {Groups::Whole, Groups::Split})
    for (bool parts : {false, true})
      for (const char *name : {"train", "eval"}) {
        const BuiltGraph one = state(name, whole, groups, parts), two = state(name, cuts, groups, parts);
        size_t kept = 0;
        for (size_t n = 0; n < one.options.size(); ++n)
          kept += one.options[n] == two.options[n];
        CHECK(kept == one.options.size() - 2); // but for the parameters
      }
}

TEST_CASE("functions that are searched at once get the strategies that they get one after the other") {
  std::string text = kMlp;
  std::string infer = text.substr(text.find("func.func @eval"));
  infer.replace(infer.find("@eval"), 5, "@infer");
  text += infer;
  Module one(text), two(text);
  AssignOptions options = optionsFor("a=2,b=2,c=2", "auto");
  AssignReport alone, together;
  options.exactThreads = 1;
  REQUIRE(assign(one, options, &alone) == "");
  options.exactThreads = 2;
  REQUIRE(assign(two, options, &together) == "");
  REQUIRE(alone.functions.size() == 3);
  REQUIRE(together.functions.size() == 3);
  for (size_t f = 0; f < 3; ++f) {
    INFO(alone.functions[f].name);
    CHECK(together.functions[f].name == alone.functions[f].name);
    CHECK(together.functions[f].total() == alone.functions[f].total());
    CHECK(together.functions[f].search.cost == alone.functions[f].search.cost);
    CHECK(together.functions[f].search.lowerBound == alone.functions[f].search.lowerBound);
  }
  for (const char *name : {"eval", "infer"})
    for (unsigned a = 0; a < 3; ++a)
      CHECK(two.arg(name, a) == one.arg(name, a));
}

TEST_CASE("mode auto is no worse than the other modes, and says how good it is") {
  for (const char *mesh : {"data=2", "data=2,model=2", "a=2,b=2,c=2"}) {
    INFO(mesh);
    Module a(kMlp), d(kMlp);
    AssignReport ra, rd;
    REQUIRE(assign(a, optionsFor(mesh, "auto"), &ra) == "");
    REQUIRE(assign(d, optionsFor(mesh, "data"), &rd) == "");
    CHECK(ra.find("train")->total() <= rd.find("train")->total());
    const SearchReport &search = ra.find("train")->search;
    CHECK(search.optimal);
    CHECK(search.gap() == 0);
    // Parameters of inference lie as training left them.
    CHECK(a.arg("eval", 1) == a.arg("train", 2));
    CHECK(a.arg("eval", 2) == a.arg("train", 3));
    // An update lies as what it updates.
    for (unsigned p : {2u, 3u, 4u})
      CHECK(a.result("train", p - 1) == a.arg("train", p));
  }
}

TEST_CASE("what mode auto chose is explained") {
  Module m(kMlp);
  AssignOptions options = optionsFor("data=2,model=2", "auto");
  options.explain = true;
  AssignReport report;
  REQUIRE(assign(m, options, &report) == "");
  for (const FunctionReport &f : report.functions)
    CHECK_FALSE(f.search.alternatives.empty());
}

TEST_CASE("the user's strategies are kept in mode auto") {
  Module m(kMlp);
  REQUIRE(assign(m, optionsFor("data=2,model=2", "auto", R"([
      {"op": "fc1", "in": [[null, "model"], ["model", null]]},
      {"op": "fc2", "in": [["model", null], [null, "data"]]}])")) == "");
  CHECK(m.strategy("train", "fc1").rfind("k=model", 0) == 0);
  CHECK(m.strategy("train", "fc2") == "m=model, n=data");
  // Parameters lie as training has them, and fc2 takes w2 so.
  CHECK(m.arg("eval", 2) == m.arg("train", 3));
  CHECK(m.strategy("eval", "fc2").rfind("m=model", 0) == 0);
}

TEST_CASE("the graph and the annotated module give a choice the same price") {
  // Without launch costs and with values so small that kernels cost nothing beside communication, the graph's
  // cost of a choice and the module's communication are the same sum.
  Topology slow = llvm::cantFail(Topology::parse(R"({"devices": 4, "flops": {"f32": 1e18},
    "memory_bandwidth": 1e18, "memory": "1GiB", "links": [{"devices": 4, "latency": 1e-6, "bandwidth": 1e6}]})",
                                                 "slow"));
  AssignOptions options = optionsFor("data=2,model=2", "auto");
  options.topology = slow;
  Module m(kMlp);
  AssignReport report;
  REQUIRE(assign(m, options, &report) == "");
  const FunctionReport *train = report.find("train");
  // Every kernel and slice rounds up to one nanosecond.
  Cost rounding = Cost(2 * train->operators.size());
  CHECK(train->search.cost <= train->communication + rounding);
  CHECK(train->search.cost + rounding >= train->communication);
}

TEST_CASE("the searcher of data parallelism assigns what mode data does") {
  for (const char *mesh : {"data=2", "data=2,model=2"}) {
    INFO(mesh);
    AssignOptions options = optionsFor(mesh, "auto");
    options.searcher = "data";
    Module searched(kMlp), data(kMlp);
    AssignReport s, d;
    REQUIRE(assign(searched, options, &s) == "");
    REQUIRE(assign(data, optionsFor(mesh, "data"), &d) == "");
    // Two axes give so many options that some are not listed. A sum is then reduced after its operator.
    for (const char *op : {"fc1", "relu", "relu.grad", "fc1.grad_w", "fc2.grad_w", "w1.update"}) {
      const std::string wanted = data.strategy("train", op), found = searched.strategy("train", op);
      INFO(op << ": " << found << " for " << wanted);
      CHECK((found == wanted || found + " -> [-, -]" == wanted));
    }
    for (unsigned a = 0; a < 5; ++a)
      CHECK(searched.arg("train", a) == data.arg("train", a));
    if (std::string(mesh) == "data=2")
      CHECK(s.find("train")->total() == d.find("train")->total());
    CHECK(s.find("train")->search.searcher == "data");
  }
}

TEST_CASE("mode auto keeps the memory limit") {
  Module m(kMlp);
  AssignOptions options = optionsFor("data=2,model=2", "auto");
  options.memoryLimit = 200;
  AssignReport failed;
  CHECK_THAT(assign(m, options, &failed), Catch::Contains("fits in 200 B per rank on mesh data=2,model=2") &&
                                              Catch::Contains("cut as finely as possible it needs") &&
                                              Catch::Contains("'fc1' 192 B"));
  CHECK(failed.doesNotFit);

  // A limit that replicated parameters and states exceed (960 bytes of them) is met by cutting them.
  Module n(kMlp);
  AssignReport report;
  options.memoryLimit = 1400;
  REQUIRE(assign(n, options, &report) == "");
  CHECK(report.find("train")->persistentBytes < 960);
}

TEST_CASE("equal input gives equal strategies") {
  std::string first;
  for (int i = 0; i < 3; ++i) {
    Module m(kMlp);
    REQUIRE(assign(m, optionsFor("data=2,model=2", "auto")) == "");
    std::string text = saveStrategies(*m.module);
    if (i)
      CHECK(text == first);
    first = text;
  }
}
