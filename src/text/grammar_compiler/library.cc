#include "text/grammar_compiler/library.h"

#include <compiled_grammar_impl.h>

#include <cstring>
#include <type_traits>
#include <utility>

namespace sluice::text {
namespace {

using Masks = decltype(xgrammar::CompiledGrammar::Impl::adaptive_token_mask_cache);
using GrammarImpl = xgrammar::Grammar::Impl;
using Mask = xgrammar::AdaptiveTokenMask;
using Bitset = xgrammar::DynamicBitset;

class RuleWriter {
 public:
  template <class Value>
  void Put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(Value));
    std::memcpy(bytes_.data() + at, &value, sizeof(Value));
  }
  void PutText(std::string_view text) {
    Put(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  template <class Int>
  void PutInts(std::span<const Int> ints) {
    PutText({reinterpret_cast<const char*>(ints.data()), ints.size_bytes()});
  }
  template <class Int>
  void PutInts(const std::vector<Int>& ints) {
    PutInts(std::span<const Int>(ints));
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what Writer wrote; after bytes that are too few it gives zeros and is not ok.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class Value>
  Value Get() {
    Value value{};
    const std::string_view taken = Take(sizeof(Value));
    if (!taken.empty()) std::memcpy(&value, taken.data(), sizeof(Value));
    return value;
  }
  std::string_view GetText() { return Take(Get<uint32_t>()); }
  template <class Int = int32_t>
  std::vector<Int> GetInts() {
    const std::string_view taken = GetText();
    std::vector<Int> ints(taken.size() / sizeof(Int));
    if (!ints.empty()) std::memcpy(ints.data(), taken.data(), ints.size() * sizeof(Int));
    return ints;
  }
  bool ok() const { return ok_; }

 private:
  std::string_view Take(size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

// Which members the library itself would write, by its table of them; the automata of the rules are
// left out, since each would hold the automaton of all rules again.
template <class Visit>
void VisitMembers(Visit&& visit) {
  xgrammar::visit_config<GrammarImpl>([&](auto member, const char* name, size_t) {
    if constexpr (!std::is_same_v<decltype(member), decltype(&GrammarImpl::per_rule_fsms)>) {
      visit(member, name);
    }
  });
}

void PutGrammar(const GrammarImpl& grammar, RuleWriter* writer) {
  picojson::object json;
  VisitMembers([&](auto member, const char* name) {
    json[name] = xgrammar::AutoSerializeJSONValue(grammar.*member);
  });
  writer->PutText(picojson::value(std::move(json)).serialize());
  writer->Put(static_cast<uint32_t>(grammar.per_rule_fsms.size()));
  for (const auto& fsm : grammar.per_rule_fsms) {
    writer->Put(fsm.has_value());
    if (!fsm) continue;
    writer->Put(fsm->GetFsm().GetStart());
    writer->PutInts(fsm->GetFsm().GetEnds());
    writer->Put(fsm->GetEdgeNum());
    writer->Put(fsm->GetNodeNum());
  }
}

std::optional<xgrammar::Grammar> GetGrammar(Reader* reader) {
  picojson::value json;
  const std::string text(reader->GetText());
  if (!picojson::parse(json, text).empty() || !json.is<picojson::object>()) return std::nullopt;
  const picojson::object& members = json.get<picojson::object>();
  auto grammar = std::make_shared<GrammarImpl>();
  bool ok = true;
  VisitMembers([&](auto member, const char* name) {
    const auto found = members.find(name);
    ok = ok && found != members.end() &&
         !xgrammar::AutoDeserializeJSONValue(&(grammar.get()->*member), found->second);
  });
  if (!ok) return std::nullopt;
  for (uint32_t left = reader->Get<uint32_t>(); left > 0 && reader->ok(); --left) {
    auto& fsm = grammar->per_rule_fsms.emplace_back();
    if (!reader->Get<bool>()) continue;
    const int start = reader->Get<int>();
    const std::vector<int32_t> ends = reader->GetInts();
    const int edges = reader->Get<int>();
    const int nodes = reader->Get<int>();
    fsm.emplace(xgrammar::CompactFSMWithStartEnd(grammar->complete_fsm, start, ends), edges, nodes);
  }
  return xgrammar::Grammar(std::move(grammar));
}

void PutMask(const Mask& mask, RuleWriter* writer) {
  writer->Put(mask.store_type);
  writer->PutInts(mask.accepted_indices);
  writer->PutInts(mask.rejected_indices);
  writer->PutInts(mask.uncertain_indices);
  // A bitset over words of ours is the way to the words of another.
  const int bits = mask.accepted_bitset.Size();
  std::vector<uint32_t> words(static_cast<size_t>(Bitset::GetBufferSize(bits)));
  if (bits > 0) Bitset(bits, words.data()) |= mask.accepted_bitset;
  writer->Put(bits);
  writer->PutInts(words);
}

Mask GetMask(Reader* reader) {
  Mask mask;
  mask.store_type = reader->Get<Mask::StoreType>();
  mask.accepted_indices = reader->GetInts();
  mask.rejected_indices = reader->GetInts();
  mask.uncertain_indices = reader->GetInts();
  const int bits = reader->Get<int>();
  std::vector<uint32_t> words = reader->GetInts<uint32_t>();
  if (bits > 0 && words.size() == static_cast<size_t>(Bitset::GetBufferSize(bits))) {
    mask.accepted_bitset = Bitset(bits);
    mask.accepted_bitset |= Bitset(bits, words.data());
  }
  return mask;
}

}  // namespace

std::string WriteVocabulary(std::span<const std::string> pieces, std::span<const int32_t> end_ids) {
  RuleWriter writer;
  writer.PutInts(end_ids);
  writer.Put(static_cast<uint32_t>(pieces.size()));
  for (const std::string& piece : pieces) writer.PutText(piece);
  return writer.Take();
}

std::optional<xgrammar::TokenizerInfo> ReadVocabulary(std::string_view bytes) {
  Reader reader(bytes);
  const std::vector<int32_t> end_ids = reader.GetInts();
  std::vector<std::string> pieces;
  for (uint32_t left = reader.Get<uint32_t>(); left > 0 && reader.ok(); --left) {
    pieces.emplace_back(reader.GetText());
  }
  if (!reader.ok()) return std::nullopt;
  const int size = static_cast<int>(pieces.size());
  return xgrammar::TokenizerInfo(pieces, xgrammar::VocabType::RAW, size, end_ids);
}

size_t EmptyRules(const xgrammar::CompiledGrammar& compiled) {
  return compiled->grammar->allow_empty_rule_ids.size();
}

std::string WriteCompiled(const xgrammar::CompiledGrammar& compiled) {
  RuleWriter writer;
  PutGrammar(*compiled->grammar.ImplPtr(), &writer);
  const Masks& masks = compiled->adaptive_token_mask_cache;
  writer.Put(static_cast<uint32_t>(masks.size()));
  for (const auto& [state, mask] : masks) {
    writer.Put(state);
    PutMask(mask, &writer);
  }
  return writer.Take();
}

std::optional<xgrammar::CompiledGrammar> ReadCompiled(std::string_view bytes,
                                                      const xgrammar::TokenizerInfo& vocabulary) {
  Reader reader(bytes);
  auto grammar = GetGrammar(&reader);
  if (!grammar) return std::nullopt;
  auto compiled = std::make_shared<xgrammar::CompiledGrammar::Impl>();
  compiled->grammar = *std::move(grammar);
  compiled->tokenizer_info = vocabulary;
  for (uint32_t left = reader.Get<uint32_t>(); left > 0 && reader.ok(); --left) {
    const auto state = reader.Get<xgrammar::ParserState>();
    compiled->adaptive_token_mask_cache[state] = GetMask(&reader);
  }
  if (!reader.ok()) return std::nullopt;
  return xgrammar::CompiledGrammar(std::move(compiled));
}

void FillMask(std::span<uint32_t> allowed, xgrammar::GrammarMatcher* matcher) {
  int64_t words = static_cast<int64_t>(allowed.size());
  DLTensor mask = {};
  mask.data = allowed.data();
  mask.device = {kDLCPU, 0};
  mask.ndim = 1;
  mask.dtype = {kDLInt, 32, 1};
  mask.shape = &words;
  // It says whether any token is out, and fills the mask in any case.
  matcher->FillNextTokenBitmask(&mask);
}

}  // namespace sluice::text
