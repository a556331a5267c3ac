#include "backend/xpu/programs/programs.h"

#include "backend/xpu/programs/sources.h"
#include "base/check.h"
#include "base/log.h"
#include "base/str_cat.h"

namespace sluice::xpu {

const ClSource* FindClSource(std::string_view name) {
  for (const ClSource& source : ClSources()) {
    if (source.name == name) return &source;
  }
  return nullptr;
}

Programs::Programs(cl_context context, const FoundDevice& device, std::string cache_folder)
    : context_(context),
      device_(device.device),
      device_name_(device.facts.name),
      identity_(StrCat(device.facts.name, "\n", device.driver)),
      base_options_(StrCat("-cl-std=CL1.2",
                           device.exact_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "")),
      cache_(std::move(cache_folder)) {}

Programs::~Programs() {
  for (const auto& [key, program] : programs_) Cl().ReleaseProgram(program);
}

Programs::Counts Programs::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Result<cl_program> Programs::Get(std::string_view name, std::string_view options) {
  const std::string key = StrCat(name, " ", options);
  const std::lock_guard lock(mutex_);
  auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  SLUICE_ASSIGN_OR_RETURN(const cl_program program, Make(name, options));
  programs_.emplace(key, program);
  return program;
}

Result<cl_program> Programs::Make(std::string_view name, std::string_view options) {
  const ClSource* source = FindClSource(name);
  CHECK(source != nullptr, "no OpenCL source \"", name, "\"");
  const std::string all = StrCat(base_options_, " ", options);
  const std::string key = StrCat(identity_, "\n", all, "\n", source->text);
  if (const auto binary = cache_.Load(key)) {
    if (const cl_program program = FromBinary(*binary)) {
      ++counts_.loaded;
      return program;
    }
  }
  if (counts_.compiled++ == 0) {
    LogInfo("compiling kernels, which may take a minute, for ", device_name_,
            cache_.folder().empty() ? "" : StrCat(", kept in ", cache_.folder()));
  }
  return Compile(name, source->text, key, all);
}

cl_program Programs::FromBinary(const std::vector<unsigned char>& binary) {
  const unsigned char* data = binary.data();
  const size_t size = binary.size();
  cl_int accepted = CL_SUCCESS, error = CL_SUCCESS;
  const cl_program program =
      Cl().CreateProgramWithBinary(context_, 1, &device_, &size, &data, &accepted, &error);
  if (program == nullptr) return nullptr;
  if (error == CL_SUCCESS && accepted == CL_SUCCESS &&
      Cl().BuildProgram(program, 1, &device_, "", nullptr, nullptr) == CL_SUCCESS) {
    return program;
  }
  Cl().ReleaseProgram(program);
  return nullptr;
}

Result<cl_program> Programs::Compile(std::string_view name, std::string_view text,
                                     const std::string& key, const std::string& options) {
  const char* data = text.data();
  const size_t size = text.size();
  cl_int error = CL_SUCCESS;
  const cl_program program = Cl().CreateProgramWithSource(context_, 1, &data, &size, &error);
  SLUICE_RETURN_IF_ERROR(Check(error, "clCreateProgramWithSource"));
  error = Cl().BuildProgram(program, 1, &device_, options.c_str(), nullptr, nullptr);
  if (error == CL_SUCCESS) {
    Keep(program, key);
    return program;
  }
  size_t log_bytes = 0;
  Cl().GetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &log_bytes);
  std::string log(log_bytes, ' ');
  Cl().GetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), nullptr);
  Cl().ReleaseProgram(program);
  while (!log.empty() && log.back() == 0) log.pop_back();
  const std::string path = cache_.StoreLog(key, StrCat(name, " ", options, "\n", log));
  return ErrorOf(error, StrCat("the OpenCL driver could not compile ", name,
                               path.empty() ? "" : StrCat(" (what it said is in ", path, ")")));
}

void Programs::Keep(cl_program program, const std::string& key) {
  size_t size = 0;
  if (Cl().GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) !=
          CL_SUCCESS ||
      size == 0) {
    return;
  }
  std::vector<unsigned char> binary(size);
  unsigned char* data = binary.data();
  if (Cl().GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, nullptr) == CL_SUCCESS)
    cache_.Store(key, binary);
}

}  // namespace sluice::xpu
