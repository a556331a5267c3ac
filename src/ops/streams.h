// A model of several residual streams, of which its layers work on the first alone (AltUp:
// "Alternating Updates for Efficient Transformers", Baykal et al., NeurIPS 2023). The streams of a
// token lie side by side in a row [streams * width], in ResidualDType of the activation type. How
// they mix follows from `routes`, a few numbers of each token, by their hyperbolic tangents:
// mix(row) = sum over k of coefficients[row, k] * tanh(routes[k]).
#pragma once

#include "ops/op.h"
#include "ops/tensor.h"

namespace sluice::ops {

inline constexpr int kStreamsMax = 4;

// Before a layer: stream i += sum over j of stream j * mix(i * streams + j), where all j are as
// they were before; with `add` those behind the first have grown by `added` then.
struct PredictStreams {
  static constexpr std::string_view kName = "predict_streams";
  struct Desc {
    DType activation = DType::kF32;
    int streams = 2;
    int64_t width = 0;
    bool add = false;
    std::string ToString() const;
  };
  struct Args {
    Tensor streams;       // [tokens, streams * width], in place
    Tensor added;         // [tokens, width] of the activation type; empty without add
    Tensor routes;        // F32 [tokens, streams]
    Tensor coefficients;  // F32 [streams * streams, streams]
    Tensor out;           // [tokens, width] of the streams' type: the first of them
  };
};

// Behind a layer, which has made x of the first stream: stream i += (x - the first stream, as it
// was) * (1 + mix(i)).
struct CorrectStreams {
  static constexpr std::string_view kName = "correct_streams";
  struct Desc {
    DType activation = DType::kF32;
    int streams = 2;
    int64_t width = 0;
    bool scaled = false;
    std::string ToString() const;
  };
  struct Args {
    Tensor streams;       // [tokens, streams * width], in place
    Tensor x;             // [tokens, width] of the streams' type
    Tensor routes;        // F32 [tokens, streams]
    Tensor coefficients;  // F32 [streams, streams]
    Tensor scale;         // F32 [width]; empty unless scaled
    Tensor out;           // [tokens, width] of the activation type: the first stream (* scale)
  };
};

// Each stream behind the first times the root mean square of the first over its own, whose square
// counts as 1e-5 at least. With `mean` they stay, and out is the mean of all streams so leveled.
struct LevelStreams {
  static constexpr std::string_view kName = "level_streams";
  struct Desc {
    DType activation = DType::kF32;
    int streams = 2;
    int64_t width = 0;
    bool mean = false;
    std::string ToString() const;
  };
  struct Args {
    Tensor streams;  // [tokens, streams * width], in place
    Tensor out;      // [tokens, width] of the streams' type; empty without mean
  };
};
inline constexpr float kMeanSquareMin = 1e-5f;

// The shape rules of a call; what every implementation checks first.
Status CheckArgs(const PredictStreams::Desc& desc, const PredictStreams::Args& args);
Status CheckArgs(const CorrectStreams::Desc& desc, const CorrectStreams::Args& args);
Status CheckArgs(const LevelStreams::Desc& desc, const LevelStreams::Args& args);

Support RefPredictStreamsSupports(const PredictStreams::Desc& desc,
                                  const device::DeviceFacts& facts);
Status RefPredictStreams(device::Stream& stream, const PredictStreams::Desc& desc,
                         const PredictStreams::Args& args);
Support RefCorrectStreamsSupports(const CorrectStreams::Desc& desc,
                                  const device::DeviceFacts& facts);
Status RefCorrectStreams(device::Stream& stream, const CorrectStreams::Desc& desc,
                         const CorrectStreams::Args& args);
Support RefLevelStreamsSupports(const LevelStreams::Desc& desc, const device::DeviceFacts& facts);
Status RefLevelStreams(device::Stream& stream, const LevelStreams::Desc& desc,
                       const LevelStreams::Args& args);

}  // namespace sluice::ops
