// What a binding keeps between its calls (Bound in ops/op.h), so that no call looks up or makes
// again what an earlier one of the same weight or layer has found: a map of a matrix in memory,
// the plan for a number of rows, a kernel's handle. A binding is called by one thread at a time,
// and so is what it keeps.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "device/device.h"
#include "sluice/status.h"

namespace sluice::ops {

// The calls of one binding. An implementation makes it when Bind chooses it.
template <class Op>
class Kept {
 public:
  virtual ~Kept() = default;
  virtual Status Run(device::Stream& stream, const typename Op::Desc& desc,
                     const typename Op::Args& args) = 0;
};

// As Implementation::keep.
template <class K, class Op>
std::shared_ptr<Kept<Op>> Keep() {
  return std::make_shared<K>();
}

// What was made for the key of the call before; made anew for another key. Key has operator==.
template <class Key, class Value>
class LastValue {
 public:
  // `make()` gives a Value or Result<Value>. What is returned lives until the next call; an error
  // leaves nothing behind.
  template <class Make>
  Result<Value*> Of(const Key& key, const Make& make) {
    if (value_.has_value() && key_ == key) return &*value_;
    value_.reset();
    Result<Value> made = make();
    if (!made.ok()) return made.status();
    value_ = std::move(*made);
    key_ = key;
    return &*value_;
  }

 private:
  Key key_{};
  std::optional<Value> value_;
};

}  // namespace sluice::ops
