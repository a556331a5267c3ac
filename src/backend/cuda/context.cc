#include "backend/cuda/context.h"

#include "base/str_cat.h"

namespace sluice::cuda {

Result<std::unique_ptr<Context>> Context::Retain(int ordinal, const device::DeviceFacts& facts) {
  const Driver& driver = TheDriver();
  CUdevice device = 0;
  SLUICE_RETURN_IF_ERROR(Check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet"));
  CUcontext context = nullptr;
  SLUICE_RETURN_IF_ERROR(Check(driver.cuDevicePrimaryCtxRetain(&context, device),
                               StrCat("opening ", device::ToString(facts.id))));
  std::unique_ptr<Context> made(new Context(device, context, facts));
  SLUICE_RETURN_IF_ERROR(made->Enter());
  return made;
}

Context::~Context() {
  // The thread's notion of its context must not outlive it.
  if (MakeCurrent(nullptr).ok()) TheDriver().cuDevicePrimaryCtxRelease(device_);
}

Context::Exclusive::Exclusive(Context* context, bool captures)
    : context_(context), lock_(context->exclusive_) {
  if (captures) context_->capturing_thread_ = std::this_thread::get_id();
}

Context::Exclusive::~Exclusive() { context_->capturing_thread_ = std::thread::id(); }

}  // namespace sluice::cuda
