//===- Folder.h - checkpoints of a run in a folder --------------------------------------------===//
//
//   run/step-00000030/manifest.json ...     a checkpoint, whole
//   run/.step-00000060.partial/ ...         one that is being written, or was when its run ended
//
// A checkpoint appears by one rename after everything in it is on disk, and vanishes by one rename
// before anything in it is removed: what has its name is whole.
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
/// `path` itself if it is a checkpoint, else the latest in it.
Result<std::string> findCheckpoint(const std::string &path);

/// The files of the checkpoint that `path` stands for; none where it stands for none.
std::vector<std::string> checkpointFiles(const std::string &path);

/// Removes what earlier runs left half-written, and makes the folder of a new one.
Result<std::string> beginCheckpoint(const std::string &folder, int64_t step);
/// Writes the manifest, gives the checkpoint its name, and removes all but the last `keep` (0: none).
Status commitCheckpoint(const std::string &folder, const Manifest &manifest, int64_t keep);

/// The same for a checkpoint of any name: the folder to write into, and its end, or that of one that failed.
Result<std::string> beginFolder(const std::string &path);
Status commitFolder(const std::string &partial, const std::string &path, const Manifest &manifest);
void dropFolder(const std::string &partial);

} // namespace tessera::rt

#endif
