// Runs a fuzz target without libFuzzer: see Fuzz.h.
#include "test/fuzz/Fuzz.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace tessera::fuzz;

namespace {

std::string current; // the input that is running, for the handler

/// Leaves the input behind, as libFuzzer does.
extern "C" void onCrash(int signal) {
  const char note[] = "fuzz: crashed or hung; the input is in the file crash-input\n";
  std::signal(signal, SIG_DFL);
  // Async-signal-safe calls only: the heap may be what is broken.
  int fd = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  [[maybe_unused]] ssize_t n = write(fd, current.data(), current.size());
  n = write(STDERR_FILENO, note, sizeof note - 1);
  std::raise(signal);
}

void run(const std::string &input) {
  current = input;
  alarm(20); // a hang is a finding
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(input.data()), input.size());
  alarm(0);
}

} // namespace

int main(int argc, char **argv) {
  long runs = 10000;
  uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--runs") && i + 1 < argc) {
      runs = std::atol(argv[++i]);
    } else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::ifstream file(argv[i], std::ios::binary);
      std::stringstream contents;
      contents << file.rdbuf();
      run(contents.str());
      runs = 0;
    }
  }
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    std::signal(signal, onCrash);
  std::vector<std::string> corpus = seeds();
  for (const std::string &input : corpus)
    run(input);
  Random random(seed);
  for (long i = 0; i < runs; ++i) {
    std::string input = corpus[random() % corpus.size()];
    // Mostly one change, so that most checks are reached; sometimes many.
    for (uint64_t changes = 1 + random() % (random() % 4 ? 2 : 12); changes > 0; --changes)
      mutate(input, random);
    run(input);
  }
  std::printf("%ld runs\n", runs);
  return 0;
}
