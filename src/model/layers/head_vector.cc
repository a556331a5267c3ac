#include "model/layers/head_vector.h"

namespace sluice::model::layers {

Result<HeadVector> HeadVector::Make(device::Device& device, const std::vector<float>& values) {
  HeadVector vector;
  const size_t bytes = values.size() * sizeof(float);
  SLUICE_ASSIGN_OR_RETURN(vector.buffer_, device.Allocate(bytes, device::MemoryKind::kDevice));
  vector.tensor_ =
      ops::Dense(vector.buffer_.view(), DType::kF32, {static_cast<int64_t>(values.size())});
  device::View host;
  host.data = reinterpret_cast<std::byte*>(const_cast<float*>(values.data()));
  host.bytes = bytes;
  host.device = device.facts().id;
  SLUICE_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  const device::CopyItem item{vector.buffer_.view(), host};
  SLUICE_RETURN_IF_ERROR(device.Copy(*stream, {&item, 1}));
  SLUICE_RETURN_IF_ERROR(stream->Synchronize());
  return vector;
}

}  // namespace sluice::model::layers
