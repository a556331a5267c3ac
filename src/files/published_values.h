// What published models use where their files say nothing, for the values that config.json and GGUF
// metadata both leave out. Those that only config.json leaves out stand in architectures.cc.
#pragma once

namespace sluice::files {

// Of scores and of logits.
inline constexpr float kGemma2AttentionCap = 50.0f;
inline constexpr float kGemma2LogitCap = 30.0f;
// RoPE's base in the layers that see a window.
inline constexpr float kGemma3LocalTheta = 10000.0f;
// Every n-th layer has no RoPE.
inline constexpr int kSmolLM3NoRopePeriod = 4;

}  // namespace sluice::files
