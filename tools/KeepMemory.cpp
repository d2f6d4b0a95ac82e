// A program that allocates many small things and ends soon (tessera_allocate_fast) gives memory back when it ends. In
// between what one step has freed is what the next one takes: given back, it would be asked for again, page by page.
#include <mimalloc.h>

namespace {

[[maybe_unused]] const bool kKept = [] {
#if MI_MALLOC_VERSION < 210
  mi_option_disable(mi_option_allow_decommit);
#else
  mi_option_set(mi_option_purge_delay, -1);
#endif
  return true;
}();

} // namespace
