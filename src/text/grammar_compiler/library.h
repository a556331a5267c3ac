// XGrammar's objects as bytes: a vocabulary, and a compiled grammar with its masks. Bytes pass
// between two programs of one build, so that numbers keep the machine's form. Pure functions.
#pragma once

#include <xgrammar/xgrammar.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

// `pieces`: the bytes of each token; those without bytes are never drawn. `end_ids`: those that end
// an answer.
std::string WriteVocabulary(std::span<const std::string> pieces, std::span<const int32_t> end_ids);
std::optional<xgrammar::TokenizerInfo> ReadVocabulary(std::string_view bytes);

// Its rules that an empty text fits.
size_t EmptyRules(const xgrammar::CompiledGrammar& compiled);
std::string WriteCompiled(const xgrammar::CompiledGrammar& compiled);
// Nothing where the bytes are not those of a grammar for this vocabulary.
std::optional<xgrammar::CompiledGrammar> ReadCompiled(std::string_view bytes,
                                                      const xgrammar::TokenizerInfo& vocabulary);

// Sets the bit of each token that may follow, token i in bit i % 32 of word i / 32, and clears
// those of the others.
void FillMask(std::span<uint32_t> allowed, xgrammar::GrammarMatcher* matcher);

}  // namespace sluice::text
