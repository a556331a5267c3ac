#include "batch/plan.h"

#include <cstring>
#include <string>
#include <type_traits>

#include "base/str_cat.h"

namespace sluice::batch {
namespace {

constexpr uint32_t kMagic = 0x504c5342;  // "BSLP"
constexpr uint32_t kVersion = 1;

class Writer {
 public:
  template <class T>
  void Put(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), begin, begin + sizeof value);
  }
  template <class T>
  void PutArray(const std::vector<T>& values) {
    static_assert(std::is_arithmetic_v<T>);
    Put<uint64_t>(values.size());
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    out_.insert(out_.end(), begin, begin + values.size() * sizeof(T));
  }
  template <class T, class PutOne>
  void PutList(const std::vector<T>& values, PutOne put_one) {
    Put<uint64_t>(values.size());
    for (const T& value : values) put_one(value);
  }
  std::vector<std::byte> Take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

// Reads what Writer wrote. After the first malformed value ok() is false and all reads give zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }

  template <class T>
  void Get(T* value) {
    static_assert(std::is_arithmetic_v<T>);
    if (!Has(sizeof *value)) return;
    std::memcpy(value, bytes_.data(), sizeof *value);
    bytes_ = bytes_.subspan(sizeof *value);
  }
  void Get(bool* value) { *value = GetBelow(2) != 0; }
  // An enum of one byte with `count` values.
  template <class T>
  void GetEnum(T* value, uint8_t count) {
    *value = static_cast<T>(GetBelow(count));
  }
  template <class T>
  void GetArray(std::vector<T>* values) {
    const uint64_t count = GetCount(sizeof(T));
    if (!ok_) return;
    values->resize(count);
    if (count > 0) std::memcpy(values->data(), bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
  }
  // `smallest` is the least number of bytes that one value takes.
  template <class T, class GetOne>
  void GetList(std::vector<T>* values, size_t smallest, GetOne get_one) {
    const uint64_t count = GetCount(smallest);
    for (uint64_t i = 0; i < count && ok_; ++i) get_one(&values->emplace_back());
  }

 private:
  bool Has(size_t size) {
    ok_ = ok_ && bytes_.size() >= size;
    return ok_;
  }
  uint8_t GetBelow(uint8_t count) {
    uint8_t value = 0;
    Get(&value);
    ok_ = ok_ && value < count;
    return ok_ ? value : 0;
  }
  uint64_t GetCount(size_t smallest) {
    uint64_t count = 0;
    Get(&count);
    ok_ = ok_ && count <= bytes_.size() / smallest;
    return ok_ ? count : 0;
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

// Fixed-size values: one list of fields serves both directions.
template <class Entry, class Visit>
void VisitFields(Entry& e,
                 Visit visit) requires std::is_same_v<std::remove_const_t<Entry>, PlanEntry> {
  visit(e.sequence), visit(e.slot), visit(e.first_position), visit(e.query_tokens);
  visit(e.token_begin), visit(e.logits_begin), visit(e.logits_count);
  visit(e.needs_previous_commit);
}

template <class Params, class Visit>
void VisitFields(Params& p,
                 Visit visit) requires std::is_same_v<std::remove_const_t<Params>, SamplingParams> {
  visit(p.temperature), visit(p.top_k), visit(p.top_p), visit(p.min_p);
  visit(p.repetition_penalty), visit(p.presence_penalty), visit(p.frequency_penalty);
  visit(p.no_repeat_ngram), visit(p.min_tokens), visit(p.seed), visit(p.choice);
  visit(p.top_logprobs), visit(p.full_distribution);
}

template <class Copy, class Visit>
void VisitFields(Copy& c,
                 Visit visit) requires std::is_same_v<std::remove_const_t<Copy>, BlockCopy> {
  visit(c.group), visit(c.source), visit(c.destination);
}

constexpr size_t kEntryBytes = sizeof(uint64_t) + 6 * sizeof(int32_t) + 1;
constexpr size_t kRowBytes = 2 * sizeof(int32_t) + 1;
constexpr size_t kCopyBytes = 3 * sizeof(int32_t);
constexpr size_t kGroupBytes = 2 * sizeof(uint64_t);  // its two counts
constexpr size_t kStartBytes = 2 * sizeof(int32_t) + sizeof(double) + 3 * sizeof(uint64_t);

void PutStart(const SlotStart& start, Writer* w) {
  w->Put(start.slot);
  VisitFields(start.sampling, [w](const auto& field) { w->Put(field); });
  w->PutList(start.sampling.logit_bias, [w](const std::pair<int32_t, float>& bias) {
    w->Put(bias.first);
    w->Put(bias.second);
  });
  w->PutArray(start.sampling.end_ids);
  w->Put(start.prompt_tokens);
  w->PutArray(start.history);
  w->Put(start.cumulative_logprob);
}

void GetStart(Reader* r, SlotStart* start) {
  r->Get(&start->slot);
  VisitFields(start->sampling, [r](auto& field) { r->Get(&field); });
  r->GetList(&start->sampling.logit_bias, sizeof(int32_t) + sizeof(float),
             [r](std::pair<int32_t, float>* bias) {
               r->Get(&bias->first);
               r->Get(&bias->second);
             });
  r->GetArray(&start->sampling.end_ids);
  r->Get(&start->prompt_tokens);
  r->GetArray(&start->history);
  r->Get(&start->cumulative_logprob);
}

bool InRange(int64_t begin, int64_t count, size_t size) {
  return begin >= 0 && count >= 0 && begin + count <= static_cast<int64_t>(size);
}

bool TableIsSound(const GroupTable& table, size_t entries) {
  if (table.begin.empty() && table.ids.empty() && entries == 0) return true;
  if (table.begin.size() != entries + 1 || table.begin[0] != 0) return false;
  for (size_t e = 0; e < entries; ++e) {
    if (table.begin[e] > table.begin[e + 1]) return false;
  }
  return static_cast<size_t>(table.begin.back()) == table.ids.size();
}

// The first broken rule of the plan's inner references, or null.
const char* BrokenRule(const BatchPlan& plan) {
  const size_t tokens = plan.tokens.size();
  for (const PlanEntry& entry : plan.entries) {
    if (entry.slot < 0 || entry.first_position < 0) return "an entry's slot or position";
    if (!InRange(entry.token_begin, entry.query_tokens, tokens)) return "an entry's tokens";
    if (!InRange(entry.logits_begin, entry.logits_count, plan.logits_rows.size())) {
      return "an entry's logits rows";
    }
  }
  for (const LogitsRow& row : plan.logits_rows) {
    if (!InRange(row.token, 1, tokens)) return "a logits row's token";
  }
  if (plan.position_dims < 1 || plan.positions.size() % plan.position_dims != 0 ||
      plan.positions.size() / plan.position_dims != tokens) {
    return "the positions";
  }
  for (const GroupTable& table : plan.groups) {
    if (!TableIsSound(table, plan.entries.size())) return "a block table";
  }
  for (const BlockCopy& copy : plan.copies) {
    if (!InRange(copy.group, 1, plan.groups.size()) || copy.source < 0 || copy.destination < 0) {
      return "a block copy";
    }
  }
  for (const SlotStart& start : plan.starts) {
    if (start.slot < 0) return "a started slot";
    if (!InRange(0, start.prompt_tokens, start.history.size())) return "a started slot's history";
  }
  if (plan.padded_tokens < 0) return "the padded size";
  if (!plan.type_ids.empty() && plan.type_ids.size() != tokens) return "the type ids";
  if (!plan.media_rows.empty() && plan.media_rows.size() != tokens) return "the media rows";
  return nullptr;
}

}  // namespace

std::vector<std::byte> Serialize(const BatchPlan& plan) {
  Writer w;
  const auto put = [&w](const auto& field) { w.Put(field); };
  w.Put(kMagic);
  w.Put(kVersion);
  w.Put(plan.step);
  w.PutList(plan.entries, [put](const PlanEntry& entry) { VisitFields(entry, put); });
  w.PutArray(plan.tokens);
  w.PutArray(plan.positions);
  w.Put(plan.position_dims);
  w.PutList(plan.logits_rows, [&w](const LogitsRow& row) {
    w.Put(row.token);
    w.Put(row.target);
    w.Put(row.purpose);
  });
  w.PutList(plan.groups, [&w](const GroupTable& table) {
    w.PutArray(table.begin);
    w.PutArray(table.ids);
  });
  w.PutList(plan.copies, [put](const BlockCopy& copy) { VisitFields(copy, put); });
  w.PutList(plan.starts, [&w](const SlotStart& start) { PutStart(start, &w); });
  w.Put(plan.padded_tokens);
  w.Put(plan.graph);
  w.PutArray(plan.type_ids);
  w.PutArray(plan.media_rows);
  return w.Take();
}

Result<BatchPlan> Deserialize(std::span<const std::byte> bytes) {
  Reader r(bytes);
  const auto get = [&r](auto& field) { r.Get(&field); };
  uint32_t magic = 0, version = 0;
  r.Get(&magic);
  r.Get(&version);
  if (!r.ok() || magic != kMagic || version != kVersion) {
    return InvalidArgument(
        "The bytes are not a batch plan of this version; all ranks must run the same build.");
  }
  BatchPlan plan;
  r.Get(&plan.step);
  r.GetList(&plan.entries, kEntryBytes, [get](PlanEntry* entry) { VisitFields(*entry, get); });
  r.GetArray(&plan.tokens);
  r.GetArray(&plan.positions);
  r.Get(&plan.position_dims);
  r.GetList(&plan.logits_rows, kRowBytes, [&r](LogitsRow* row) {
    r.Get(&row->token);
    r.Get(&row->target);
    r.GetEnum(&row->purpose, static_cast<uint8_t>(RowPurpose::kScore) + 1);
  });
  r.GetList(&plan.groups, kGroupBytes, [&r](GroupTable* table) {
    r.GetArray(&table->begin);
    r.GetArray(&table->ids);
  });
  r.GetList(&plan.copies, kCopyBytes, [get](BlockCopy* copy) { VisitFields(*copy, get); });
  r.GetList(&plan.starts, kStartBytes, [&r](SlotStart* start) { GetStart(&r, start); });
  r.Get(&plan.padded_tokens);
  r.GetEnum(&plan.graph, static_cast<uint8_t>(GraphMode::kFull) + 1);
  r.GetArray(&plan.type_ids);
  r.GetArray(&plan.media_rows);
  if (!r.ok() || !r.at_end()) {
    return InvalidArgument(StrCat("The batch plan of ", bytes.size(),
                                  " bytes is malformed: a field or count does not fit the bytes."));
  }
  if (const char* rule = BrokenRule(plan)) {
    return InvalidArgument(StrCat("The batch plan is malformed: ", rule, " are out of range."));
  }
  return plan;
}

}  // namespace sluice::batch
