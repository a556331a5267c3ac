// How an op is declared, implemented and chosen. An op is a struct with
//   static constexpr std::string_view kName;  struct Desc;  struct Args;
// Desc is all that is known at load (types, sizes that do not change, options), Args the tensors of
// a call. A backend lists implementations best first, the reference last. Bind picks the first
// whose `supports` accepts the descriptor; calls then go straight to it.
//
// A kernel's result for one row depends on that row alone, never on the rows around it. Once `run`
// may have written, an error is final: nothing else is tried.
#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "device/device.h"
#include "ops/call_list.h"
#include "ops/call_observer.h"
#include "ops/kept.h"
#include "sluice/status.h"

namespace sluice::ops {

// Whether an implementation takes a descriptor; if not, why.
struct Support {
  bool ok = true;
  std::string reason;
  bool of_device = false;  // the reason is the device, whatever the descriptor
  static Support Yes() { return {}; }
  static Support No(std::string reason) { return {false, std::move(reason), false}; }
  static Support NotOnDevice(std::string reason) { return {false, std::move(reason), true}; }
};

// The largest calls that a runner makes. What an implementation needs for them it needs for none of
// the smaller ones in addition.
struct StepLimits {
  int64_t tokens = 1;
  int64_t logits_rows = 1;
  int64_t sequences = 1;  // with query tokens or padding
  int64_t positions = 1;  // that a row of a block table has room for
};

// What an implementation rounds the factors of its products to, whatever type they are stored in.
// kAsReference: what the reference does in every format; also where nothing is multiplied.
enum class Arithmetic : uint8_t { kAsReference, kF32, kF16, kBf16, kInt8 };

// What a name says of it, by its part f32, f16, bf16 or int8; without one kAsReference. For tests
// that hold a table's names to its fields: everything else asks for the field.
Arithmetic ArithmeticInName(std::string_view name);

template <class Op>
struct Implementation {
  std::string_view name;  // <arch>_<dtype>_<op>[_<variant>], or ref_<op>
  Support (*supports)(const typename Op::Desc&, const device::DeviceFacts&);
  Status (*run)(device::Stream&, const typename Op::Desc&, const typename Op::Args&) = nullptr;
  Arithmetic arithmetic = Arithmetic::kAsReference;
  // Where the device has graphs: kFull if they may hold `run`. Another one, as one that waits for
  // the device or chooses by what it finds in memory, runs between them.
  device::GraphSupport graphs = device::GraphSupport::kFull;
  // Why a call with the descriptor takes longer than what the device could do; empty where it does
  // not. Null: never.
  std::string_view (*slow)(const typename Op::Desc&) = nullptr;
  // The device memory that a call takes from its stream beside its tensors, at most. Null: none.
  size_t (*scratch_bytes)(const typename Op::Desc&, const StepLimits&,
                          const device::DeviceFacts&) = nullptr;
  // What each binding keeps between its calls, which go to it instead of `run`; `run` is null then.
  // Null: nothing.
  std::shared_ptr<Kept<Op>> (*keep)() = nullptr;
};

// What the references answer, whatever the descriptor.
template <class Op>
std::string_view PlainLoops(const typename Op::Desc&) {
  return "plain loops";
}

// One line per binding: what was chosen and why the better ones declined (--explain-kernels).
struct BindRecord {
  std::string op, shape, chosen;
  std::vector<std::string> declined;                          // "name: reason"
  device::GraphSupport graphs = device::GraphSupport::kFull;  // of the chosen one
  std::string slow;  // what the chosen one says of itself for this shape; empty: nothing
  std::function<size_t(const StepLimits&)> scratch_bytes;  // of the chosen one; empty: none
};

// Ops of a stream share their scratch memory, so a step needs as much as the call that needs most.
size_t ScratchBytes(std::span<const BindRecord> bindings, const StepLimits& limits);

// One sentence per op that runs on an implementation which says it is slow, because the faster ones
// declined, with the first such binding's shape and reasons.
std::vector<std::string> SlowFallbacks(std::span<const BindRecord> bindings);

class OpTable {
 public:
  explicit OpTable(const device::DeviceFacts* facts) : facts_(facts) {}

  // Appends; earlier means better.
  template <class Op>
  void Add(const Implementation<Op>& implementation) {
    auto& slot = lists_[std::string(Op::kName)];
    if (!slot.has_value()) slot = std::vector<Implementation<Op>>();
    std::any_cast<std::vector<Implementation<Op>>&>(slot).push_back(implementation);
    names_[std::string(Op::kName)].emplace_back(implementation.name);
    arithmetics_.emplace_back(implementation.name, implementation.arithmetic);
  }
  template <class Op>
  const std::vector<Implementation<Op>>& List() const {
    static const std::vector<Implementation<Op>> kNone;
    auto found = lists_.find(Op::kName);
    return found == lists_.end()
               ? kNone
               : std::any_cast<const std::vector<Implementation<Op>>&>(found->second);
  }
  // The names of the ops that have an implementation.
  std::vector<std::string> Ops() const;
  // Of every implementation of every op, by name.
  std::span<const std::pair<std::string_view, Arithmetic>> Arithmetics() const {
    return arithmetics_;
  }
  const device::DeviceFacts& facts() const { return *facts_; }

  // A value of type T that goes with an implementation, by its name: how it wants its weight, say.
  template <class T>
  void Attach(std::string_view implementation, T value) {
    attached_.insert_or_assign(std::string(implementation), std::move(value));
  }
  // Null where nothing of type T is attached.
  template <class T>
  const T* Attached(std::string_view implementation) const {
    auto found = attached_.find(implementation);
    return found == attached_.end() ? nullptr : std::any_cast<T>(&found->second);
  }

  // Makes Bind use `implementation` for `op` or fail.
  void Force(std::string op, std::string implementation) {
    forced_[std::move(op)] = std::move(implementation);
  }
  // "linear=ref_linear,norm=ref_norm", as --force-op has it. kInvalidArgument for an op or an
  // implementation that the table lacks, an op named twice, or text without "=".
  Status ForceAll(std::string_view list);
  const std::string* Forced(std::string_view op) const {
    auto found = forced_.find(op);
    return found == forced_.end() ? nullptr : &found->second;
  }

 private:
  const device::DeviceFacts* facts_;
  std::map<std::string, std::any, std::less<>> lists_;
  std::map<std::string, std::vector<std::string>, std::less<>> names_;  // of each list
  std::vector<std::pair<std::string_view, Arithmetic>> arithmetics_;
  std::map<std::string, std::any, std::less<>> attached_;
  std::map<std::string, std::string, std::less<>> forced_;
};

// An op with its implementation chosen, and what that keeps for it. Copies share what is kept: one
// thread at a time calls them. The table must outlive it.
template <class Op>
class Bound {
 public:
  Bound() = default;
  Bound(const Implementation<Op>* implementation, typename Op::Desc desc)
      : implementation_(implementation), desc_(std::move(desc)) {
    if (implementation->keep != nullptr) kept_ = implementation->keep();
  }

  Status operator()(device::Stream& stream, const typename Op::Args& args) const {
    if (stream.lists_calls()) {
      static_cast<CallList&>(stream).Add(
          {Op::kName, implementation_->graphs,
           [bound = *this, args](device::Stream& on) { return bound(on, args); }});
      return OkStatus();
    }
    if (stream.observer() != nullptr) return Observed(stream, args);
    SLUICE_RETURN_IF_ERROR(Run(stream, args));
    if (!stream.checks_each_op()) return OkStatus();
    return stream.Synchronize().WithContext(implementation_->name);
  }
  bool bound() const { return implementation_ != nullptr; }
  std::string_view name() const { return implementation_->name; }
  Arithmetic arithmetic() const { return implementation_->arithmetic; }
  const typename Op::Desc& desc() const { return desc_; }

 private:
  Status Run(device::Stream& stream, const typename Op::Args& args) const {
    return kept_ != nullptr ? kept_->Run(stream, desc_, args)
                            : implementation_->run(stream, desc_, args);
  }
  Status Observed(device::Stream& stream, const typename Op::Args& args) const {
    const CallOf<Op> call(implementation_->name, desc_, args);
    SLUICE_RETURN_IF_ERROR(stream.observer()->Before(stream, call));
    SLUICE_RETURN_IF_ERROR(Run(stream, args));
    return stream.observer()->Behind(stream, call);
  }

  const Implementation<Op>* implementation_ = nullptr;
  typename Op::Desc desc_;
  std::shared_ptr<Kept<Op>> kept_;
};

// kUnimplemented with every implementation's reason when none takes `desc`, or, where the device
// has none of the op, with the advice to take another. Desc has ToString().
template <class Op>
Result<Bound<Op>> Bind(const OpTable& table, const typename Op::Desc& desc,
                       std::vector<BindRecord>* records = nullptr) {
  BindRecord record;
  record.op = Op::kName;
  record.shape = desc.ToString();
  const std::string* forced = table.Forced(Op::kName);
  for (const Implementation<Op>& candidate : table.List<Op>()) {
    if (forced != nullptr && candidate.name != *forced) continue;
    Support support = candidate.supports(desc, table.facts());
    if (support.ok) {
      record.chosen = candidate.name;
      record.graphs = candidate.graphs;
      if (candidate.slow != nullptr) record.slow = candidate.slow(desc);
      if (candidate.scratch_bytes != nullptr) {
        record.scratch_bytes = [desc, needs = candidate.scratch_bytes,
                                facts = &table.facts()](const StepLimits& limits) {
          return needs(desc, limits, *facts);
        };
      }
      if (records != nullptr) records->push_back(std::move(record));
      return Bound<Op>(&candidate, desc);
    }
    record.declined.push_back(StrCat(candidate.name, ": ", support.reason));
  }
  std::string message = StrCat("no implementation of ", Op::kName, " on ",
                               device::ToString(table.facts().id), " for ", record.shape);
  for (const std::string& reason : record.declined) message += "; " + reason;
  if (table.List<Op>().empty()) message += "; take another device, --device cpu for one";
  return Status(StatusCode::kUnimplemented, std::move(message));
}

}  // namespace sluice::ops
