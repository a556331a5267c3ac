// A row's bits depend on that row alone: not on the batch around it, the chunk it came in, the
// number of threads, and here not even on the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "backend/cpu/device.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/element.h"
#include "ops/gate.h"
#include "ops/norm.h"
#include "ops/recurrent.h"
#include "ops/rope_kv.h"
#include "ops/streams.h"

namespace sluice::cpu {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

template <class T>
ops::Tensor TensorOf(const std::vector<T>& values, DType dtype,
                     std::initializer_list<int64_t> dims) {
  device::View view;
  view.data = reinterpret_cast<std::byte*>(const_cast<T*>(values.data()));
  view.bytes = values.size() * sizeof(T);
  return ops::Dense(view, dtype, dims);
}

Floats Noise(size_t count, uint32_t seed) {
  Floats out(count);
  for (float& x : out) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(seed >> 8) * 0x1p-22f - 2.0f;
  }
  return out;
}

bool SameBits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// `width` columns of a tensor whose rows are wider.
ops::Tensor Columns(ops::Tensor t, int64_t first, int64_t width) {
  t.data += first * static_cast<int64_t>(sizeof(float));
  t.dims[1] = width;
  return t;
}

struct Machine {
  Machine(Isa isa, int threads) : device(DetectCpu(), isa, threads) {
    stream = std::move(device.CreateStream().value());
  }
  template <class Op>
  void Run(const typename Op::Desc& desc, const typename Op::Args& args) {
    const auto bound = ops::Bind<Op>(device.ops(), desc);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    const Status status = (*bound)(*stream, args);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  CpuDevice device;
  std::unique_ptr<device::Stream> stream;
};

// Instruction set and threads. All compute what avx2 on one thread does to the bit, but for the
// reference and for attention on amx, which are each their own.
class SamenessTest : public ::testing::TestWithParam<std::tuple<Isa, int>> {
 protected:
  SamenessTest() : machine_(std::get<0>(GetParam()), std::get<1>(GetParam())) {}
  Machine machine_;
};

// The reference uses one thread whatever there are.
std::vector<std::tuple<Isa, int>> Machines() {
  std::vector<std::tuple<Isa, int>> machines = {{Isa::kRef, 1}};
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    for (int threads = 1; threads <= 4 && isa <= DetectCpu().best; ++threads)
      machines.emplace_back(isa, threads);
  }
  return machines;
}
INSTANTIATE_TEST_SUITE_P(Cpu, SamenessTest, ::testing::ValuesIn(Machines()), [](const auto& test) {
  return StrCat(Name(std::get<0>(test.param)), "_threads", std::get<1>(test.param));
});

constexpr int kQHeads = 6, kKvHeads = 2, kHeadDim = 32, kContext = 330, kBlock = 16;
constexpr int kWidth = kQHeads * kHeadDim, kBlocks = (kContext + kBlock - 1) / kBlock;

// One sequence of kContext tokens in a paged cache, beside a neighbour that shares it.
struct History {
  explicit History(DType dtype) : kv(dtype) {
    const Floats noise = Noise(size_t{2} * kBlocks * kKvHeads * kBlock * kHeadDim, 5);
    bytes.resize(noise.size() * Info(dtype).bytes);
    scales.resize(noise.size() / kHeadDim);
    for (size_t row = 0; row < scales.size(); ++row) {
      ops::StoreKvRow(kv, noise.data() + row * kHeadDim, kHeadDim, bytes.data(), row * kHeadDim,
                      scales.data() + row);
    }
    for (int b = 0; b < 2 * kBlocks; ++b) table.push_back(2 * kBlocks - 1 - b);
  }
  ops::PagedKv Cache() const {
    ops::PagedKv cache;
    cache.k = cache.v = TensorOf(bytes, kv, {2 * kBlocks, kKvHeads, kBlock, kHeadDim});
    if (ops::KvHasScales(kv))
      cache.k_scale = cache.v_scale =
          TensorOf(scales, DType::kF32, {2 * kBlocks, kKvHeads, kBlock});
    return cache;
  }
  DType kv;
  std::vector<std::byte> bytes;
  Floats scales;
  Ints table;  // [2, kBlocks]
};

struct Chunk {
  int first, end;
};

// The rows [first, end) of the sequence, alone or behind a neighbour with 7 rows of its own.
Floats Attend(Machine& machine, const ops::Attention::Desc& desc, const History& history,
              const Floats& q, Chunk chunk, bool neighbour) {
  const int count = chunk.end - chunk.first, before = neighbour ? 7 : 0;
  Floats rows = Noise(static_cast<size_t>(before) * kWidth, 99);
  rows.insert(rows.end(), q.begin() + chunk.first * kWidth, q.begin() + chunk.end * kWidth);
  Floats out(rows.size());
  Ints start = {0}, context, table;
  if (neighbour) {
    start.push_back(7);
    context.push_back(200);
    table.insert(table.end(), history.table.begin() + kBlocks, history.table.end());
  }
  start.push_back(before + count);
  context.push_back(chunk.end);
  table.insert(table.end(), history.table.begin(), history.table.begin() + kBlocks);
  const int64_t sequences = static_cast<int64_t>(context.size());
  ops::Attention::Args args;
  args.q = TensorOf(rows, DType::kF32, {before + count, kWidth});
  args.out = TensorOf(out, DType::kF32, {before + count, kWidth});
  args.query_start = TensorOf(start, DType::kI32, {sequences + 1});
  args.context = TensorOf(context, DType::kI32, {sequences});
  args.block_table = TensorOf(table, DType::kI32, {sequences, kBlocks});
  args.kv = history.Cache();
  machine.Run<ops::Attention>(desc, args);
  return Floats(out.begin() + before * kWidth, out.end());
}

TEST_P(SamenessTest, AttentionRowsInAnyChunkBesideAnyoneOnAnyThreads) {
  const Isa isa = std::get<0>(GetParam());
  const bool reference = isa == Isa::kRef;
  const Floats q = Noise(size_t{kContext} * kWidth, 3);
  for (DType kv : {DType::kF16, DType::kBF16, DType::kF32, DType::kF8E4M3, DType::kI8}) {
    for (int window : {0, 100}) {
      ops::Attention::Desc desc{.q_heads = kQHeads, .kv_heads = kKvHeads, .head_dim = kHeadDim};
      desc.window = window;
      desc.kv = {kv, kKvHeads, kHeadDim, kHeadDim, kBlock};
      if (window > 0) desc.soft_cap = 20.0f;
      const History history(kv);
      const bool alone = reference || (isa == Isa::kAmx && kv != DType::kF32);
      Machine one(alone ? isa : Isa::kAvx2, 1);
      const Floats whole = Attend(one, desc, history, q, {0, kContext}, false);
      const auto expect_same = [&](Chunk chunk, bool neighbour) {
        const Floats part = Attend(machine_, desc, history, q, chunk, neighbour);
        EXPECT_TRUE(SameBits(part.data(), whole.data() + chunk.first * kWidth, part.size()))
            << "rows " << chunk.first << " to " << chunk.end << " neighbour " << neighbour;
      };
      expect_same({0, kContext}, false);
      expect_same({0, kContext}, true);
      for (int at : {0, 1, 15, 63, 64, 65, 255, 256, 257, kContext - 1}) {
        expect_same({at, at + 1}, false);
        expect_same({at, at + 1}, true);
      }
      // The reference is slow, and looks at one row at a time anyway.
      const std::vector<int> sizes =
          reference ? std::vector<int>{129} : std::vector<int>{3, 7, 64, 100, 129};
      for (int size : sizes) {
        for (int at = 0; at < kContext; at += size)
          expect_same({at, std::min(at + size, kContext)}, size == 7);
      }
    }
  }
}

constexpr int kRows = 130, kHidden = 300;

// Runs `op` on all rows and on each part alone, and compares the parts' bits.
template <class RunRows>
void ExpectRowsAlone(const RunRows& run_rows) {
  const Floats all = run_rows(0, kRows);
  const size_t width = all.size() / kRows;
  for (const auto& [first, end] : {std::pair{0, 1}, {77, 78}, {kRows - 1, kRows}, {5, 40}}) {
    const Floats part = run_rows(first, end);
    EXPECT_TRUE(SameBits(part.data(), all.data() + first * width, part.size()))
        << "rows " << first << " to " << end;
  }
}

TEST_P(SamenessTest, NormRows) {
  const Floats x = Noise(size_t{kRows} * kHidden, 1), weight = Noise(kHidden, 2);
  for (ops::NormKind kind : {ops::NormKind::kRms, ops::NormKind::kLayer}) {
    ExpectRowsAlone([&](int first, int end) {
      Floats out(static_cast<size_t>(end - first) * kHidden);
      const ops::Tensor in = TensorOf(x, DType::kF32, {kRows, kHidden});
      machine_.Run<ops::Norm>({.kind = kind, .hidden = kHidden},
                              {.x = in.Rows(first, end - first),
                               .weight = TensorOf(weight, DType::kF32, {kHidden}),
                               .out = TensorOf(out, DType::kF32, {end - first, kHidden})});
      return out;
    });
  }
}

TEST_P(SamenessTest, QkNormAndSoftCapRows) {
  const Floats x = Noise(size_t{kRows} * kHidden, 3), weight = Noise(60, 4);
  ExpectRowsAlone([&](int first, int end) {
    Floats out(x.begin() + first * kHidden, x.begin() + end * kHidden);
    const ops::Tensor w = TensorOf(weight, DType::kF32, {60});
    const ops::Tensor rows = TensorOf(out, DType::kF32, {end - first, kHidden});
    machine_.Run<ops::QkNorm>({.q_heads = 3, .kv_heads = 1, .head_dim = 60},
                              {.qkv = rows, .q_weight = w, .k_weight = w});
    machine_.Run<ops::SoftCap>({.cap = 1.5f}, {.x = rows});
    return out;
  });
}

TEST_P(SamenessTest, GatedActivationRows) {
  const Floats x = Noise(size_t{kRows} * 2 * kHidden, 5);
  for (ops::Activation kind : ops::kActivations) {
    ExpectRowsAlone([&](int first, int end) {
      Floats out(static_cast<size_t>(end - first) * kHidden);
      const ops::Tensor in = TensorOf(x, DType::kF32, {kRows, 2 * kHidden});
      machine_.Run<ops::GatedActivation>(
          {.kind = kind, .width = kHidden},
          {.gate_up = in.Rows(first, end - first),
           .out = TensorOf(out, DType::kF32, {end - first, kHidden})});
      return out;
    });
  }
}

TEST_P(SamenessTest, RopeRowsAndWhatTheyKeep) {
  const int d = 60, width = 5 * d;
  const Floats x = Noise(size_t{kRows} * width, 6), table = Noise(size_t{kRows} * d, 7);
  Ints positions, slots;
  for (int t = 0; t < kRows; ++t) {
    positions.push_back(kRows - 1 - t);
    slots.push_back((t * 37) % kRows);
  }
  for (auto [kv, interleaved] : {std::pair{DType::kF32, false},
                                 {DType::kF32, true},
                                 {DType::kF8E4M3, false},
                                 {DType::kI8, true}}) {
    ops::RopeKv::Desc desc{
        .q_heads = 3, .kv_heads = 1, .head_dim = d, .rotary_dims = d, .interleaved = interleaved};
    desc.kv = {kv, 1, d, d, 1};
    ExpectRowsAlone([&](int first, int end) {
      const int count = end - first;
      Floats q(static_cast<size_t>(count) * 3 * d), k(size_t{kRows} * d), v(k), out;
      Floats k_scale(kRows), v_scale(kRows);
      ops::RopeKv::Args args;
      args.qkv = TensorOf(x, DType::kF32, {kRows, width}).Rows(first, count);
      args.positions = TensorOf(positions, DType::kI32, {kRows}).Rows(first, count);
      args.slots = TensorOf(slots, DType::kI32, {kRows}).Rows(first, count);
      args.table = TensorOf(table, DType::kF32, {kRows, d});
      args.q_out = TensorOf(q, DType::kF32, {count, 3 * d});
      args.kv.k = TensorOf(k, desc.kv.dtype, {kRows, 1, 1, d});
      args.kv.v = TensorOf(v, desc.kv.dtype, {kRows, 1, 1, d});
      if (ops::KvHasScales(desc.kv.dtype)) {
        args.kv.k_scale = TensorOf(k_scale, DType::kF32, {kRows, 1, 1});
        args.kv.v_scale = TensorOf(v_scale, DType::kF32, {kRows, 1, 1});
      }
      machine_.Run<ops::RopeKv>(desc, args);
      for (int t = first; t < end; ++t) {
        const auto append = [&](const Floats& from, int row, int count_of) {
          out.insert(out.end(), from.begin() + row * count_of, from.begin() + (row + 1) * count_of);
        };
        append(q, t - first, 3 * d);
        for (const ops::Tensor& cache : {args.kv.k, args.kv.v}) {
          for (int i = 0; i < d; ++i)
            out.push_back(ops::LoadElement(desc.kv.dtype, cache.data, slots[t] * d + i));
        }
        append(k_scale, slots[t], 1);
        append(v_scale, slots[t], 1);
      }
      return out;
    });
  }
}

TEST_P(SamenessTest, ElementWiseOpsGiveTheBitsOfAvx2) {
  if (std::get<0>(GetParam()) == Isa::kRef) return;  // the reference sums in another order
  Machine avx2(Isa::kAvx2, 1);
  const Floats x = Noise(size_t{kRows} * 2 * kHidden, 8), weight = Noise(2 * kHidden, 9);
  const ops::Tensor in = TensorOf(x, DType::kF32, {kRows, 2 * kHidden});
  const auto both = [&](const auto& run) {
    Floats a(x.size()), b(x.size());
    run(avx2, a);
    run(machine_, b);
    EXPECT_TRUE(SameBits(a.data(), b.data(), a.size()));
  };
  for (ops::NormKind kind : {ops::NormKind::kRms, ops::NormKind::kLayer}) {
    both([&](Machine& m, Floats& out) {
      m.Run<ops::Norm>({.kind = kind, .hidden = 2 * kHidden},
                       {.x = in,
                        .weight = TensorOf(weight, DType::kF32, {2 * kHidden}),
                        .out = TensorOf(out, DType::kF32, {kRows, 2 * kHidden})});
    });
  }
  for (ops::Activation kind : {ops::Activation::kSilu, ops::Activation::kGeluTanh}) {
    both([&](Machine& m, Floats& out) {
      m.Run<ops::GatedActivation>(
          {.kind = kind, .width = kHidden},
          {.gate_up = in, .out = TensorOf(out, DType::kF32, {kRows, kHidden})});
    });
  }
  both([&](Machine& m, Floats& out) {
    const ops::Tensor rows = TensorOf(out, DType::kF32, {kRows, kHidden});
    m.Run<ops::GatedNorm>({.heads = 3, .head_dim = kHidden / 3},
                          {.x = Columns(in, 0, kHidden),
                           .gate = Columns(in, kHidden, kHidden),
                           .weight = TensorOf(weight, DType::kF32, {2 * kHidden}).Rows(0, 100),
                           .out = rows});
    m.Run<ops::SigmoidGate>({.width = kHidden}, {.x = rows, .gate = Columns(in, 0, kHidden)});
  });
  both([&](Machine& m, Floats& out) {
    out = x;
    m.Run<ops::GaussianTopK>({.width = 2 * kHidden, .deviations = 0.5f},
                             {.x = TensorOf(out, DType::kF32, {kRows, 2 * kHidden})});
  });
  both([&](Machine& m, Floats& out) {
    out = x;
    Floats first(size_t{kRows} * kHidden), scaled(first);
    const ops::Tensor streams = TensorOf(out, DType::kF32, {kRows, 2 * kHidden});
    const ops::Tensor routes = Columns(in, 3, 2);
    m.Run<ops::LevelStreams>({.width = kHidden}, {.streams = streams});
    m.Run<ops::PredictStreams>({.width = kHidden, .add = true},
                               {.streams = streams,
                                .added = Columns(in, 0, kHidden),
                                .routes = routes,
                                .coefficients = TensorOf(weight, DType::kF32, {4, 2}),
                                .out = TensorOf(first, DType::kF32, {kRows, kHidden})});
    m.Run<ops::CorrectStreams>({.width = kHidden},
                               {.streams = streams,
                                .x = Columns(in, kHidden, kHidden),
                                .routes = routes,
                                .coefficients = TensorOf(weight, DType::kF32, {2, 2}),
                                .out = TensorOf(scaled, DType::kF32, {kRows, kHidden})});
  });
  both([&](Machine& m, Floats& out) {
    out = x;
    m.Run<ops::SoftCap>({.cap = 0.7f}, {.x = TensorOf(out, DType::kF32, {kRows, 2 * kHidden})});
  });
}

TEST_P(SamenessTest, RecurrencesGiveTheBitsOfAvx2) {
  if (std::get<0>(GetParam()) == Isa::kRef) return;  // the reference sums in another order
  Machine avx2(Isa::kAvx2, 1);
  // Two sequences, the second of which goes on from block 2; a head of 75 rows and 100 columns
  // fills no vector, and there are fewer heads than tasks.
  constexpr int kKey = 75, kValue = 100, kChannels = 2 * kKey + kValue, kStates = 3;
  const Floats x = Noise(size_t{kRows} * kChannels, 10), gates = Noise(size_t{kRows} * 2, 11);
  const Floats taps = Noise(size_t{kChannels} * 4, 12), states = Noise(kStates * kKey * kValue, 13);
  const Ints start = {0, kRows - 40, kRows}, context = {kRows - 40, 64 + 40}, table = {0, 0, 2, 1};
  const auto fill = [&](auto& args) {
    args.query_start = TensorOf(start, DType::kI32, {3});
    args.context = TensorOf(context, DType::kI32, {2});
    args.block_table = TensorOf(table, DType::kI32, {2, 2});
  };
  const Floats rate = {-0.1f};
  const Floats rates(kChannels / 3, -0.2f);
  const auto run = [&](Machine& m) {
    Floats convolved(x.size()), out(size_t{kRows} * kValue), conv_state(states), state(states);
    ops::ShortConv::Args conv;
    conv.x = TensorOf(x, DType::kF32, {kRows, kChannels});
    conv.weight = TensorOf(taps, DType::kF32, {kChannels, 4});
    conv.state = TensorOf(conv_state, DType::kF32, {kStates, 3, kChannels});
    conv.out = TensorOf(convolved, DType::kF32, {kRows, kChannels});
    fill(conv);
    m.Run<ops::ShortConv>({.channels = kChannels, .kernel = 4, .block_tokens = 128}, conv);
    // The same rows with gates, which are two thirds of them.
    constexpr int kGated = kChannels / 3;
    Floats gated(size_t{kRows} * kGated), gated_state(states);
    conv.x.dims[1] = 3 * kGated;
    conv.weight = TensorOf(taps, DType::kF32, {kGated, 4});
    conv.bias = TensorOf(gates, DType::kF32, {kGated});
    conv.state = TensorOf(gated_state, DType::kF32, {kStates, 3, kGated});
    conv.out = TensorOf(gated, DType::kF32, {kRows, kGated});
    m.Run<ops::ShortConv>(
        {.channels = kGated, .kernel = 4, .block_tokens = 128, .gated = true, .bias = true}, conv);
    ops::GatedDelta::Args delta;
    delta.qkv = TensorOf(convolved, DType::kF32, {kRows, kChannels});
    delta.ba = TensorOf(gates, DType::kF32, {kRows, 2});
    delta.dt_bias = TensorOf(taps, DType::kF32, {1});
    delta.a_log = TensorOf(gates, DType::kF32, {1});
    delta.state = TensorOf(state, DType::kF32, {kStates, 1, kKey, kValue});
    delta.out = TensorOf(out, DType::kF32, {kRows, kValue});
    fill(delta);
    m.Run<ops::GatedDelta>(
        {.k_heads = 1, .v_heads = 1, .k_head_dim = kKey, .v_head_dim = kValue, .block_tokens = 128},
        delta);
    Floats decayed(out.size()), decayed_state(states);
    ops::Ssd::Args ssd;
    ssd.vkq = delta.qkv;
    ssd.dt = Columns(delta.ba, 0, 1);
    ssd.dt_bias = delta.dt_bias;
    ssd.a = TensorOf(rate, DType::kF32, {1});
    ssd.skip = delta.dt_bias;
    ssd.state = TensorOf(decayed_state, DType::kF32, {kStates, 1, kKey, kValue});
    ssd.out = TensorOf(decayed, DType::kF32, {kRows, kValue});
    fill(ssd);
    m.Run<ops::Ssd>({.k_heads = 1,
                     .v_heads = 1,
                     .k_head_dim = kKey,
                     .v_head_dim = kValue,
                     .block_tokens = 128,
                     .steps = true,
                     .skip = true},
                    ssd);
    // Rows of the convolution are x, and those of the gates beside others B and C.
    Floats scanned(size_t{kRows} * kGated), scan_state(states);
    ops::SelectiveScan::Args scan;
    scan.x = TensorOf(gated, DType::kF32, {kRows, kGated});
    scan.dt = Columns(delta.qkv, 0, kGated);
    scan.bc = delta.ba;
    scan.dt_bias = scan.skip = TensorOf(taps, DType::kF32, {kGated});
    scan.a = TensorOf(rates, DType::kF32, {kGated, 1});
    scan.state = TensorOf(scan_state, DType::kF32, {kStates, 1, kGated});
    scan.out = TensorOf(scanned, DType::kF32, {kRows, kGated});
    fill(scan);
    m.Run<ops::SelectiveScan>({.channels = kGated, .state_size = 1, .block_tokens = 128}, scan);
    for (const Floats* more : {&convolved, &conv_state, &state, &gated, &gated_state, &decayed,
                               &decayed_state, &scanned, &scan_state})
      out.insert(out.end(), more->begin(), more->end());
    return out;
  };
  const Floats a = run(avx2), b = run(machine_);
  EXPECT_TRUE(SameBits(a.data(), b.data(), a.size()));
}

}  // namespace
}  // namespace sluice::cpu
