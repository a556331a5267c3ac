// The compiled OpenCL programs of one device: built when they are first asked for, from the sources
// inside this program or from the binaries of an earlier run. The first one that is compiled is
// told to the log, because it takes long. Any thread may call. Owns the programs.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "backend/xpu/opencl.h"
#include "backend/xpu/probe.h"
#include "backend/xpu/programs/binary_cache.h"

namespace sluice::xpu {

class Programs {
 public:
  // REQUIRES: `context` outlives this.
  Programs(cl_context context, const FoundDevice& device, std::string cache_folder);
  ~Programs();
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  // The program of the source `name` (ClSources) with these -D options. kDevice: the driver refuses
  // it; the message names the file that holds what its compiler said.
  Result<cl_program> Get(std::string_view name, std::string_view options);

  struct Counts {
    int compiled = 0, loaded = 0;
  };
  Counts counts() const;

 private:
  Result<cl_program> Make(std::string_view name, std::string_view options);
  // Null where the driver refuses the binary, which may be of another version after all.
  cl_program FromBinary(const std::vector<unsigned char>& binary);
  Result<cl_program> Compile(std::string_view name, std::string_view text, const std::string& key,
                             const std::string& options);
  void Keep(cl_program program, const std::string& key);

  const cl_context context_;
  const cl_device_id device_;
  const std::string device_name_;
  const std::string identity_;  // device and driver
  const std::string base_options_;
  BinaryCache cache_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::string, cl_program, std::less<>> programs_;
  Counts counts_;
};

}  // namespace sluice::xpu
