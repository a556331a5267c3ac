// ContractTest with tensors: arrays of the host on the device and back, and ops that run there.
#pragma once

#include <deque>

#include "contract_fixture.h"
#include "ops/host_array.h"
#include "ops/op.h"

namespace sluice::device {

class OpContractTest : public ContractTest {
 protected:
  void TearDown() override {
    buffers_.clear();
    ContractTest::TearDown();
  }
  ops::Tensor Upload(const ops::Array& array) {
    const size_t bytes = array.bytes().size() - 1;  // an array has a byte to spare
    buffers_.push_back(Make(bytes));
    const View view = buffers_.back().view();
    EXPECT_TRUE(Copy({{view, HostView(array)}}).ok());
    ops::Tensor tensor = array.tensor();
    tensor.data = view.data;
    tensor.memory = view.memory;
    tensor.device = view.device;
    return tensor;
  }
  // What is in `tensor`, which has the shape of `like`.
  ops::Array ReadArray(const ops::Tensor& tensor, ops::Array like) {
    EXPECT_TRUE(Copy({{HostView(like), DeviceView(tensor, like)}}).ok());
    return like;
  }
  template <class Op>
  Status Run(const typename Op::Desc& desc, const typename Op::Args& args) {
    SLUICE_ASSIGN_OR_RETURN(const auto bound, ops::Bind<Op>(device_->ops(), desc));
    SLUICE_RETURN_IF_ERROR(bound(*stream_, args));
    return stream_->Synchronize();
  }
  View HostView(const ops::Array& array) {
    return {const_cast<std::byte*>(array.bytes().data()), array.bytes().size() - 1,
            MemoryKind::kHost, device_->facts().id};
  }
  static View DeviceView(const ops::Tensor& tensor, const ops::Array& like) {
    return {tensor.data, like.bytes().size() - 1, tensor.memory, tensor.device};
  }

 private:
  std::deque<Buffer> buffers_;
};

}  // namespace sluice::device
