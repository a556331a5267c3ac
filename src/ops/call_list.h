// CallList: a stream that notes the calls of ops instead of making them, so that they can be made
// later, one by one and on another stream: captured where graphs may hold them, between graphs
// where not. What a call's arguments point to must outlive the list. One thread.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "device/device.h"

namespace sluice::ops {

class CallList final : public device::Stream {
 public:
  struct Call {
    std::string_view op;
    device::GraphSupport graphs;  // of the implementation
    std::function<Status(device::Stream&)> make;
  };

  CallList() : Stream(/*checks_each_op=*/false, /*lists_calls=*/true) {}
  void Add(Call call) { calls_.push_back(std::move(call)); }
  const std::vector<Call>& calls() const { return calls_; }

  Status Synchronize() override { return NotACall("a host wait"); }
  Status Record(device::Event&) override { return NotACall("an event"); }
  Status Wait(device::Event&) override { return NotACall("an event"); }
  Status CallOnHost(std::function<Status()>) override { return NotACall("a call of the host"); }

 private:
  static Status NotACall(std::string_view what) {
    return Status(StatusCode::kFailedPrecondition,
                  std::string(what) + " among the calls of ops that graphs are made of");
  }

  std::vector<Call> calls_;
};

}  // namespace sluice::ops
