//===- PageData.h - everything that the page shows, as one JSON object ---------------------------------===//
//
// `tessera-dump --json` prints it under "page", and the page holds it. docs/page.md says what is in it. It is compact:
// operators that differ in nothing but names share a class.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_PAGEDATA_H
#define TESSERA_TOOLS_PAGE_PAGEDATA_H

#include "tools/dump/ReportFields.h"
#include "tools/page/Traffic.h"

namespace tessera {

/// What the page shows of the plans of a folder.
struct PagePlans {
  plan::Plan first;                 // rank 0's
  uint64_t mostArena = 0;           // bytes, of the rank that needs most
  std::vector<RankTraffic> traffic; // by rank
  /// Takes the next rank's plan.
  void add(const plan::Plan &plan);
};

/// `measured` has "trace" and "log" (Measured.h) where they were given.
Json pageData(const Json &report, const PagePlans &plans, const Json &measured);

/// The page: one HTML file that needs nothing else.
std::string toHtml(const Json &page);

} // namespace tessera

#endif
