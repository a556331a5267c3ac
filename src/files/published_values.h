// What published models use where their files say nothing, for the values that config.json and GGUF
// metadata both leave out. Those that only config.json leaves out stand in architectures.cc.
#pragma once

namespace sluice::files {

// Soft caps of Gemma 2, on attention's scores and on logits.
inline constexpr float kGemma2AttentionCap = 50.0f;
inline constexpr float kGemma2LogitCap = 30.0f;
// Gemma 3's RoPE has this base in the layers that see a window.
inline constexpr float kLocalTheta = 10000.0f;
// SmolLM3: the last of every so many layers has no RoPE.
inline constexpr int kSmolLM3NoRopePeriod = 4;

// ALiBi's smallest slope is 2^-this.
inline constexpr float kAlibiBiasMax = 8.0f;
// Llama 4: after how many tokens queries without RoPE grow, and by how much.
inline constexpr int kLlama4GrowthTokens = 8192;
inline constexpr float kLlama4GrowthScale = 0.1f;

// Gemma 3n: the cap of logits, residual streams, and the share of the gate's numbers that the first
// layers of a model with more than so many leave out. llama.cpp takes layers behind the first 20
// for those that read the KV of others.
inline constexpr float kGemma3nLogitCap = 30.0f;
inline constexpr int kGemma3nStreams = 4;
inline constexpr float kGemma3nSparsity = 0.95f;
inline constexpr int kGemma3nSparseLayers = 10;
inline constexpr int kGemma3nOwnKvLayers = 20;

}  // namespace sluice::files
