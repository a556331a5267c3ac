#include "backend/cpu/attention/attention.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <numeric>

#include "backend/cpu/kernel_support.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/thread_pool.h"

namespace sluice::cpu {
namespace {

using ops::Attention;

// Tasks per thread that even out their different lengths.
constexpr int kTasksPerThread = 4;

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

AttentionCache CacheOf(const ops::Tensor& data, const ops::Tensor& scales) {
  return {data.data, scales.ptr<float>(), data.strides[0], scales.strides[0]};
}

AttentionCall MakeCall(const AttentionTiling& tiling, const Attention::Desc& desc,
                       const Attention::Args& args, int out_from, int tile_tokens) {
  const int group = desc.q_heads / desc.kv_heads;
  return {.q = args.q.ptr<float>(),
          .out = args.out.ptr<float>(),
          .sinks = desc.sinks ? args.sinks.ptr<float>() : nullptr,
          .slopes = desc.alibi ? args.slopes.ptr<float>() : nullptr,
          .k = CacheOf(args.kv.k, args.kv.k_scale),
          .v = CacheOf(args.kv.v, args.kv.v_scale),
          .q_stride = args.q.strides[0],
          .out_stride = args.out.strides[0],
          .block_tokens = desc.kv.kernel_block_tokens,
          .group = group,
          .kv_heads = desc.kv_heads,
          .head_dim = desc.head_dim,
          .out_from = out_from,
          .rows_max = static_cast<int>(RoundUp(int64_t{tile_tokens} * group, tiling.rows_step)),
          .scale = ops::ScaleOf(desc),
          .soft_cap = desc.soft_cap.value_or(0.0f),
          .causal = desc.causal,
          .window = desc.window,
          .chunked = desc.chunked,
          .growth_tokens = desc.growth_tokens,
          .growth_scale = desc.growth_scale};
}

struct SplitRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
SplitRange SplitsOf(const AttentionCall& call, const AttentionTile& tile) {
  const Visible visible = VisibleOfTile(call, tile);
  return {visible.first / kSplitTokens, (visible.end + kSplitTokens - 1) / kSplitTokens};
}

// The lists of a step's rows, if they have some: [tokens, listed_max].
using Lists = ops::Tensor;

// Makes the tile, of one token, one over the token's list.
void TakeList(const Lists& lists, AttentionTile* tile) {
  tile->listed = lists.ptr<int32_t>() + tile->token * lists.strides[0];
  tile->context = ops::ListedOf(lists, tile->token);
  tile->position = tile->context - 1;
}

// Calls body(tile) for the tiles of a step, those with the longest history of a sequence first.
template <class Body>
void ForTiles(const AttentionCall& call, const Attention::Args& args, const Lists& lists,
              int tile_tokens, const Body& body) {
  const int32_t* start = args.query_start.ptr<int32_t>();
  for (int64_t s = 0; s < args.context.dims[0]; ++s) {
    const int count = start[s + 1] - start[s];
    AttentionTile tile;
    tile.blocks = args.block_table.ptr<int32_t>() + s * args.block_table.strides[0];
    tile.context = args.context.ptr<int32_t>()[s];
    int end = count;
    // What is aside of the first branch, row by row.
    for (; end > 0 && !args.paths.empty(); --end) {
      const int32_t* const path = ops::PathOf(args.paths, start[s] + end - 1);
      if (path[0] == 0) break;
      tile.tokens = 1;
      tile.token = start[s] + end - 1;
      tile.position = tile.context - count + end - 1 - ops::AsideOf(path);
      tile.path = path + 1;
      tile.path_from = tile.position + 1 - path[0];
      for (tile.kv_head = 0; tile.kv_head < call.kv_heads; ++tile.kv_head) body(tile);
    }
    tile.path = nullptr;
    for (; end > 0; end -= tile.tokens) {
      tile.tokens = std::min(tile_tokens, end);
      tile.token = start[s] + end - tile.tokens;
      if (lists.empty()) {
        tile.position = tile.context - count + end - tile.tokens;
      } else {
        TakeList(lists, &tile);
      }
      for (tile.kv_head = 0; tile.kv_head < call.kv_heads; ++tile.kv_head) body(tile);
    }
  }
}

struct Task {
  AttentionTile tile;
  SplitRange splits;
  float* states = nullptr;  // by split; one for each split of the tile
  int64_t left = 0;         // by split: splits that are not done
};

struct Unit {
  Task* task = nullptr;
  int64_t split = 0;
};

// What a call needs, counted before anything is laid out in the stream's scratch.
struct Needs {
  int64_t tiles = 0, splits = 0;
};

Needs CountNeeds(const AttentionCall& call, const Attention::Args& args, const Lists& lists,
                 int tile_tokens) {
  Needs needs;
  ForTiles(call, args, lists, tile_tokens, [&](const AttentionTile& tile) {
    ++needs.tiles;
    needs.splits += SplitsOf(call, tile).size();
  });
  return needs;
}

// Memory of a call, in the stream's scratch; every part starts on a cache line.
class Layout {
 public:
  template <class T>
  T* Take(std::byte* base, int64_t count) {
    T* out = base == nullptr ? nullptr : reinterpret_cast<T*>(base + bytes_);
    bytes_ += static_cast<size_t>(RoundUp(count * static_cast<int64_t>(sizeof(T)), 64));
    return out;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// Hands out [0, count): each thread goes through a part of its own in order, so that it knows what
// comes next, and then helps with what is left of the others'.
class Parts {
 public:
  struct alignas(64) Cursor {
    std::atomic<int64_t> next;
  };
  struct Turn {
    int64_t index = 0;
    bool goes_on = false;  // the thread's next turn is probably index + 1
  };

  // `cursors`: one for each thread.
  Parts(int64_t count, int threads, Cursor* cursors)
      : count_(count), threads_(threads), cursors_(cursors) {
    for (int part = 0; part < threads; ++part)
      new (&cursors[part]) Cursor{ShareOf(count, part, threads).begin};
  }
  // False: nothing is left.
  bool Take(int thread, Turn* turn) {
    for (int i = 0; i < threads_; ++i) {
      const int part = (thread + i) % threads_;
      const int64_t end = ShareOf(count_, part, threads_).end;
      turn->index = cursors_[part].next.fetch_add(1, std::memory_order_relaxed);
      turn->goes_on = turn->index + 1 < end;
      if (turn->index < end) return true;
    }
    return false;
  }

 private:
  const int64_t count_;
  const int threads_;
  Cursor* cursors_;
};

struct Memory {
  Task* tasks = nullptr;             // [tiles]
  float* thread = nullptr;           // [threads, thread_floats]: state, total, work
  Parts::Cursor* cursors = nullptr;  // [threads]
  Unit* units = nullptr;             // by split: all splits of all tiles
  float* states = nullptr;           // by split: their states
  float* bias = nullptr;             // AttentionCall::bias
  int64_t thread_floats = 0;
  size_t bytes = 0;
};

int64_t RoundToLine(int64_t floats) { return RoundUp(floats, 16); }

Memory LayOut(const AttentionCall& call, const Needs& needs, int64_t thread_floats, bool by_split,
              int threads, std::byte* base) {
  Layout layout;
  Memory memory;
  memory.thread_floats = thread_floats;
  memory.tasks = layout.Take<Task>(base, needs.tiles);
  memory.thread = layout.Take<float>(base, thread_floats * threads);
  memory.cursors = layout.Take<Parts::Cursor>(base, threads);
  memory.units = layout.Take<Unit>(base, by_split ? needs.splits : 0);
  memory.states =
      layout.Take<float>(base, by_split ? needs.splits * RoundToLine(StateFloats(call)) : 0);
  memory.bias =
      layout.Take<float>(base, 2 * call.bias_tokens * int64_t{call.group} * call.kv_heads);
  memory.bytes = layout.bytes();
  return memory;
}

AttentionAhead AheadOf(const AttentionCall& call, const Task& task, int64_t split) {
  const int64_t first = VisibleOfTile(call, task.tile).first / kBlockTokens * kBlockTokens;
  return {&task.tile, std::max(first, split * kSplitTokens)};
}

// One tile from its first split to its last on one thread, which then comes to `next`, if it is
// not null.
void RunTile(const AttentionKernel& kernel, const AttentionCall& call, const Task& task,
             const Task* next, float* thread) {
  float* state = thread;
  float* total = state + RoundToLine(StateFloats(call));
  float* work = total + RoundToLine(StateFloats(call));
  kernel.begin(call, task.tile, work);
  for (int64_t split = task.splits.begin; split < task.splits.end; ++split) {
    AttentionAhead ahead;
    if (split + 1 < task.splits.end) {
      ahead = AheadOf(call, task, split + 1);
    } else if (next != nullptr) {
      ahead = AheadOf(call, *next, next->splits.begin);
    }
    kernel.split(call, task.tile, split, ahead, state, work);
    kernel.merge(call, task.tile, split, state, total);
  }
  kernel.finish(call, task.tile, total);
}

void RunByTile(const AttentionKernel& kernel, const AttentionCall& call, int64_t tiles,
               const Memory& memory, ThreadPool& pool) {
  Parts parts(tiles, pool.threads(), memory.cursors);
  pool.Run([&](int thread, int) {
    float* thread_memory = memory.thread + thread * memory.thread_floats;
    for (Parts::Turn turn; parts.Take(thread, &turn);) {
      const Task& task = memory.tasks[turn.index];
      RunTile(kernel, call, task, turn.goes_on ? &task + 1 : nullptr, thread_memory);
    }
  });
}

// Every split of every tile is a unit of its own; who ends the last of a tile's merges them in
// order, as RunTile does it.
void RunBySplit(const AttentionKernel& kernel, const AttentionCall& call, const Needs& needs,
                const Memory& memory, ThreadPool& pool) {
  const int64_t state_floats = RoundToLine(StateFloats(call));
  Parts parts(needs.splits, pool.threads(), memory.cursors);
  pool.Run([&](int thread, int) {
    float* total = memory.thread + thread * memory.thread_floats;
    float* work = total + 2 * state_floats;
    const Task* begun = nullptr;
    for (Parts::Turn turn; parts.Take(thread, &turn);) {
      const Unit unit = memory.units[turn.index];
      const Task& task = *unit.task;
      AttentionAhead ahead;
      if (turn.goes_on) {
        const Unit& next = memory.units[turn.index + 1];
        ahead = AheadOf(call, *next.task, next.split);
      }
      if (begun != &task) kernel.begin(call, task.tile, work);
      begun = &task;
      const auto state_of = [&](int64_t split) {
        return task.states + (split - task.splits.begin) * state_floats;
      };
      kernel.split(call, task.tile, unit.split, ahead, state_of(unit.split), work);
      if (std::atomic_ref(unit.task->left).fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
      for (int64_t split = task.splits.begin; split < task.splits.end; ++split)
        kernel.merge(call, task.tile, split, state_of(split), total);
      kernel.finish(call, task.tile, total);
    }
  });
}

int64_t LongestContext(const Attention::Args& args) {
  int64_t longest = 0;
  for (int64_t s = 0; s < args.context.dims[0]; ++s)
    longest = std::max<int64_t>(longest, args.context.ptr<int32_t>()[s]);
  return longest;
}

// Fills AttentionCall::bias from the numbers of the buckets.
void SpreadBias(const Attention::Desc& desc, const Attention::Args& args, int64_t tokens,
                float* out) {
  for (int64_t distance = -tokens; distance < tokens; ++distance) {
    const int64_t bucket = ops::BiasBucket(desc.bias_buckets, distance);
    const float* numbers = args.bias.ptr<float>() + bucket * args.bias.strides[0];
    for (int64_t head = 0; head < desc.q_heads; ++head)
      out[(2 * head + 1) * tokens + distance] = numbers[head];
  }
}

}  // namespace

AttentionPlan PlanAttention(const AttentionTiling& tiling, int64_t query_tokens, int64_t sequences,
                            int kv_heads, int group, int64_t splits, int threads) {
  AttentionPlan plan;
  const int64_t wanted = int64_t{kTasksPerThread} * threads;
  const int64_t even = query_tokens * kv_heads / wanted + 1;
  const int64_t most = std::max(1, tiling.rows / group);
  const int64_t least = std::max(1, tiling.rows_small / group);
  int64_t tokens = std::clamp(even, least, most);
  // Tiles without rows to spare, where they are long enough.
  const int64_t step = tiling.rows_step / std::gcd(tiling.rows_step, group);
  if (tokens > step)
    tokens = RoundUp(tokens, step) <= most ? RoundUp(tokens, step) : tokens / step * step;
  plan.tile_tokens = static_cast<int>(std::max<int64_t>(1, std::min(tokens, query_tokens)));
  const int64_t tiles = std::max(sequences, query_tokens / plan.tile_tokens) * kv_heads;
  plan.by_split = threads > 1 && splits > 1 && tiles < wanted;
  return plan;
}

namespace {

// Attention of checked arguments, without the first `out_from` numbers of each head's result.
Status Attend(const AttentionKernels& kernels, device::Stream& stream, const Attention::Desc& desc,
              const Attention::Args& args, const Lists& lists, int out_from) {
  CpuStream& cpu = AsCpu(stream);
  const int threads = cpu.pool().threads();
  const int64_t sequences = args.context.dims[0];
  const int64_t longest =
      lists.empty() ? LongestContext(args) : std::min(LongestContext(args), lists.dims[1]);
  // Tokens with lists of their own share no tile.
  AttentionTiling tiling = kernels.tiling;
  if (!lists.empty()) tiling.rows = tiling.rows_small = 1;
  const AttentionPlan plan = PlanAttention(tiling, args.query_start.ptr<int32_t>()[sequences],
                                           sequences, desc.kv_heads, desc.q_heads / desc.kv_heads,
                                           (longest + kSplitTokens - 1) / kSplitTokens, threads);
  AttentionCall call = MakeCall(kernels.tiling, desc, args, out_from, plan.tile_tokens);
  if (desc.bias_buckets > 0) call.bias_tokens = RoundUp(LongestContext(args), kBlockTokens);
  const Needs needs = CountNeeds(call, args, lists, plan.tile_tokens);
  if (needs.tiles == 0) return OkStatus();

  const int64_t thread_floats =
      2 * RoundToLine(StateFloats(call)) + RoundToLine(kernels.work_floats(call));
  const size_t bytes = LayOut(call, needs, thread_floats, plan.by_split, threads, nullptr).bytes;
  std::byte* base = cpu.Scratch(bytes);
  if (base == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat("attention needs ", bytes, " bytes of scratch memory"));
  }
  const Memory memory = LayOut(call, needs, thread_floats, plan.by_split, threads, base);
  if (desc.bias_buckets > 0) {
    SpreadBias(desc, args, call.bias_tokens, memory.bias);
    call.bias = memory.bias;
  }
  Task* task = memory.tasks;
  Unit* unit = memory.units;
  float* states = memory.states;
  ForTiles(call, args, lists, plan.tile_tokens, [&](const AttentionTile& tile) {
    const SplitRange splits = SplitsOf(call, tile);
    *task = {tile, splits, states, splits.size()};
    if (plan.by_split) {
      states += splits.size() * RoundToLine(StateFloats(call));
      for (int64_t split = splits.begin; split < splits.end; ++split) *unit++ = {task, split};
    }
    ++task;
  });

  const AttentionKernel& kernel = KernelForKv(kernels, desc.kv.dtype);
  if (plan.by_split) {
    RunBySplit(kernel, call, needs, memory, cpu.pool());
  } else if (plan.tile_tokens * call.group <= kernels.tiling.rows_small) {
    RunByTile(kernel, call, needs.tiles, memory, cpu.pool());
  } else {
    // Tiles of a prompt take their different time; what comes next is a small part of it.
    cpu.pool().ParallelFor(needs.tiles, [&](int64_t i, int thread) {
      RunTile(kernel, call, memory.tasks[i], nullptr,
              memory.thread + thread * memory.thread_floats);
    });
  }
  return OkStatus();
}

}  // namespace

Status RunAttention(const AttentionKernels& kernels, device::Stream& stream,
                    const Attention::Desc& desc, const Attention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  return Attend(kernels, stream, desc, args, {}, 0);
}

Status RunLatentAttention(const AttentionKernels& kernels, device::Stream& stream,
                          const ops::LatentAttention::Desc& desc,
                          const ops::LatentAttention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  SLUICE_RETURN_IF_ERROR(CheckIndices(desc, args));
  Attention::Args whole_args = WholeRows(args);
  whole_args.out = args.out;
  return Attend(kernels, stream, WholeRows(desc), whole_args,
                desc.listed_max > 0 ? args.listed : Lists(), desc.key_width - desc.value_width);
}

}  // namespace sluice::cpu
