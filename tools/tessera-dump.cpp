//===- tessera-dump.cpp - what a plan does, for people and for scripts ---------------------------===//
//
//   tessera-dump plan/                      operators, ranks, totals
//   tessera-dump plan/ --explain /fc1/Gemm  one operator in full
//   tessera-dump plan/ --parameters         what is trained, what is state and what constant, and why
//   tessera-dump plan/ --schedule           what runs when: a rank's kernels and messages, or the stages of a pipeline
//   tessera-dump plan/ --json               everything, as JSON
//   tessera-dump plan/ --svg plan.svg       a picture on one screen
//   tessera-dump plan/ --html page.html     a page to look at, with what a run measured (--trace, --log)
//   tessera-dump plan/ other/               what differs between two plans, and what it costs (also --html, --json)
//
// Strategies and costs are what the compiler left in report.json; memory and communication are read from the
// ranks' plans, which are what runs. Exit codes: 1 for a failure, 2 for a wrong command line.
//
//===----------------------------------------------------------------------------------------------===//
#include "runtime/plan/PlanFile.h"
#include "runtime/support/CommandFiles.h"
#include "runtime/support/File.h"
#include "runtime/support/Printable.h"
#include "strategies/pipeline/PipelineIO.h"
#include "strategies/time/TaskGraphIO.h"
#include "tools/cli/CommandLine.h"
#include "tools/dump/CompareText.h"
#include "tools/dump/Picture.h"
#include "tools/dump/PlanFacts.h"
#include "tools/dump/PlanTasks.h"
#include "tools/dump/ReportFile.h"
#include "tools/dump/ScheduleText.h"
#include "tools/dump/TimeLine.h"
#include "tools/page/Compare.h"
#include "tools/page/PageData.h"

#include <cstdio>

using namespace tessera;

/// The page's data of the plan, and with another plan's name what differs between the two.
static rt::Result<Json> readPages(const std::string &folder, const Report &report, const PagePlans &plans,
                                  const RunFiles &files, const std::string &other) {
  rt::Result<Json> page = readPage(report, plans, files);
  if (!page || other.empty())
    return page;
  PagePlans otherPlans;
  TESSERA_RETURN_IF_ERROR(rt::visitPlanDirectory(other, [&](const plan::Plan &rank) { otherPlans.add(rank); }));
  rt::Result<Report> otherReport = readReport(other + "/report.json");
  if (!otherReport)
    return otherReport.status();
  rt::Result<Json> second = readPage(*otherReport, otherPlans, {});
  if (!second)
    return second;
  rt::Result<Json> compared = comparePages(*page, folder, *second, other);
  if (!compared)
    return compared;
  (*page)["compare"] = std::move(*compared);
  return page;
}

/// `form` is text, csv or json. `first` is rank 0's plan.
static rt::Result<std::string> scheduleIn(const std::string &form, const std::string &folder, const plan::Plan &first,
                                          PlannedSchedule &planned, const Json &report) {
  if (planned.stages.count() > 1 || form == "csv") {
    TESSERA_RETURN_IF_ERROR(planned.read(report));
    return form == "csv"    ? strategies::toCsv(planned.order)
           : form == "json" ? strategies::toJson(stageTasks(planned))
                            : scheduleText(planned);
  }
  constexpr int kProgram = 0; // the training step, where the plan has one
  const auto predicted = rt::Prediction::read(folder, first, kProgram);
  if (!predicted)
    return rt::Status::error("report.json does not say what the steps of the plan take: it is damaged, or an older "
                             "tessera-compile made it; compile the model again");
  return form == "json" ? strategies::toJson(planTasks(first, kProgram, *predicted))
                        : timeLineText(first, kProgram, *predicted, report);
}

int main(int argc, char **argv) {
  std::string plan, other, explain, svg, html, schedule;
  RunFiles measured;
  bool json = false, all = false, parameters = false;
  CLI::App app("Shows the strategies, costs, collectives and memory of a plan", "tessera-dump");
  app.add_option("PLAN", plan, "Plan directory, as tessera-compile writes it")->required();
  app.add_option("OTHER", other, "Another plan of the model: show what differs, and what it costs");
  auto *asJson = app.add_flag("--json", json, "Print everything as JSON, or what --explain or --parameters show");
  app.add_option("--explain", explain, "Everything about one operator and its gradients")->type_name("OP");
  auto *everything = app.add_flag("--all", all, "List every operator of every program")->excludes(asJson);
  app.add_option("--svg", svg, "Draw the plan on one screen: how operators are cut, and what one rank sends")
      ->type_name("FILE")
      ->excludes(asJson)
      ->excludes(everything)
      ->excludes("--explain");
  app.add_option("--html", html, "Write a page to look at: costs, layers, time, memory, communication; one file")
      ->type_name("FILE")
      ->excludes(asJson)
      ->excludes(everything)
      ->excludes("--explain")
      ->excludes("--svg");
  app.add_option("--trace", measured.trace, "With --html or --json: what tessera-run --trace measured of this plan")
      ->type_name("FILE");
  app.add_option("--log", measured.log, "With --html or --json: the log of tessera-run --log")->type_name("FILE");
  app.add_flag("--parameters", parameters,
               "List the model's tensors: what is trained, what is state and what constant, "
               "each with the reason")
      ->excludes(everything)
      ->excludes("--explain")
      ->excludes("--svg")
      ->excludes("--html");
  auto *ordered = app.add_option("--schedule", schedule,
                                 "What runs when, as predicted: a time line of a rank's kernels and messages, or of "
                                 "the stages of a pipeline with their order. json: the same as a task graph, which "
                                 "tessera-solve --schedule reads. csv: the order of the stages alone, as "
                                 "tessera-compile --pipeline schedule=FILE.csv reads it")
                      ->expected(0, 1)
                      ->check(CLI::IsMember({"text", "csv", "json"}))
                      ->type_name("text|csv|json")
                      ->excludes(asJson)
                      ->excludes(everything)
                      ->excludes("--explain")
                      ->excludes("--svg")
                      ->excludes("--html")
                      ->excludes("--parameters")
                      ->excludes("OTHER");
  app.footer("Examples:\n  tessera-dump plan\n  tessera-dump plan --explain /conv1/Conv\n"
             "  tessera-dump plan --svg plan.svg\n  tessera-dump plan --html page.html --trace trace.json\n  "
             "tessera-dump plan --json | python3 -m json.tool\n  tessera-dump plan other --html compared.html");
  if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
    return *exitCode;
  rt::endOnInterrupt("tessera-dump");
  auto fail = [](const std::string &what) {
    rt::yieldToInterrupt();
    rt::printError("tessera-dump: error: " + what);
    return 1;
  };
  rt::CommandFiles files;
  for (const std::string &folder : {plan, other})
    for (const std::string &file : rt::planFiles(folder))
      files.reads(file);
  for (const std::string &file : {measured.trace, measured.log})
    files.reads(file);
  files.writes("--svg", svg);
  files.writes("--html", html);
  if (rt::Status status = files.check(); !status)
    return fail(status.message());
  const bool page = (json && explain.empty() && !parameters) || !html.empty();
  if (!page && !(measured.trace.empty() && measured.log.empty())) {
    rt::printError("tessera-dump: error: --trace and --log need --html or --json");
    return 2;
  }
  if (!other.empty() && (all || parameters || !explain.empty() || !svg.empty())) {
    rt::printError("tessera-dump: error: two plans are compared as text, with --html or with --json");
    return 2;
  }
  PlanFacts facts;
  PagePlans plans;
  PlannedSchedule planned;
  plan::Plan first; // of rank 0
  const bool drawn = page || !other.empty();
  const rt::Status read = rt::visitPlanDirectory(plan, [&](const plan::Plan &rank) {
    facts.add(rank);
    planned.add(rank);
    if (*ordered && rank.rank() == 0)
      first = rank;
    if (drawn)
      plans.add(rank);
  });
  if (!read)
    return fail(read.message());
  rt::Result<Report> report = readReport(plan + "/report.json");
  if (!report)
    return fail(report.status().message());
  if (!svg.empty()) {
    const rt::Status written = rt::writeFile(svg, toSvg(*report));
    return written ? 0 : fail(written.message());
  }
  std::string text;
  if (*ordered) {
    rt::Result<std::string> ordering = scheduleIn(schedule, plan, first, planned, report->json);
    if (!ordering)
      return fail(ordering.status().message());
    text = *ordering;
  } else if (drawn) {
    rt::Result<Json> data = readPages(plan, *report, plans, measured, other);
    if (!data)
      return fail(data.status().message());
    if (!html.empty()) {
      const rt::Status written = rt::writeFile(html, toHtml(*data));
      return written ? 0 : fail(written.message());
    }
    text = json ? toJson(facts, *report, std::move(*data)) : compareText((*data)["compare"]);
  } else if (!explain.empty()) {
    rt::Result<std::string> explained = json ? explainAsJson(*report, explain) : explainOperator(*report, explain);
    if (!explained)
      return fail(explained.status().message());
    text = *explained;
  } else if (parameters) {
    text = json ? parametersAsJson(*report) : parameterText(*report);
  } else {
    text = toText(*report, all) + toText(facts, all);
  }
  std::fputs(text.c_str(), stdout);
  const std::string unwritten = finishOutput();
  return unwritten.empty() ? 0 : fail(unwritten);
}
