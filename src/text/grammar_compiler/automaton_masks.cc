#include "text/grammar_compiler/automaton_masks.h"

#include <algorithm>
#include <utility>

namespace sluice::text {
namespace {

constexpr size_t kKeptMax = 4 << 20;
constexpr size_t kBehindBytesMax = 63;  // bits of Place::begun
// Nodes below one at which what other states have in common is looked for: of a long text most
// states differ by the few longest tokens alone.
constexpr int32_t kSharedNodesMin = 32;

}  // namespace

AutomatonMasks::AutomatonMasks(const xgrammar::TokenizerInfo& vocabulary)
    : vocabulary_(vocabulary), tree_(vocabulary), all_(vocabulary.GetVocabSize()) {
  for (const auto& [id, bytes] : vocabulary_.GetSortedDecodedVocab()) all_.Set(id, !bytes.empty());
  places_.resize(static_cast<size_t>(tree_.depth) + 1);
}

void AutomatonMasks::Make(const ByteAutomaton& rule, const TextBehind& behind,
                          const std::function<void(int32_t, Mask)>& add) {
  TextBehind known = behind;
  if (known.bytes.size() > kBehindBytesMax) known.bytes.resize(kBehindBytesMax);
  rule_ = &rule;
  alike_ = rule.FirstAlike(tree_.depth);
  behind_ = &known;
  for (const auto& [state, row] : rule.beginnings()) add(state, MaskOf(row));
  parts_.clear();
  kept_ = 0;
}

// A byte is taken, which leads the automaton to `state`.
AutomatonMasks::Place AutomatonMasks::Go(Place from, uint8_t byte, int32_t state) const {
  Place place = {state, 0, from.behind};
  const std::string& bytes = behind_->bytes;
  if (bytes.empty()) place.behind = place.behind || from.begun != 0;
  for (size_t k = 0; k < bytes.size() && from.begun >> k != 0; ++k) {
    if ((from.begun >> k & 1) == 0 || static_cast<uint8_t>(bytes[k]) != byte) continue;
    place.begun |= uint64_t{2} << k;
    if (k + 1 == bytes.size()) place.behind = true;
  }
  if (!bytes.empty()) place.begun &= (uint64_t{1} << bytes.size()) - 1;
  if (state >= 0 && rule_->is_end(state)) place.begun |= 1;
  return place;
}

bool AutomatonMasks::IsShared(int32_t node, const Place& place) const {
  if (tree_.nodes[node].after - node < kSharedNodesMin || place.state < 0 || place.behind) {
    return false;
  }
  return place.begun == static_cast<uint64_t>(rule_->is_end(place.state));
}

const AutomatonMasks::Part& AutomatonMasks::PartOf(int32_t root, int32_t state) {
  const auto& alike =
      alike_[std::min(static_cast<size_t>(tree_.nodes[root].height), alike_.size() - 1)];
  state = alike[state];
  const int64_t key = int64_t{root} << 32 | static_cast<uint32_t>(state);
  const auto [known, is_new] = parts_.try_emplace(key);
  Part& part = known->second;
  if (!is_new) return part;
  const auto accept = [&part](int32_t first, int32_t last) {
    if (first == last) return;
    if (!part.accepted.empty() && part.accepted.back().second == first) {
      part.accepted.back().second = last;
    } else {
      part.accepted.emplace_back(first, last);
    }
  };
  const auto doubt = [&part](int32_t first, int32_t last) {
    for (int32_t token = first; token < last; ++token) part.uncertain.push_back(token);
  };
  for (int32_t at = root; at < tree_.nodes[root].after;) {
    const TokenTree::Node& node = tree_.nodes[at];
    Place& place = places_[node.depth];
    if (at == root) {
      place = Go({0, 0, false}, node.byte, state);
    } else {
      const Place& from = places_[node.depth - 1];
      place = Go(from, node.byte, from.state < 0 ? -1 : rule_->next(from.state)[node.byte]);
    }
    if (place.state < 0 && (place.behind || place.begun == 0)) {
      if (place.behind) doubt(node.first, node.last);
      at = node.after;
      continue;
    }
    if (at != root && IsShared(at, place)) {
      const Part& inner = PartOf(at, place.state);
      for (const auto& [first, last] : inner.accepted) accept(first, last);
      part.uncertain.insert(part.uncertain.end(), inner.uncertain.begin(), inner.uncertain.end());
      at = node.after;
      continue;
    }
    if (place.state >= 0 || behind_->always) {
      accept(node.first, node.own);
    } else {
      doubt(node.first, node.own);
    }
    ++at;
  }
  kept_ += part.accepted.size() * 2 + part.uncertain.size();
  return part;
}

AutomatonMasks::Mask AutomatonMasks::MaskOf(const ByteAutomaton::Row& row) {
  if (kept_ > kKeptMax) {
    parts_.clear();
    kept_ = 0;
  }
  Mask mask;
  std::vector<std::pair<int32_t, int32_t>> accepted;
  int32_t count = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (row[byte] < 0 || tree_.roots[byte] < 0) continue;
    const Part& part = PartOf(tree_.roots[byte], row[byte]);
    for (const auto& run : part.accepted) count += run.second - run.first;
    accepted.insert(accepted.end(), part.accepted.begin(), part.accepted.end());
    mask.uncertain_indices.insert(mask.uncertain_indices.end(), part.uncertain.begin(),
                                  part.uncertain.end());
  }
  const auto uncertain = static_cast<int32_t>(mask.uncertain_indices.size());
  const int32_t rejected = tree_.tokens - count - uncertain;
  if (count < Mask::USE_BITSET_THRESHOLD) {
    mask.store_type = Mask::StoreType::kAccepted;
    for (const auto& [first, last] : accepted) {
      for (int32_t i = first; i < last; ++i) mask.accepted_indices.push_back(i);
    }
    return mask;
  }
  // The others, and those of them that are not uncertain, in ascending order.
  std::vector<int32_t> others;
  int32_t at = 0;
  for (const auto& [first, last] : accepted) {
    for (; at < first; ++at) others.push_back(at);
    at = last;
  }
  for (; at < tree_.tokens; ++at) others.push_back(at);
  if (rejected < Mask::USE_BITSET_THRESHOLD) {
    mask.store_type = Mask::StoreType::kRejected;
    std::set_difference(others.begin(), others.end(), mask.uncertain_indices.begin(),
                        mask.uncertain_indices.end(), std::back_inserter(mask.rejected_indices));
    return mask;
  }
  const auto& sorted = vocabulary_.GetSortedDecodedVocab();
  mask.store_type = Mask::StoreType::kAcceptedBitset;
  if (static_cast<int32_t>(others.size()) < count) {
    mask.accepted_bitset = all_;
    for (const int32_t i : others) mask.accepted_bitset.Reset(sorted[i].first);
  } else {
    mask.accepted_bitset = xgrammar::DynamicBitset(vocabulary_.GetVocabSize());
    for (const auto& [first, last] : accepted) {
      for (int32_t i = first; i < last; ++i) mask.accepted_bitset.Set(sorted[i].first);
    }
  }
  return mask;
}

}  // namespace sluice::text
