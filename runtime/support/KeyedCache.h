//===- KeyedCache.h - files that are found by what they were made of -----------------------------------===//
//
// What takes long to make, such as compiled kernels, is kept in the user's cache folder under the whole text that it
// follows from. A file is only taken if that text stands in it and its contents are complete, so a wrong, old or torn
// file is the same as none.
//
//   std::string image = readCached("kernel", key);
//   if (image.empty())
//     writeCached("kernel", key, image = compile(source));
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_KEYEDCACHE_H
#define TESSERA_RUNTIME_SUPPORT_KEYEDCACHE_H

#include <string>

namespace tessera::rt {

/// TESSERA_CACHE_DIR, or else a folder as the system has it. It is made if it is not there; empty if that is not
/// possible.
std::string cacheFolder();

/// Empty: there is nothing. `kind` keeps keys of different things apart.
std::string readCached(const std::string &kind, const std::string &key);
/// Several threads and processes may write the same. What cannot be written is left out.
void writeCached(const std::string &kind, const std::string &key, const std::string &contents);

} // namespace tessera::rt

#endif
