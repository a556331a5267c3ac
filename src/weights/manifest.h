// What parameters a model has, and which tensors of a checkpoint they come from. An architecture
// declares ParamSpecs (model/<arch>_params.cc); Resolve finds and checks their tensors. Plain
// values; any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/model_config.h"
#include "files/tensor_source.h"
#include "ops/linear.h"
#include "sluice/status.h"
#include "weights/derived_matrix.h"

namespace sluice::weights {

enum class Naming : uint8_t { kHuggingFace, kGguf };

enum class ParamRole : uint8_t {
  kLinear,     // [rows, columns], in the packed layout that the bound Linear asks for
  kExperts,    // as kLinear, for GroupedLinear: the rows of each expert, one expert after another
  kEmbedding,  // [rows, columns], row-major in its stored format
  kNorm,       // [rows], F32
  kTaps,       // as kTable, of a convolution over tokens; stored as [rows, 1, columns] but in GGUF
  kTable,      // [rows, columns], F32: of numbers that a kernel looks up
  kBias,       // [rows], of the activation type
};

// Rows of a matrix that lies in groups of equally many rows, as checkpoints interleave what is
// computed together, head by head: [begin, begin + count) of each group, groups ascending.
struct RowPick {
  int64_t groups = 0;  // 0: the matrix as it is
  int64_t group_rows = 0;
  int64_t begin = 0, count = 0;
  // Only those groups from `first` on, so many of them; 0: all.
  int64_t first = 0, only = 0;

  int64_t rows() const { return (only > 0 ? only : groups) * count; }
};

// One tensor of the checkpoint, or some rows of a matrix; several are stacked by rows.
struct ParamSource {
  std::string name;
  int64_t rows = 0;   // that are taken
  RowPick pick = {};  // not kEmbedding; of experts one expert's rows of a tensor that has all's
  // Where matrices lie as columns: rows of the tensor, of which each group's are a matrix whose
  // columns they are. `pick` is then of rows of these matrices, one after the other. No groups: no.
  RowPick transposed = {};

  // Of the whole tensor.
  int64_t tensor_rows() const { return pick.groups > 0 ? pick.groups * pick.group_rows : rows; }
};
using SourceList = std::vector<ParamSource>;

struct ParamSpec {
  std::string name;  // ours, without the checkpoint's spelling: "layers.0.attention.qkv"
  ParamRole role = ParamRole::kLinear;
  int64_t rows = 0;
  int64_t columns = 0;  // 0: a vector
  // Alternatives in order of preference; the first whose tensors are all there is taken.
  std::vector<SourceList> hugging_face, gguf;
  bool hugging_face_adds_one = false;  // norms of Gemma: the checkpoint has weight - 1, GGUF weight
  // Of vectors and tables: the checkpoint has log(-x), GGUF x (Mamba's A).
  bool hugging_face_log = false;
  bool gguf_divided = false;  // of vectors: GGUF may have it in rows of equally many numbers
  // Of matrices: each group that the picks of the sources name is in GGUF a matrix of its own, all
  // in one tensor.
  bool gguf_stacked = false;
  float factor = 1.0f;  // of vectors: what the checkpoint's values are multiplied by
  // kTaps: what the values of each row are multiplied by; empty: nothing.
  std::vector<float> row_factors = {};
  // kExperts, and kBias of such: their number; `rows` are those of all of them. The sources are
  // those of the first expert, of the second, and so on, equally many of each.
  int experts = 0;
  int experts_per_token = 0;
  // The same: the expert that each slot holds, where experts lie in slots; empty: in their order.
  // Once resolved, `experts` is the number of slots, `rows` are those of all, and the sources are
  // those of each slot's expert; `stored_experts` is what `experts` was.
  std::vector<int32_t> slot_experts = {};
  int stored_experts = 0;
  // kExperts that are heads: as in ops::GroupedLinear::Desc.
  bool by_columns = false;
  int64_t x_step = 0, out_step = 0;
  // kLinear and kExperts: how it is used, for choosing the kernel.
  bool bias = false, residual = false, f32_out = false;
  bool begins_residual = false;  // what it gives is the residual stream that others add to
};

// A ParamSpec with its tensors. Points into the source.
struct ResolvedParam {
  ParamSpec spec;
  SourceList sources;                             // of `spec`, the alternative that was taken
  std::vector<const files::FileTensor*> tensors;  // by source; one may be there several times
  std::vector<SourceScales> scales;               // by source; of matrices
  // By source: null, or the matrix that `tensors` has the stand-in of.
  std::vector<std::shared_ptr<const DerivedMatrix>> derived;
  bool add_one = false;
  bool negated_log = false;  // of a vector: the tensor has log(-x)
};

// The spec that was resolved, for resolving it again.
ParamSpec Unresolved(ParamSpec spec);

// kBadModel with one sentence: a tensor that is missing, one whose shape does not fit the config
// (both shapes), a number format that its role does not allow, scales that are missing, misshapen
// or no scales.
// With a `quantization` F8 matrices must have scales; without one they may.
Result<ResolvedParam> Resolve(const ParamSpec& spec, const files::TensorSource& source,
                              Naming naming,
                              const std::optional<files::F8Quantization>& quantization = {});
// All of them, in order.
Result<std::vector<ResolvedParam>> Resolve(
    const std::vector<ParamSpec>& specs, const files::TensorSource& source, Naming naming,
    const std::optional<files::F8Quantization>& quantization = {});

}  // namespace sluice::weights
