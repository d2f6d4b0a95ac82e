//===- Folder.h - checkpoints of a run in a folder --------------------------------------------===//
//
//   run/step-00000030/manifest.json ...     a checkpoint, whole
//   run/.step-00000060.partial/ ...         one that is being written, or was when its run ended
//
// A checkpoint gets its name by one rename after everything in it is on disk. It loses its name by one rename before
// anything in it is removed. So a folder with such a name is always complete.
//
//   Result<std::string> partial = beginCheckpoint("run", 60);   // the folder to write into
//   ...
//   TESSERA_RETURN_IF_ERROR(commitCheckpoint("run", manifest, /*keep=*/3));
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_CHECKPOINT_FOLDER_H
#define TESSERA_RUNTIME_CHECKPOINT_FOLDER_H

#include "runtime/checkpoint/Manifest.h"

namespace tessera::rt {

constexpr const char *kManifestName = "manifest.json";

std::string checkpointPath(const std::string &folder, int64_t step); // "run/step-00000030"
std::string partialPath(const std::string &folder, int64_t step);

/// The steps of the checkpoints in a folder, ascending; none if there is no such folder.
std::vector<int64_t> listCheckpoints(const std::string &folder);
/// `path` itself if it is a checkpoint, else the latest checkpoint in it.
Result<std::string> findCheckpoint(const std::string &path);

/// The files of the checkpoint that findCheckpoint(path) finds; none if it finds none.
std::vector<std::string> checkpointFiles(const std::string &path);

/// Removes what earlier runs left half-written, and makes the folder for a new checkpoint.
Result<std::string> beginCheckpoint(const std::string &folder, int64_t step);
/// Writes the manifest, gives the checkpoint its name, and removes all but the last `keep` checkpoints. 0 keeps all.
Status commitCheckpoint(const std::string &folder, const Manifest &manifest, int64_t keep);

/// The same for a checkpoint of any name: makes the folder to write into, gives it its name, or removes it after a
/// failure.
Result<std::string> beginFolder(const std::string &path);
Status commitFolder(const std::string &partial, const std::string &path, const Manifest &manifest);
void dropFolder(const std::string &partial);

} // namespace tessera::rt

#endif
