// Bounds and cross-checks of a ModelConfig that hold whichever file it came from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "files/model_config.h"
#include "files/tensor_source.h"
#include "sluice/limits.h"
#include "sluice/status.h"

namespace sluice::files {

struct IntRange {
  int64_t min;
  int64_t max;
};
inline constexpr IntRange kVocabRange{1, 1 << 22};
inline constexpr IntRange kHiddenRange{1, 1 << 17};
inline constexpr IntRange kLayersRange{1, 1024};
inline constexpr IntRange kHeadsRange{1, 1024};
inline constexpr IntRange kMtpHeadsRange{0, 64};
inline constexpr IntRange kHeadDimRange{2, 4096};
inline constexpr IntRange kLinearHeadDimRange{1, 1024};
inline constexpr IntRange kConvKernelRange{2, 8};
inline constexpr int64_t kLayerStateMax = int64_t{1} << 28;  // numbers
inline constexpr IntRange kIntermediateRange{1, 1 << 20};
inline constexpr IntRange kContextRange{1, 1 << 28};
inline constexpr IntRange kAltUpStreamsRange{2, 4};
inline constexpr IntRange kTokenTypesRange{1, 16};
inline constexpr IntRange kExpertsRange{0, 1024};  // 0: none
inline constexpr IntRange kExpertsPerTokenRange{1, 64};

struct RealRange {
  double min;
  double max;
};
// A model's own sampling defaults may be what a request may ask for, both ends included: published
// files say a share of 0 beside greedy sampling.
constexpr RealRange DefaultsIn(limits::Range range) { return {range.low, range.high}; }
// The same of whole numbers, which count tokens; -1 is how some files say "off".
constexpr IntRange WholeDefaultsIn(limits::Range range) {
  return {static_cast<int64_t>(std::max(range.low, -1.0)),
          static_cast<int64_t>(std::min(range.high, static_cast<double>(kVocabRange.max)))};
}
inline constexpr RealRange kNormEpsRange{1e-20, 0.1};
inline constexpr RealRange kThetaRange{1.001, 1e12};
inline constexpr RealRange kRopeFactorRange{1e-3, 1e6};
inline constexpr RealRange kAttentionScaleRange{1e-6, 1e3};
inline constexpr RealRange kFactorRange{1e-6, 1e6};  // of embeddings, residuals and logits
inline constexpr RealRange kAlibiBiasMaxRange{1e-3, 64.0};
inline constexpr RealRange kSoftCapRange{1e-3, 1e6};

// The last step of reading a config: checks what involves several fields (heads against KV heads,
// the width of rotation, RoPE's lists, one LayerConfig per layer, token ids), and drops eos_ids
// beyond the vocabulary, which no logit can ever choose. kBadModel with one sentence.
Status FinishConfig(ModelConfig* config);

// Of a model whose layers are all of Mamba or Mamba-2: they have neither attention, whose heads
// become as small as they may be, nor a feed-forward part. REQUIRES: there is a LayerConfig for
// each layer.
void MakeMambaAlone(ModelConfig* config);

// Of a model whose layers have Mamba-2 and attention side by side: each becomes two layers, that of
// Mamba-2, and beside it that of attention, which has the feed-forward part.
void MakeMambaBeside(ModelConfig* config);

// Refuses a vocabulary by which ArchitectureInfo::normalized_head_vocab tells another output
// matrix.
Status RefuseNormalizedHead(const ModelConfig& config, int normalized_head_vocab);

// What a model with this RoPE can attend to, when `declared` is its max_position_embeddings: the
// files of linear, dynamic and YaRN scaling declare the unscaled length.
int ScaledContext(const RopeConfig& rope, int declared);

// The format of most elements; kF32 when there are no tensors.
DType MostCommonDType(const std::vector<FileTensor>& tensors);

}  // namespace sluice::files
