#include "tools/page/ReadPage.h"

#include "runtime/plan/PlanFile.h"
#include "runtime/support/File.h"
#include "runtime/support/Nesting.h"
#include "tools/page/Measured.h"

#include <fstream>
#include <sstream>

namespace tessera {

static constexpr std::streamoff kMaxReport = std::streamoff(256) << 20;

rt::Result<Report> readReport(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    return rt::Status::error(path + ": cannot be read; was the plan made by tessera-compile?");
  if (file.tellg() > kMaxReport)
    return rt::Status::error(path + ": larger than 256 MiB");
  file.seekg(0);
  std::stringstream contents;
  contents << file.rdbuf();
  std::string bytes = contents.str();
  if (rt::nestsDeeper(bytes, 64)) // real reports nest at most a dozen deep
    return rt::Status::error(path + ": not a report (nested too deep)");
  Report report;
  report.json = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (report.json.is_discarded() || !report.json.is_object() || !report.json.contains("functions") ||
      !report.json["functions"].is_array())
    return rt::Status::error(path + ": not a report of tessera-compile");
  return report;
}

rt::Result<Json> readPage(const Report &report, const PagePlans &plans, const RunFiles &files) {
  Json measured = Json::object();
  if (!files.trace.empty()) {
    rt::Result<Json> read = readTrace(files.trace, plans.first.plan_id());
    if (!read)
      return read.status();
    measured["trace"] = std::move(*read);
    if (!files.called.empty())
      measured["trace"]["file"] = files.called;
  }
  if (!files.log.empty()) {
    rt::Result<Json> read = readLog(files.log);
    if (!read)
      return read.status();
    measured["log"] = std::move(*read);
    if (!files.called.empty())
      measured["log"]["file"] = files.called;
  }
  return pageData(report.json, plans, measured);
}

rt::Status writePage(const std::string &plan, const RunFiles &files, const std::string &html) {
  PagePlans plans;
  TESSERA_RETURN_IF_ERROR(rt::visitPlanDirectory(plan, [&](const plan::Plan &rank) { plans.add(rank); }));
  rt::Result<Report> report = readReport(plan + "/report.json");
  if (!report)
    return report.status();
  rt::Result<Json> page = readPage(*report, plans, files);
  return page ? rt::writeFile(html, toHtml(*page)) : page.status();
}

} // namespace tessera
