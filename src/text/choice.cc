#include "text/choice.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/str_cat.h"
#include "base/utf8.h"
#include "base/visible.h"

namespace sluice::text {
namespace {

// Of a choice, in an error.
constexpr size_t kShownBytes = 64;

unsigned char ByteAt(const std::string& text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

Result<std::shared_ptr<const ChoiceSet>> ChoiceSet::Make(std::vector<std::string> choices,
                                                         std::shared_ptr<const TokenTrie> first,
                                                         std::shared_ptr<const TokenTrie> later) {
  CHECK(!choices.empty(), "no choices");
  auto set = std::make_shared<ChoiceSet>();
  set->first_ = std::move(first);
  set->later_ = std::move(later);
  std::sort(choices.begin(), choices.end());
  size_t leads = 0;
  for (std::string& text : choices) {
    const size_t bytes = text.size();
    set->choices_.push_back({std::move(text), leads});
    leads += bytes + 1;
  }
  set->leads_.resize(leads);
  for (size_t i = 0; i < set->choices_.size(); ++i) {
    if (set->FindLeads(i)) continue;
    const std::string& text = set->choices_[i].text;
    const std::string_view shown = Utf8Prefix(text, kShownBytes);
    return InvalidArgument(
        StrCat("choice has ", Quote(shown), shown.size() < text.size() ? "..." : "",
               ", which the model's tokens cannot spell; send choices of other characters"),
        "choice");
  }
  return std::shared_ptr<const ChoiceSet>(std::move(set));
}

// From the end, so that each place asks only for those behind it.
bool ChoiceSet::FindLeads(size_t choice) {
  const Choice& at = choices_[choice];
  leads_[at.leads + at.text.size()] = 1;
  for (size_t bytes = at.text.size(); bytes-- > 0;) {
    leads_[at.leads + bytes] = SpellsRest(choice, bytes);
  }
  return leads_[at.leads] != 0;
}

bool ChoiceSet::SpellsRest(size_t choice, size_t bytes) const {
  const TokenTrie& trie = bytes == 0 ? *first_ : *later_;
  const std::string& text = choices_[choice].text;
  int32_t node = TokenTrie::kRoot;
  for (; bytes < text.size(); ++bytes) {
    node = trie.Child(node, ByteAt(text, bytes));
    if (node < 0) return false;
    if (!trie.TokensAt(node).empty() && Leads(choice, bytes + 1)) return true;
  }
  return false;
}

ChoiceWalk::ChoiceWalk(std::shared_ptr<const ChoiceSet> set,
                       std::shared_ptr<const Tokenizer> tokenizer, bool starts_text)
    : set_(std::move(set)),
      tokenizer_(std::move(tokenizer)),
      starts_text_(starts_text),
      path_{{0, set_->choices_.size(), 0}} {}

bool ChoiceWalk::Go(TokenId id) {
  const bool first = starts_text_ && path_.size() == 1;
  const std::string bytes =
      first ? tokenizer_->FirstPieceBytes(id, false) : tokenizer_->PieceBytes(id, false);
  return !bytes.empty() && Advance(bytes);
}

size_t ChoiceWalk::GroupEnd(size_t* begin, size_t end, size_t bytes) const {
  const auto& choices = set_->choices_;
  // The one that ends here comes before those that go on.
  while (*begin < end && choices[*begin].text.size() == bytes) ++*begin;
  if (*begin == end) return end;
  const unsigned char byte = ByteAt(choices[*begin].text, bytes);
  if (ByteAt(choices[end - 1].text, bytes) == byte) return end;
  const auto found = std::upper_bound(choices.begin() + static_cast<int64_t>(*begin),
                                      choices.begin() + static_cast<int64_t>(end), byte,
                                      [bytes](unsigned char b, const ChoiceSet::Choice& choice) {
                                        return b < ByteAt(choice.text, bytes);
                                      });
  return static_cast<size_t>(found - choices.begin());
}

bool ChoiceWalk::Advance(std::string_view more) {
  auto [begin, end, bytes] = path_.back();
  for (const char c : more) {
    for (;;) {
      const size_t group_end = GroupEnd(&begin, end, bytes);
      if (begin == end) return false;
      if (set_->choices_[begin].text[bytes] == c) {
        end = group_end;
        break;
      }
      begin = group_end;
    }
    ++bytes;
  }
  path_.push_back({begin, end, bytes});
  return true;
}

bool ChoiceWalk::complete() const {
  const Place& at = path_.back();
  return set_->choices_[at.begin].text.size() == at.bytes;
}

void ChoiceWalk::AllowTokens(std::span<uint32_t> allowed) {
  struct Open {
    size_t begin, end, bytes;
    int32_t node;
  };
  const Place& at = path_.back();
  const TokenTrie& trie = at.bytes == 0 ? *set_->first_ : *set_->later_;
  std::vector<Open> open = {{at.begin, at.end, at.bytes, TokenTrie::kRoot}};
  while (!open.empty()) {
    auto [begin, end, bytes, node] = open.back();
    open.pop_back();
    if (const auto tokens = trie.TokensAt(node); !tokens.empty()) {
      bool leads = false;
      for (size_t i = begin; i < end && !leads; ++i) leads = set_->Leads(i, bytes);
      for (const TokenId id : tokens) {
        if (leads) allowed[id / 32] |= 1u << (id % 32);
      }
    }
    while (begin < end) {
      const size_t group_end = GroupEnd(&begin, end, bytes);
      if (begin == end) break;
      const int32_t child = trie.Child(node, ByteAt(set_->choices_[begin].text, bytes));
      if (child >= 0) open.push_back({begin, group_end, bytes + 1, child});
      begin = group_end;
    }
  }
}

}  // namespace sluice::text
