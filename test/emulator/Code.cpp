// Generated kernels, compiled by the host's compiler and run thread by thread on fibers.
#include "test/emulator/Emulator.h"

#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <mutex>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <utility>

struct TesseraCode {
  void *library = nullptr;
  void *function = nullptr;
  unsigned *indices = nullptr; // blockIdx, threadIdx, blockDim, gridDim: x y z each
  void (**sync)() = nullptr;
  bool syncs = false;
  std::mutex mutex; // __shared__ is static
};

namespace tessera::emulator {
namespace {

const char *const kShim = R"shim(
#include <math.h>
#include <string.h>
struct TesseraDim { unsigned x, y, z; };
extern "C" { TesseraDim tessera_indices[4]; void (*tessera_sync)(); }
#define blockIdx tessera_indices[0]
#define threadIdx tessera_indices[1]
#define blockDim tessera_indices[2]
#define gridDim tessera_indices[3]
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define __syncthreads() tessera_sync()
#define __threadfence()
static inline unsigned atomicAdd(unsigned *to, unsigned more) { unsigned before = *to; *to += more; return before; }
template <typename T> static inline T __shfl_xor_sync(unsigned, T mine, int lanes) {
  static T held[1024];
  held[threadIdx.x] = mine;
  tessera_sync();
  const T other = held[threadIdx.x ^ lanes];
  tessera_sync();
  return other;
}
static inline int __syncthreads_or(int mine) {
  static int any;
  tessera_sync();
  any = 0;
  tessera_sync();
  any |= mine != 0;
  tessera_sync();
  return any;
}
static inline float __uint_as_float(unsigned x) { float f; memcpy(&f, &x, 4); return f; }
static inline unsigned __float_as_uint(float f) { unsigned x; memcpy(&x, &f, 4); return x; }
static inline double __longlong_as_double(long long x) { double f; memcpy(&f, &x, 8); return f; }
// mma.m16n8k16 of bfloat16, as the PTX ISA lays out the fragments of a warp's threads.
static inline void mma_m16n8k16_bf16(float *d, const unsigned (&a)[4], const unsigned (&b)[2]) {
  static unsigned heldA[1024][4], heldB[1024][2];
  const unsigned t = threadIdx.x, warp = t / 32 * 32, g = t % 32 / 4, q = t % 4;
  for (int i = 0; i < 4; ++i)
    heldA[t][i] = a[i];
  for (int i = 0; i < 2; ++i)
    heldB[t][i] = b[i];
  tessera_sync();
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned half = k % 2 * 16, column = 2 * q + i % 2;
      const unsigned x = heldA[warp + g * 4 + k % 8 / 2][i / 2 + k / 8 * 2], y = heldB[warp + column * 4 + k % 8 / 2][k / 8];
      d[i] += __uint_as_float(x >> half << 16) * __uint_as_float(y >> half << 16);
    }
  tessera_sync();
}
)shim";

/// A kernel's arguments have 4 KiB. Most have few, which are passed to every thread in less time.
constexpr size_t kMostArguments = 512, kFewArguments = 32;

/// The folder of this process's sources and libraries. Each file is removed after it was read.
struct Folder {
  std::string path;
  const pid_t owner = getpid(); // forks must not remove it

  Folder() {
    const char *where = std::getenv("TMPDIR");
    std::string name = std::string(where && *where ? where : "/tmp") + "/tessera-emulator-XXXXXX";
    path = mkdtemp(name.data()) ? name : ".";
  }
  ~Folder() {
    if (owner == getpid() && path != ".")
      rmdir(path.c_str());
  }
};

std::string freshName() {
  static const Folder folder;
  static std::atomic<unsigned> counter{0};
  return folder.path + "/" + std::to_string(counter++);
}

int32_t compile(const char *source, int32_t, int32_t, void **image, size_t *bytes, TesseraMessage *m) {
  const std::string base = freshName();
  std::ofstream(base + ".cpp") << kShim << source;
  // Most kernels take longer to compile than to run; those with barriers are loops over tiles, and in those whose text is
  // that of a file a thread sums.
  // The math.h of C is parsed three times as fast as that of C++, and the libraries that the code
  // needs are in this process.
  const bool syncs = std::strstr(source, "__syncthreads") || std::strstr(source, "__shfl");
  const std::string command = std::string("g++ -std=c++17 ") + (syncs || std::strstr(source, "#line") ? "-O1" : "-O0") +
                              " -w -fPIC -shared -nostdinc++ -nostdlib -ffp-contract=off -o " + base + ".so " + base +
                              ".cpp 2> " + base + ".log";
  if (std::system(command.c_str()) != 0) {
    std::stringstream log;
    log << std::ifstream(base + ".log").rdbuf();
    return fail(m, "compiling a kernel failed: " + log.str().substr(0, 700));
  }
  std::ifstream file(base + ".so", std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // The mark tells loadCode whether threads of a block wait for each other.
  all += syncs ? 'S' : 'N';
  *bytes = all.size();
  *image = std::malloc(all.size());
  std::memcpy(*image, all.data(), all.size());
  for (const char *suffix : {".cpp", ".so", ".log"})
    std::remove((base + suffix).c_str());
  return TESSERA_OK;
}

void freeImage(void *image) { std::free(image); }
const char *compilerText(void) { return "g++, options 4"; }

int32_t loadCode(TesseraDevice *, const void *image, size_t bytes, const char *function, TesseraCode **code,
                 TesseraMessage *m) {
  const std::string path = freshName() + ".so";
  const char *data = static_cast<const char *>(image);
  std::ofstream(path, std::ios::binary).write(data, static_cast<std::streamsize>(bytes - 1));
  auto made = std::make_unique<TesseraCode>();
  made->syncs = data[bytes - 1] == 'S';
  made->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::remove(path.c_str());
  if (!made->library)
    return fail(m, std::string("loading a kernel failed: ") + dlerror());
  made->function = dlsym(made->library, function);
  made->indices = static_cast<unsigned *>(dlsym(made->library, "tessera_indices"));
  made->sync = reinterpret_cast<void (**)()>(dlsym(made->library, "tessera_sync"));
  if (!made->function)
    return fail(m, std::string("there is no function ") + function);
  *code = made.release();
  return TESSERA_OK;
}

void unloadCode(TesseraDevice *, TesseraCode *code) {
  dlclose(code->library);
  delete code;
}

/// Runs the threads of a block as fibers of one OS thread. The fibers live as long as this object.
class Fibers {
public:
  /// Runs body(t) for t in [0, n); false if some threads ended while others wait at a barrier.
  bool run(unsigned n, const std::function<void(unsigned)> &enter, const std::function<void()> &body) {
    while (fibers_.size() < n) {
      fibers_.push_back(std::make_unique<Fiber>());
      fibers_.back()->stack.resize(64 << 10);
    }
    body_ = &body;
    for (unsigned t = 0; t < n; ++t)
      fibers_[t]->finished = false;
    bool good = true;
    for (bool running = true; running;) {
      unsigned finished = 0;
      for (unsigned t = 0; t < n; ++t) {
        if (!fibers_[t]->finished) {
          enter(t);
          resume(*fibers_[t]);
        }
        finished += fibers_[t]->finished;
      }
      running = finished < n;
      good &= finished == 0 || finished == n;
    }
    return good;
  }

  static thread_local Fibers *current;
  void yield() {
    if (_setjmp(running_->here) == 0)
      _longjmp(scheduler_, 1);
  }

private:
  struct Fiber {
    std::vector<char> stack;
    ucontext_t context;
    jmp_buf here;
    bool started = false, finished = false;
  };

  static void start() {
    Fibers &self = *current;
    for (;;) { // one round per block
      (*self.body_)();
      self.running_->finished = true;
      self.yield();
    }
  }

  void resume(Fiber &fiber) {
    current = this;
    running_ = &fiber;
    if (_setjmp(scheduler_) != 0)
      return;
    if (fiber.started)
      _longjmp(fiber.here, 1);
    fiber.started = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, start, 0);
    setcontext(&fiber.context);
  }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  const std::function<void()> *body_ = nullptr;
  Fiber *running_ = nullptr;
  jmp_buf scheduler_;
};
thread_local Fibers *Fibers::current = nullptr;

void barrier() { Fibers::current->yield(); }

template <size_t> using Pointer = void *;
template <size_t... I> void invokeAll(void *function, void *const *p, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(Pointer<I>...)>(function)(p[I]...);
}
/// Calls a function of n pointers. More may be passed than it takes.
void invoke(void *function, const std::vector<void *> &p) {
  if (p.size() <= kFewArguments)
    invokeAll(function, p.data(), std::make_index_sequence<kFewArguments>());
  else
    invokeAll(function, p.data(), std::make_index_sequence<kMostArguments>());
}

int32_t launch(TesseraDevice *d, int32_t stream, TesseraCode *code, const uint32_t grid[3], uint32_t block,
               void **arguments, uint32_t count, TesseraMessage *m) {
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[1] > 65535 || grid[2] > 65535 || grid[0] > INT32_MAX ||
      block == 0 || block > 1024)
    return fail(m, "launching a kernel failed: invalid grid or block");
  if (count > kMostArguments)
    return fail(m, "launching a kernel failed: too many arguments");
  std::vector<void *> values(count <= kFewArguments ? kFewArguments : kMostArguments, nullptr);
  for (uint32_t i = 0; i < count; ++i)
    values[i] = *static_cast<void **>(arguments[i]);
  const std::vector<uint32_t> size(grid, grid + 3);
  return enqueue(d,
                 {stream,
                  [=](TesseraMessage *why) -> int32_t {
                    if (toldToFail("slow") == d->ordinal)
                      std::this_thread::sleep_for(std::chrono::milliseconds(2));
                    std::lock_guard lock(code->mutex);
                    unsigned *i = code->indices;
                    i[6] = block, i[7] = i[8] = 1;
                    for (int a = 0; a < 3; ++a)
                      i[9 + a] = size[size_t(a)];
                    *code->sync = barrier;
                    i[4] = i[5] = 0;
                    static thread_local Fibers fibers;
                    const std::function<void()> body = [&] { invoke(code->function, values); };
                    for (uint32_t z = 0; z < size[2]; ++z)
                      for (uint32_t y = 0; y < size[1]; ++y)
                        for (uint32_t x = 0; x < size[0]; ++x) {
                          i[0] = x, i[1] = y, i[2] = z;
                          if (!code->syncs) {
                            for (uint32_t t = 0; t < block; ++t) {
                              i[3] = t;
                              body();
                            }
                          } else if (!fibers.run(
                                         block, [&](unsigned t) { i[3] = t; }, body)) {
                            return fail(why, "not all threads of a block reached a barrier");
                          }
                        }
                    return TESSERA_OK;
                  }},
                 m);
}

} // namespace

void addCode(TesseraDeviceApi &api) {
  api.compile = compile;
  api.freeImage = freeImage;
  api.compilerText = compilerText;
  api.loadCode = loadCode;
  api.unloadCode = unloadCode;
  api.launch = launch;
}

} // namespace tessera::emulator
