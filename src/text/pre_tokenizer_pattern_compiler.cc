// Turns the tree of an expression into the nodes that Pattern walks.
#include <algorithm>
#include <map>
#include <utility>

#include "base/byte_alphabet.h"
#include "base/str_cat.h"
#include "text/pre_tokenizer_pattern.h"
#include "text/pre_tokenizer_pattern_classes.h"
#include "text/pre_tokenizer_pattern_parser.h"

namespace sluice::text {
namespace {

constexpr size_t kNodesMax = 20'000;
// Parts of the tree that are turned into nodes, a part as often as its counts say.
constexpr size_t kPartsMax = 200'000;
constexpr size_t kUnrollMax = 64;
constexpr size_t kAlternativesMax = 32;
constexpr char kTooLarge[] = "a regular expression is too large when its counts are written out";

}  // namespace

class PatternCompiler {
 public:
  Result<Pattern> Compile(PatternTree tree) {
    NumberSets(&tree);
    if (sets_.size() > kPatternSetsMax) {
      return BadModel(StrCat("a regular expression has ", sets_.size(),
                             " sets of characters; the limit is ", kPatternSetsMax));
    }
    std::optional<PatternClasses> classes = ClassesOf(sets_);
    if (!classes) {
      return BadModel("a regular expression distinguishes more than 64 classes of characters");
    }
    masks_ = std::move(classes->masks);
    StoreClasses(classes->spans);
    pattern_.nodes_.emplace_back();  // node 0 ends every match
    if (tree.kind == Kind::kChoice && tree.children.size() <= kAlternativesMax) {
      for (const PatternTree& child : tree.children) AddAlternative(child);
    } else {
      AddAlternative(tree);
    }
    if (!error_.empty()) return BadModel(error_);
    ComputeFirst();
    MarkPossessive();
    for (auto& alternative : pattern_.alternatives_) {
      alternative.first = first_[alternative.node];
    }
    pattern_.candidates_.assign(kPatternClassesMax, 0);
    for (size_t bit = 0; bit < kPatternClassesMax; ++bit) {
      for (size_t i = 0; i < pattern_.alternatives_.size(); ++i) {
        if ((pattern_.alternatives_[i].first >> bit & 1) != 0) {
          pattern_.candidates_[bit] |= 1u << i;
        }
      }
    }
    return std::move(pattern_);
  }

 private:
  using Kind = PatternTree::Kind;
  using NodeKind = Pattern::NodeKind;

  struct SetOrder {
    bool operator()(const CodePointSet& a, const CodePointSet& b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                          [](const CodePointRange& x, const CodePointRange& y) {
                                            return std::pair(x.first, x.last) <
                                                   std::pair(y.first, y.last);
                                          });
    }
  };

  // A part may be written out thousands of times and a set has hundreds of ranges: each set is
  // compared with others here alone.
  void NumberSets(PatternTree* tree) {
    if (tree->kind == Kind::kSet || tree->kind == Kind::kAhead || tree->kind == Kind::kNotAhead) {
      const auto [known, is_new] = set_numbers_.try_emplace(tree->set, sets_.size());
      if (is_new) sets_.push_back(tree->set);
      tree->set_number = known->second;
    }
    for (PatternTree& child : tree->children) NumberSets(&child);
  }

  void StoreClasses(const std::vector<PatternClasses::Span>& spans) {
    constexpr uint32_t kPage = 256;
    std::map<std::vector<uint8_t>, uint16_t> pages;
    std::array<int, kPatternClassesMax>
        uniform_page;  // by class: the page of it alone, if there is one
    uniform_page.fill(-1);
    pattern_.page_of_.resize(kCodePointEnd / kPage);
    size_t span = 0;
    const auto move_to = [&](uint32_t code_point) {
      while (span + 1 < spans.size() && spans[span + 1].first <= code_point) ++span;
    };
    for (size_t page = 0; page < pattern_.page_of_.size(); ++page) {
      const uint32_t first = static_cast<uint32_t>(page) * kPage;
      move_to(first);
      int* known = nullptr;
      if (span + 1 == spans.size() || spans[span + 1].first >= first + kPage) {
        known = &uniform_page[spans[span].second];
      }
      if (known != nullptr && *known >= 0) {
        pattern_.page_of_[page] = static_cast<uint16_t>(*known);
        continue;
      }
      std::vector<uint8_t> values(kPage);
      for (uint32_t i = 0; i < kPage; ++i) {
        move_to(first + i);
        values[i] = spans[span].second;
      }
      auto [found, added] = pages.emplace(values, static_cast<uint16_t>(pages.size()));
      if (added) {
        pattern_.class_of_.insert(pattern_.class_of_.end(), values.begin(), values.end());
      }
      pattern_.page_of_[page] = found->second;
      if (known != nullptr) *known = found->second;
    }
    const auto class_of = [this](uint32_t code_point) {
      return pattern_.class_of_[pattern_.page_of_[code_point / kPage] * kPage + code_point % kPage];
    };
    for (uint32_t i = 0; i < 128; ++i) pattern_.class_of_ascii_[i] = class_of(i);
    for (uint32_t i = 0; i < 256; ++i) {
      pattern_.class_of_byte_[i] = class_of(ByteToCharacter(static_cast<uint8_t>(i)));
    }
  }

  void AddAlternative(const PatternTree& tree) {
    pattern_.alternatives_.push_back({Emit(tree, 0), 0});
  }

  uint32_t Add(Pattern::Node node) {
    if (pattern_.nodes_.size() >= kNodesMax) {
      error_ = kTooLarge;
      return 0;
    }
    pattern_.nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(pattern_.nodes_.size() - 1);
  }

  // The node where `tree` followed by `next` begins.
  uint32_t Emit(const PatternTree& tree, uint32_t next) {
    if (!error_.empty()) return next;
    if (++parts_ > kPartsMax) {
      error_ = kTooLarge;
      return next;
    }
    Pattern::Node node;
    node.next = next;
    switch (tree.kind) {
      case Kind::kEmpty:
        return next;
      case Kind::kSet:
        node.kind = NodeKind::kRun;
        node.mask = masks_[tree.set_number];
        return Add(std::move(node));
      case Kind::kAhead:
      case Kind::kNotAhead:
        node.kind = tree.kind == Kind::kAhead ? NodeKind::kAhead : NodeKind::kNotAhead;
        node.mask = masks_[tree.set_number];
        return Add(std::move(node));
      case Kind::kLineStart:
      case Kind::kLineEnd:
        node.kind = tree.kind == Kind::kLineStart ? NodeKind::kLineStart : NodeKind::kLineEnd;
        return Add(std::move(node));
      case Kind::kSequence: {
        uint32_t begin = next;
        for (size_t i = tree.children.size(); i-- > 0;) begin = Emit(tree.children[i], begin);
        return begin;
      }
      case Kind::kChoice:
        node.kind = NodeKind::kSplit;
        for (const PatternTree& child : tree.children) {
          node.alternatives.push_back(Emit(child, next));
        }
        return Add(std::move(node));
      case Kind::kRepeat:
        return EmitRepeat(tree, next);
    }
    return next;
  }

  uint32_t EmitRepeat(const PatternTree& tree, uint32_t next) {
    const PatternTree& child = tree.children[0];
    if (child.kind == Kind::kSet) {
      Pattern::Node node;
      node.kind = NodeKind::kRun;
      node.next = next;
      node.mask = masks_[child.set_number];
      node.least = tree.least;
      node.most = tree.most;
      node.possessive = tree.possessive;
      return Add(std::move(node));
    }
    if (tree.most > kUnrollMax || tree.possessive) {
      error_ = tree.possessive
                   ? "a regular expression has a possessive group, which is not supported"
                   : "a regular expression repeats a group without end or more than 64 "
                     "times, which is not supported";
      return next;
    }
    uint32_t begin = next;
    for (uint32_t i = tree.least; i < tree.most && error_.empty(); ++i) {
      const uint32_t inside = Emit(child, begin);
      if (inside == begin) break;  // an empty group: more of it changes nothing
      Pattern::Node node;
      node.kind = NodeKind::kSplit;
      node.alternatives = {inside, next};
      begin = Add(std::move(node));
    }
    for (uint32_t i = 0; i < tree.least && error_.empty(); ++i) {
      const uint32_t inside = Emit(child, begin);
      if (inside == begin) break;
      begin = inside;
    }
    return begin;
  }

  // By node: classes that a match of what begins there can begin with; all if it may be empty.
  // A node's successors stand before it.
  void ComputeFirst() {
    first_.clear();
    for (const Pattern::Node& node : pattern_.nodes_) {
      uint64_t first = ~uint64_t{0};
      if (node.kind == NodeKind::kRun) {
        first = node.least > 0 ? node.mask : node.mask | first_[node.next];
      } else if (node.kind == NodeKind::kSplit) {
        first = 0;
        for (uint32_t alternative : node.alternatives) first |= first_[alternative];
      }
      first_.push_back(first);
    }
  }

  // A run need give nothing back when what follows cannot begin with one of its characters.
  void MarkPossessive() {
    for (auto& node : pattern_.nodes_) {
      if (node.kind == NodeKind::kRun && (first_[node.next] & node.mask) == 0) {
        node.possessive = true;
      }
    }
  }

  std::vector<CodePointSet> sets_;
  std::map<CodePointSet, size_t, SetOrder> set_numbers_;  // places in sets_
  size_t parts_ = 0;
  std::vector<uint64_t> masks_;  // by set: its classes
  std::vector<uint64_t> first_;
  Pattern pattern_;
  std::string error_;
};

Result<Pattern> Pattern::Compile(std::string_view source) {
  SLUICE_ASSIGN_OR_RETURN(PatternTree tree, ParsePattern(source));
  return PatternCompiler().Compile(std::move(tree));
}

Pattern Pattern::OfSet(const CodePointSet& set) {
  PatternTree tree;
  tree.kind = PatternTree::Kind::kSet;
  tree.set = set;
  return std::move(PatternCompiler().Compile(std::move(tree))).value();
}

Result<Pattern> Pattern::OfLiteral(std::string_view text) {
  if (text.empty() || !IsValidUtf8(text)) {
    return BadModel("a text to split at or to replace is empty or not UTF-8");
  }
  PatternTree tree;
  tree.kind = PatternTree::Kind::kSequence;
  for (uint32_t code_point : DecodeAll(text)) {
    PatternTree character;
    character.kind = PatternTree::Kind::kSet;
    character.set = {{code_point, code_point}};
    tree.children.push_back(std::move(character));
  }
  return PatternCompiler().Compile(std::move(tree));
}

}  // namespace sluice::text
