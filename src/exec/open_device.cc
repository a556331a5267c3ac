#include "exec/open_device.h"

#include "device/resolver.h"

namespace sluice::exec {

Result<OpenedDevice> OpenDevice(const EngineOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(device::Resolution resolution,
                          device::ResolveDevice(options.device, device::LinkedBackends()));
  device::LogNoticeOnce(resolution);
  device::OpenOptions open;
  open.threads = options.threads;
  open.instruction_set = options.isa;
  open.force_ops = options.force_op;
  open.check_each_op = options.check_each_op;
  OpenedDevice opened;
  SLUICE_ASSIGN_OR_RETURN(opened.device, resolution.Open(open));
  opened.reason = std::move(resolution.reason);
  return opened;
}

}  // namespace sluice::exec
