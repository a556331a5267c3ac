// The kernels of one device, loaded from the program's modules when first used. Thread-safe.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"

namespace sluice::cuda {

struct Kernel {
  std::string name;  // "<module>/<function>", for messages
  CUkernel handle = nullptr;
  std::vector<size_t> param_bytes;
  int static_shared_bytes = 0;
  int dynamic_shared_bytes = 0;  // opted in to
};

// Of what a multiprocessor has for shared memory and the first-level cache, the share in percent
// with which two thread blocks of so much shared memory fit, and 64 KiB at least, so that the cache
// has the rest.
unsigned SharedPercent(unsigned block_bytes, unsigned unit_bytes);

class Kernels {
 public:
  // REQUIRES: the driver knows `device`.
  explicit Kernels(CUdevice device);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // The kernel, which lives as long as this and may use `shared_bytes` of dynamic shared memory.
  // kInternal when this program has no such module or function or it takes other parameters;
  // kDevice when the device refuses. REQUIRES: the device's context is current.
  Result<const Kernel*> Find(std::string_view module, std::string_view function,
                             std::span<const size_t> param_bytes, unsigned shared_bytes);
  // Whether kernels may be launched to start while the one before still runs, in which each waits
  // for its inputs by itself.
  bool starts_early() const { return starts_early_; }
  // The most that a multiprocessor has for shared memory; 0 where that is unknown.
  unsigned unit_shared_bytes() const { return unit_shared_bytes_; }

 private:
  struct Loaded {
    CUlibrary code = nullptr;
    std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
  };
  Result<Loaded*> Load(std::string_view module);
  Result<Kernel*> Make(Loaded& loaded, std::string_view module, std::string_view function);
  Status OptIn(Kernel& kernel, unsigned shared_bytes);

  const CUdevice device_;
  bool starts_early_ = false;
  unsigned unit_shared_bytes_ = 0;
  std::mutex mutex_;
  std::map<std::string, Loaded, std::less<>> modules_;  // guarded by mutex_
};

// Kernels that one stream has launched, which its next launches find without a lock. One thread.
class KnownKernels {
 public:
  // Null: it was not launched before with these parameters and so much dynamic shared memory, or
  // another one took its place since.
  const Kernel* Find(std::string_view module, std::string_view function,
                     std::span<const size_t> param_bytes, unsigned shared_bytes) const;
  // `kernel` is that of the module and the function and may use `shared_bytes`.
  void Add(std::string_view module, std::string_view function, unsigned shared_bytes,
           const Kernel* kernel);

 private:
  // By where the function's name lies: most names are constants of the program. Those that are not
  // may lie where another one did, so a name is compared before it counts.
  static constexpr size_t kPlaces = 256;
  static size_t PlaceOf(std::string_view function);
  struct Entry {
    const Kernel* kernel = nullptr;
    size_t module_bytes = 0;  // of the kernel's name, before the slash
    unsigned shared_bytes = 0;
  };
  std::array<Entry, kPlaces> entries_;
};

}  // namespace sluice::cuda
