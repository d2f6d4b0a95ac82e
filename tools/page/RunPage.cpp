#include "tools/page/RunPage.h"

#include "runtime/support/File.h"

#include <cstdlib>
#include <filesystem>

namespace tessera {

namespace fs = std::filesystem;

RunPage::RunPage(std::string html, const RunFiles &asked) : html_(std::move(html)), files_(asked) {
  if (html_.empty())
    return;
  if (ownTrace_ = files_.trace.empty(); ownTrace_)
    files_.trace = html_ + ".trace";
  if (ownLog_ = files_.log.empty(); ownLog_)
    files_.log = html_ + ".log";
}

RunPage::~RunPage() {
  if (began_)
    removeOwn();
}

void RunPage::removeOwn() const {
  std::error_code error;
  if (ownTrace_)
    fs::remove(files_.trace, error);
  if (ownLog_)
    fs::remove(files_.log, error);
}

rt::Status RunPage::begin(const std::string &plan) {
  if (html_.empty())
    return rt::Status();
  if (rt::Result<Report> report = readReport(plan + "/report.json"); !report)
    return report.status().context("--html");
  TESSERA_RETURN_IF_ERROR(rt::checkWritable(html_).context("--html"));
  removeOwn();
  began_ = true;
  return rt::Status();
}

rt::Status RunPage::write(const std::string &plan) {
  if (html_.empty())
    return rt::Status();
  // An interrupted run may have come to no step.
  auto filled = [](const std::string &path) {
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    return error || bytes == 0 ? std::string() : path;
  };
  return writePage(plan, {filled(files_.trace), filled(files_.log), "this run"}, html_).context("--html");
}

} // namespace tessera
