#include "ops/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "device/part.h"
#include "ops/conformance_case.h"

namespace sluice::ops {
namespace {

// An op whose implementations are compared with its reference: what the comparison asks of it, so
// that the comparison itself is compiled once and not for each op.
class OpUnderTest {
 public:
  virtual ~OpUnderTest() = default;

  virtual std::string_view name() const = 0;
  // Which one: an index of these, the table's; kReference is the reference.
  virtual std::vector<std::string> Implementations() const = 0;
  virtual Arithmetic ArithmeticOf(int which) const = 0;

  // Makes the case of this number the current one, which all that follows is about.
  virtual void Draw(int number, TestNoise& noise) = 0;
  virtual const CaseMemory& memory() const = 0;
  virtual std::string Description() const = 0;
  virtual Support Supports(int which, const device::DeviceFacts& facts) const = 0;
  // Calls it over `tensors`, one for each array of memory(), and waits for it.
  virtual Status Run(int which, ConformanceTarget& target,
                     std::span<const Tensor> tensors) const = 0;
};

constexpr int kReference = -1;

// The reference of an op and whether it takes a descriptor.
template <class Op>
struct Reference {
  Support (*supports)(const typename Op::Desc&, const device::DeviceFacts&);
  Status (*run)(device::Stream&, const typename Op::Desc&, const typename Op::Args&);
};

template <class Op>
class OpUnderTestOf final : public OpUnderTest {
 public:
  // REQUIRES: `table` outlives this.
  OpUnderTestOf(const OpTable& table, const Reference<Op>& reference)
      : implementations_(table.List<Op>()),
        reference_{"reference", reference.supports, reference.run} {}

  std::string_view name() const override { return Op::kName; }
  std::vector<std::string> Implementations() const override {
    std::vector<std::string> names;
    for (const Implementation<Op>& implementation : implementations_)
      names.emplace_back(implementation.name);
    return names;
  }
  Arithmetic ArithmeticOf(int which) const override { return At(which).arithmetic; }

  void Draw(int number, TestNoise& noise) override { drawn_ = MakeCase(Op(), number, noise); }
  const CaseMemory& memory() const override { return drawn_; }
  std::string Description() const override { return drawn_.desc.ToString(); }
  Support Supports(int which, const device::DeviceFacts& facts) const override {
    return At(which).supports(drawn_.desc, facts);
  }
  Status Run(int which, ConformanceTarget& target, std::span<const Tensor> tensors) const override {
    SLUICE_ASSIGN_OR_RETURN(const typename Op::Args args, drawn_.args(target, tensors));
    const Implementation<Op>& called = At(which);
    const std::shared_ptr<Kept<Op>> kept = called.keep != nullptr ? called.keep() : nullptr;
    SLUICE_RETURN_IF_ERROR(kept != nullptr ? kept->Run(*target.stream, drawn_.desc, args)
                                           : called.run(*target.stream, drawn_.desc, args));
    return target.stream->Synchronize();  // while what it keeps is there
  }

 private:
  const Implementation<Op>& At(int which) const {
    return which == kReference ? reference_ : implementations_[static_cast<size_t>(which)];
  }

  const std::span<const Implementation<Op>> implementations_;
  const Implementation<Op> reference_;
  ConformanceCase<Op> drawn_;
};

Tensor At(const Array& array, const device::View& view) {
  Tensor t = array.tensor();
  t.data = view.data;
  t.memory = view.memory;
  t.device = view.device;
  return t;
}

device::View HostView(std::span<const std::byte> bytes, const device::Device& device) {
  device::View view;
  view.data = const_cast<std::byte*>(bytes.data());
  view.bytes = bytes.size();
  view.device = device.facts().id;
  return view;
}

constexpr size_t kGuardBytes = 256;

// What lies behind an array. Formats take turns by 5, 16 or 20 cases, so that in the next turn they
// meet the other one.
std::byte GuardOf(int number, size_t array) {
  const size_t turn = static_cast<size_t>(number + number / 20) + array;
  return turn % 2 == 0 ? std::byte{0xff} : std::byte{0x44};
}

// Runs one call and brings `memory` to what the call left.
Status RunOn(ConformanceTarget& target, const OpUnderTest& op, int which,
             std::vector<Array>& memory) {
  std::vector<Tensor> tensors;
  for (const Array& array : memory) {
    SLUICE_ASSIGN_OR_RETURN(const Tensor tensor, target.Upload(array));
    tensors.push_back(tensor);
  }
  SLUICE_RETURN_IF_ERROR(op.Run(which, target, tensors));
  if (target.device == nullptr) return OkStatus();
  std::vector<device::CopyItem> items;
  for (size_t i = 0; i < memory.size(); ++i) {
    const device::View from = device::Part(target.buffers[i].view(), 0, target.bytes[i]);
    items.push_back({HostView(memory[i].bytes(), *target.device), from});
  }
  SLUICE_RETURN_IF_ERROR(target.device->Copy(*target.stream, items));
  return target.CheckGuards();
}

void Judge(const OpUnderTest& op, int number, Arithmetic arithmetic, bool reference_order,
           const Status& status, const std::vector<Array>& got, const std::vector<Array>& expected,
           ConformanceResult& result) {
  const CaseMemory& drawn = op.memory();
  ++result.cases;
  std::string wrong = status.ok() ? "" : status.message();
  for (size_t i = 0; i < got.size() && wrong.empty(); ++i) {
    const double limit = LimitOf(drawn.limits[i], arithmetic, reference_order);
    const auto comparer = drawn.comparers.find(i);
    const Comparison comparison = comparer != drawn.comparers.end()
                                      ? comparer->second(got[i], expected[i], limit)
                                      : Compare(got[i], expected[i], limit);
    const double share = limit > 0.0 ? comparison.error / limit : 0.0;
    if (share > result.share_max || comparison.error > limit ||
        (share == result.share_max && limit > result.error_limit)) {
      result.error_max = comparison.error;
      result.error_limit = limit;
      result.share_max = share;
    }
    if (!comparison.ok) wrong = StrCat("array ", i, ": ", comparison.what);
  }
  if (wrong.empty()) return;
  if (result.failures++ == 0)
    result.first_failure = StrCat("case ", number, " (", op.Description(), "): ", wrong);
}

// An implementation and what it has shown so far.
struct Candidate {
  int which;
  ConformanceResult result;
};

bool WantsMore(const ConformanceResult& result, int cases) {
  return result.cases < cases && result.excluded.empty();
}

// Whether a candidate takes the case; counts it where it does not.
bool Takes(const OpUnderTest& op, Candidate& candidate, const device::DeviceFacts& facts) {
  ConformanceResult& result = candidate.result;
  const Support support = op.Supports(candidate.which, facts);
  if (support.ok) return true;
  ++result.declined;
  if (support.of_device) result.excluded = support.reason;
  return false;
}

Status RunCase(device::Device& device, device::Stream& stream, const OpTable& table,
               const OpUnderTest& op, int number, std::span<Candidate* const> takers) {
  const Support takes = op.Supports(kReference, device::DeviceFacts());
  CHECK(takes.ok, "the reference declines ", op.Description(), ": ", takes.reason);
  std::vector<Array> expected = op.memory().memory;
  ConformanceTarget host;
  host.stream = &stream;
  SLUICE_RETURN_IF_ERROR(RunOn(host, op, kReference, expected));
  for (Candidate* taker : takers) {
    ConformanceTarget target;
    target.device = &device;
    target.stream = &stream;
    target.table = &table;
    target.number = number;
    target.implementation = taker->result.implementation;
    std::vector<Array> got = op.memory().memory;
    const Status status = RunOn(target, op, taker->which, got);
    Judge(op, number, op.ArithmeticOf(taker->which), device.facts().reference_order, status, got,
          expected, taker->result);
  }
  return OkStatus();
}

// Case numbers that are tried for an implementation that takes few descriptors.
int NumbersMax(int cases) { return std::max(20 * std::min(cases, 1 << 24), 400); }

Status RunOp(device::Device& device, const OpTable& table, const ConformanceOptions& options,
             OpUnderTest& op, std::vector<ConformanceResult>& results) {
  std::vector<Candidate> candidates;
  const std::vector<std::string> names = op.Implementations();
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].starts_with(options.only)) continue;
    candidates.push_back({static_cast<int>(i), {}});
    candidates.back().result.op = op.name();
    candidates.back().result.implementation = names[i];
  }
  if (candidates.empty()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  TestNoise noise(options.seed);
  const auto wants = [&](const auto& c) { return WantsMore(c.result, options.cases); };
  for (int number = 0; number < NumbersMax(options.cases); ++number) {
    if (std::none_of(candidates.begin(), candidates.end(), wants)) break;
    op.Draw(number, noise);
    std::vector<Candidate*> takers;
    for (Candidate& candidate : candidates) {
      if (wants(candidate) && Takes(op, candidate, table.facts())) takers.push_back(&candidate);
    }
    if (takers.empty()) continue;
    SLUICE_RETURN_IF_ERROR(RunCase(device, *stream, table, op, number, takers));
  }
  for (Candidate& candidate : candidates) {
    ConformanceResult& result = candidate.result;
    if (!result.ok() && result.cases == 0)
      result.first_failure = StrCat("no case: it took none of ", result.declined, " descriptors");
    results.push_back(std::move(result));
  }
  return OkStatus();
}

// The ops that have a case generator (MakeCase), in the order of the report.
template <class Run>
Status ForEachOp(Run&& run) {
  SLUICE_RETURN_IF_ERROR(run(Reference<Embedding>{&RefEmbeddingSupports, &RefEmbedding}));
  SLUICE_RETURN_IF_ERROR(run(Reference<Norm>{&RefNormSupports, &RefNorm}));
  SLUICE_RETURN_IF_ERROR(run(Reference<QkNorm>{&RefQkNormSupports, &RefQkNorm}));
  SLUICE_RETURN_IF_ERROR(run(Reference<Linear>{&RefLinearSupports, &RefLinear}));
  SLUICE_RETURN_IF_ERROR(run(Reference<DenseChain>{&RefDenseChainSupports, &RefDenseChain}));
  SLUICE_RETURN_IF_ERROR(run(Reference<ExpertsChain>{&RefExpertsChainSupports, &RefExpertsChain}));
  SLUICE_RETURN_IF_ERROR(run(Reference<RouteExperts>{&RefRouteExpertsSupports, &RefRouteExperts}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<FakeBalanceExperts>{&RefFakeBalanceExpertsSupports, &RefFakeBalanceExperts}));
  SLUICE_RETURN_IF_ERROR(run(Reference<MapExperts>{&RefMapExpertsSupports, &RefMapExperts}));
  SLUICE_RETURN_IF_ERROR(run(Reference<GroupExperts>{&RefGroupExpertsSupports, &RefGroupExperts}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<GroupedLinear>{&RefGroupedLinearSupports, &RefGroupedLinear}));
  SLUICE_RETURN_IF_ERROR(run(Reference<GroupedGate>{&RefGroupedGateSupports, &RefGroupedGate}));
  SLUICE_RETURN_IF_ERROR(run(Reference<ScaleExperts>{&RefScaleExpertsSupports, &RefScaleExperts}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<CombineExperts>{&RefCombineExpertsSupports, &RefCombineExperts}));
  SLUICE_RETURN_IF_ERROR(run(Reference<RopeKv>{&RefRopeKvSupports, &RefRopeKv}));
  SLUICE_RETURN_IF_ERROR(run(Reference<NormedRopeKv>{&RefNormedRopeKvSupports, &RefNormedRopeKv}));
  SLUICE_RETURN_IF_ERROR(run(Reference<Attention>{&RefAttentionSupports, &RefAttention}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<LatentAttention>{&RefLatentAttentionSupports, &RefLatentAttention}));
  SLUICE_RETURN_IF_ERROR(run(Reference<IndexScores>{&RefIndexScoresSupports, &RefIndexScores}));
  SLUICE_RETURN_IF_ERROR(run(Reference<TopK>{&RefTopKSupports, &RefTopK}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<GatedActivation>{&RefGatedActivationSupports, &RefGatedActivation}));
  SLUICE_RETURN_IF_ERROR(run(Reference<GroupQuant>{&RefGroupQuantSupports, &RefGroupQuant}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<PlainActivation>{&RefPlainActivationSupports, &RefPlainActivation}));
  SLUICE_RETURN_IF_ERROR(run(Reference<SoftCap>{&RefSoftCapSupports, &RefSoftCap}));
  SLUICE_RETURN_IF_ERROR(run(Reference<ShortConv>{&RefShortConvSupports, &RefShortConv}));
  SLUICE_RETURN_IF_ERROR(run(Reference<GatedDelta>{&RefGatedDeltaSupports, &RefGatedDelta}));
  SLUICE_RETURN_IF_ERROR(run(Reference<Ssd>{&RefSsdSupports, &RefSsd}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<SelectiveScan>{&RefSelectiveScanSupports, &RefSelectiveScan}));
  SLUICE_RETURN_IF_ERROR(run(Reference<GatedNorm>{&RefGatedNormSupports, &RefGatedNorm}));
  SLUICE_RETURN_IF_ERROR(run(Reference<SigmoidGate>{&RefSigmoidGateSupports, &RefSigmoidGate}));
  SLUICE_RETURN_IF_ERROR(run(
      Reference<SigmoidGateScaleAdd>{&RefSigmoidGateScaleAddSupports, &RefSigmoidGateScaleAdd}));
  SLUICE_RETURN_IF_ERROR(run(Reference<GaussianTopK>{&RefGaussianTopKSupports, &RefGaussianTopK}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<PredictStreams>{&RefPredictStreamsSupports, &RefPredictStreams}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<CorrectStreams>{&RefCorrectStreamsSupports, &RefCorrectStreams}));
  SLUICE_RETURN_IF_ERROR(run(Reference<LevelStreams>{&RefLevelStreamsSupports, &RefLevelStreams}));
  SLUICE_RETURN_IF_ERROR(
      run(Reference<ResolveTokens>{&RefResolveTokensSupports, &RefResolveTokens}));
  SLUICE_RETURN_IF_ERROR(run(Reference<PlaceTokens>{&RefPlaceTokensSupports, &RefPlaceTokens}));
  SLUICE_RETURN_IF_ERROR(run(Reference<NextTokens>{&RefNextTokensSupports, &RefNextTokens}));
  SLUICE_RETURN_IF_ERROR(run(Reference<KeepGuesses>{&RefKeepGuessesSupports, &RefKeepGuesses}));
  SLUICE_RETURN_IF_ERROR(run(Reference<FollowTrees>{&RefFollowTreesSupports, &RefFollowTrees}));
  SLUICE_RETURN_IF_ERROR(run(Reference<GrowTrees>{&RefGrowTreesSupports, &RefGrowTrees}));
  SLUICE_RETURN_IF_ERROR(run(Reference<Sample>{&RefSampleSupports, &RefSample}));
  SLUICE_RETURN_IF_ERROR(run(Reference<SetCounts>{&RefSetCountsSupports, &RefSetCounts}));
  SLUICE_RETURN_IF_ERROR(run(Reference<ResolveRows>{&RefResolveRowsSupports, &RefResolveRows}));
  SLUICE_RETURN_IF_ERROR(run(Reference<KeepDrawn>{&RefKeepDrawnSupports, &RefKeepDrawn}));
  SLUICE_RETURN_IF_ERROR(run(Reference<Pool>{&RefPoolSupports, &RefPool}));
  return run(Reference<GatherRows>{&RefGatherRowsSupports, &RefGatherRows});
}

// An op that nothing checks must not pass for one that agrees.
void AddUnchecked(const OpTable& table, const std::set<std::string>& checked,
                  std::vector<ConformanceResult>& results) {
  for (const std::string& op : table.Ops()) {
    if (checked.count(op) > 0) continue;
    ConformanceResult result;
    result.op = result.implementation = op;
    result.failures = 1;
    result.first_failure =
        "no cases are generated for this op; see ForEachOp in ops/conformance.cc";
    results.push_back(std::move(result));
  }
}

std::string Cell(const std::string& text, size_t width) {
  return text.size() >= width ? text + ' ' : text + std::string(width - text.size(), ' ');
}

std::string Scientific(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2e", value);
  return value == 0.0 ? "0" : buffer;
}

std::string Share(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2g", value);
  return value == 0.0 ? "-" : buffer;
}

}  // namespace

Result<Tensor> ConformanceTarget::Upload(const Array& array) {
  if (device == nullptr) return array.tensor();
  const size_t size = array.bytes().size();
  SLUICE_ASSIGN_OR_RETURN(device::Buffer buffer,
                          device->Allocate(size + kGuardBytes, device::MemoryKind::kDevice));
  const std::vector<std::byte> guard(kGuardBytes, GuardOf(number, buffers.size()));
  const device::CopyItem items[] = {
      {device::Part(buffer.view(), 0, size), HostView(array.bytes(), *device)},
      {device::Part(buffer.view(), size, kGuardBytes), HostView(guard, *device)}};
  SLUICE_RETURN_IF_ERROR(device->Copy(*stream, items));
  buffers.push_back(std::move(buffer));
  bytes.push_back(size);
  return At(array, buffers.back().view());
}

Status ConformanceTarget::CheckGuards() {
  std::vector<std::byte> guards(buffers.size() * kGuardBytes);
  std::vector<device::CopyItem> items;
  for (size_t i = 0; i < buffers.size(); ++i) {
    items.push_back({HostView(std::span(guards).subspan(i * kGuardBytes, kGuardBytes), *device),
                     device::Part(buffers[i].view(), bytes[i], kGuardBytes)});
  }
  SLUICE_RETURN_IF_ERROR(device->Copy(*stream, items));
  for (size_t at = 0; at < guards.size(); ++at) {
    if (guards[at] == GuardOf(number, at / kGuardBytes)) continue;
    return Status(StatusCode::kInternal,
                  StrCat("array ", at / kGuardBytes, " was written past its end, at byte ",
                         at % kGuardBytes, " behind it"));
  }
  return OkStatus();
}

double LimitOf(const Allowance& allowance, Arithmetic arithmetic, bool reference_order) {
  double limit = allowance.limit;
  if (arithmetic == Arithmetic::kBf16) limit += allowance.bf16;
  if (arithmetic == Arithmetic::kF16) limit += allowance.bf16 / 8;
  if (!reference_order) limit += allowance.order;
  const bool as_reference =
      arithmetic == Arithmetic::kInt8 || arithmetic == Arithmetic::kAsReference;
  if (!as_reference) limit += allowance.unrounded;
  return limit;
}

Comparison Compare(const Array& got, const Array& expected, double limit) {
  Comparison comparison;
  if (got.bytes() == expected.bytes()) return comparison;
  const Tensor shape = expected.tensor();
  if (limit == 0.0 || !IsPlainFloat(shape.dtype) || got.Count() != expected.Count()) {
    const auto& a = got.bytes();
    const auto& b = expected.bytes();
    const auto differs = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    comparison.ok = false;
    comparison.error = INFINITY;
    comparison.what = StrCat("byte ", differs.first - a.begin(), " of ", a.size(), " differs");
    return comparison;
  }
  for (size_t i = 0; i < got.Count(); ++i) {
    const double a = got.At(i), b = expected.At(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    double error = std::abs(a - b) / (1.0 + std::abs(b));
    if (std::isnan(error) || std::isinf(b)) error = INFINITY;
    comparison.error = std::max(comparison.error, error);
    if (error <= limit || !comparison.ok) continue;
    comparison.ok = false;
    comparison.what = StrCat("element ", i, " is ", a, ", expected ", b, " within ", limit);
  }
  return comparison;
}

Result<std::vector<ConformanceResult>> RunConformance(device::Device& device, const OpTable& table,
                                                      const ConformanceOptions& options) {
  std::vector<ConformanceResult> results;
  std::set<std::string> checked;
  SLUICE_RETURN_IF_ERROR(ForEachOp([&]<class Op>(const Reference<Op>& reference) {
    checked.emplace(Op::kName);
    OpUnderTestOf<Op> op(table, reference);
    return RunOp(device, table, options, op, results);
  }));
  if (options.only.empty()) AddUnchecked(table, checked, results);
  return results;
}

Result<std::vector<ConformanceResult>> RunConformance(device::Device& device,
                                                      const ConformanceOptions& options) {
  return RunConformance(device, device.ops(), options);
}

std::string FormatConformance(std::span<const ConformanceResult> results) {
  std::string out = Cell("implementation", 32) + Cell("cases", 7) + Cell("declined", 10) +
                    Cell("error", 11) + Cell("limit", 10) + Cell("of limit", 10) + "verdict\n";
  for (const ConformanceResult& result : results) {
    const std::string verdict = !result.ok()              ? "FAILED"
                                : result.excluded.empty() ? "ok"
                                                          : "not run: " + result.excluded;
    out += Cell(result.implementation, 32) + Cell(StrCat(result.cases), 7) +
           Cell(StrCat(result.declined), 10) + Cell(Scientific(result.error_max), 11) +
           Cell(Scientific(result.error_limit), 10) + Cell(Share(result.share_max), 10) + verdict +
           '\n';
    if (!result.ok())
      out += StrCat("  ", result.failures, " failed; first: ", result.first_failure, "\n");
  }
  return out;
}

}  // namespace sluice::ops
