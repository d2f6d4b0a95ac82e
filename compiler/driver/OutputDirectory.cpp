#include "compiler/driver/OutputDirectory.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

namespace fs = llvm::sys::fs;

namespace tessera {

static llvm::Error failed(const std::string &path, const std::string &what) {
  return llvm::createStringError("%s: %s", path.c_str(), what.c_str());
}

llvm::Error writeFile(const std::string &path, llvm::StringRef text) {
  std::string temporary = path + ".tmp" + std::to_string(llvm::sys::Process::getProcessId());
  std::error_code error;
  {
    llvm::raw_fd_ostream out(temporary, error);
    if (error)
      return failed(temporary, error.message());
    out << text;
    out.close();
    error = out.error();
    out.clear_error();
  }
  if (!error)
    error = fs::rename(temporary, path);
  if (error) {
    (void)fs::remove(temporary);
    return failed(path, error.message());
  }
  return llvm::Error::success();
}

OutputDirectory::OutputDirectory(std::string target) : target_(std::move(target)) {
  while (target_.size() > 1 && target_.back() == '/')
    target_.pop_back();
}

OutputDirectory::~OutputDirectory() {
  if (!temporary_.empty())
    (void)fs::remove_directories(temporary_);
}

llvm::Error OutputDirectory::begin() {
  if (target_.empty())
    return llvm::createStringError("the output directory has no name");
  if (fs::exists(target_)) {
    if (!fs::is_directory(target_))
      return failed(target_, "exists and is no directory; choose another -o");
    std::error_code error;
    bool empty = fs::directory_iterator(target_, error) == fs::directory_iterator();
    if (error)
      return failed(target_, error.message());
    // Only what this program made before may be replaced.
    if (!empty && !fs::exists(target_ + "/rank0.plan"))
      return failed(target_, "exists and is no plan; choose another -o or remove it");
  }
  std::string parent = llvm::sys::path::parent_path(target_).str();
  if (!parent.empty())
    if (std::error_code error = fs::create_directories(parent))
      return failed(parent, error.message());
  std::string temporary = target_ + ".tmp" + std::to_string(llvm::sys::Process::getProcessId());
  if (std::error_code error = fs::create_directory(temporary, /*IgnoreExisting=*/false))
    return failed(temporary, error.message());
  temporary_ = std::move(temporary);
  return llvm::Error::success();
}

llvm::Error OutputDirectory::commit() {
  std::string old;
  if (fs::exists(target_)) {
    old = target_ + ".old" + std::to_string(llvm::sys::Process::getProcessId());
    if (std::error_code error = fs::rename(target_, old))
      return failed(target_, error.message());
  }
  if (std::error_code error = fs::rename(temporary_, target_)) {
    if (!old.empty())
      (void)fs::rename(old, target_); // as it was
    return failed(target_, error.message());
  }
  temporary_.clear();
  if (!old.empty())
    (void)fs::remove_directories(old);
  return llvm::Error::success();
}

} // namespace tessera
