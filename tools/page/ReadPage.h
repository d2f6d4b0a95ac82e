//===- ReadPage.h - from a plan's folder to its page --------------------------------------------------===//
//
//   rt::Status status = writePage("plan", {"trace.json", "run.jsonl"}, "page.html");
//
// report.json may be damaged. Every field is read with a default, so that a damaged report gives odd output but no
// crash. Only a file that is no report at all is an error.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_READPAGE_H
#define TESSERA_TOOLS_PAGE_READPAGE_H

#include "runtime/support/Status.h"
#include "tools/page/PageData.h"

namespace tessera {

struct Report {
  Json json; // an object with a list "functions"
};

rt::Result<Report> readReport(const std::string &path);

/// What a run of the plan left: the files of tessera-run --trace and --log; empty: none.
struct RunFiles {
  std::string trace, log;
  std::string called = {}; // what the page calls them; empty: by their names
};

/// Everything about the plan as one object (PageData.h), with what was measured.
rt::Result<Json> readPage(const Report &report, const PagePlans &plans, const RunFiles &files);

/// Writes the page of a plan's folder. The file appears whole or not at all.
rt::Status writePage(const std::string &plan, const RunFiles &files, const std::string &html);

} // namespace tessera

#endif
