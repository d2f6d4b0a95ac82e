//===- RunPage.h - the page that a run writes at its end ----------------------------------------------===//
//
//   RunPage page("page.html", {"", "run.jsonl"});      // no trace is asked for: page.trace() is "page.html.trace"
//   Status status = page.begin("plan");                // before the run: errors show now
//   ...                                                // the run writes page.trace() and page.log()
//   status = page.write("plan");
//
// Files that nobody asked for are removed in the end.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_RUNPAGE_H
#define TESSERA_TOOLS_PAGE_RUNPAGE_H

#include "runtime/support/Status.h"
#include "tools/page/ReadPage.h"

namespace tessera {

class RunPage {
public:
  /// Without a name there is no page, and only the files that are asked for.
  RunPage(std::string html, const RunFiles &asked);
  ~RunPage();
  RunPage(const RunPage &) = delete;
  RunPage &operator=(const RunPage &) = delete;

  const std::string &trace() const { return files_.trace; }
  const std::string &log() const { return files_.log; }

  /// Called by the rank that writes. Checks that the plan has a report, and removes what a killed run left.
  rt::Status begin(const std::string &plan);
  /// Writes the page, with what the run has measured.
  rt::Status write(const std::string &plan);

private:
  void removeOwn() const;

  const std::string html_;
  RunFiles files_;
  bool ownTrace_ = false, ownLog_ = false, began_ = false;
};

} // namespace tessera

#endif
