// Generated cases of sampling. Tokens, ranks and flags must be the reference's; log-probs may be
// off by what a logarithm in double precision is on another device: seldom, and then by the last
// bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/conformance_case.h"

namespace sluice::ops {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kLogLimit = 0x1p-23;  // the last bit of F32

// An array of structs as bytes.
template <class T>
Array Bytes(const std::vector<T>& values) {
  Array array(DType::kU8, {static_cast<int64_t>(values.size()), int64_t{sizeof(T)}});
  if (!values.empty()) std::memcpy(array.tensor().data, values.data(), values.size() * sizeof(T));
  return array;
}

// Log-probs that differ at all must be few: an error far below the last bit changes its rounding
// now and then, one near it in every third.
Comparison CompareLogs(const Array& got, const Array& expected, double limit) {
  Comparison comparison = Compare(got, expected, limit);
  size_t differ = 0;
  for (size_t i = 0; i < got.Count(); ++i) differ += got.At(i) != expected.At(i) ? 1 : 0;
  if (comparison.ok && differ > 1 + got.Count() / 256) {
    comparison.ok = false;
    comparison.what = StrCat(differ, " of ", got.Count(), " log-probs differ in their last bits");
  }
  return comparison;
}

Comparison CompareOutputs(const Array& got, const Array& expected, double limit) {
  Comparison comparison;
  const int64_t rows = expected.tensor().dims[0];
  for (int64_t r = 0; r < rows && comparison.ok; ++r) {
    SampleOutput a, b;
    std::memcpy(&a, got.bytes().data() + r * sizeof(a), sizeof(a));
    std::memcpy(&b, expected.bytes().data() + r * sizeof(b), sizeof(b));
    const auto fail = [&](std::string_view what, const auto& is, const auto& wanted) {
      comparison.ok = false;
      comparison.what = StrCat("row ", r, ": ", what, " is ", is, ", expected ", wanted);
    };
    const auto near = [&](std::string_view what, float is, float wanted) {
      const double error = std::abs(double{is} - wanted) / (1.0 + std::abs(wanted));
      if (!(error <= limit)) fail(what, is, wanted);
      comparison.error = std::max(comparison.error, error);
    };
    near("logprob", a.logprob, b.logprob);
    near("processed_logprob", a.processed_logprob, b.processed_logprob);
    if (a.rank != b.rank) fail("rank", a.rank, b.rank);
    if (a.degenerate != b.degenerate) fail("degenerate", a.degenerate, b.degenerate);
    if (a.token != b.token) fail("token", a.token, b.token);
    if (a.kept != b.kept) fail("kept", a.kept, b.kept);
  }
  return comparison;
}

// The sum of three even numbers: near enough to a bell.
float Bell(TestNoise& noise) { return noise.Value() + noise.Value() + noise.Value(); }

void MakeOdd(TestNoise& noise, float* x, int64_t vocab) {
  switch (noise.Below(40)) {
    case 0:
      x[noise.Below(vocab)] = kNan;
      break;
    case 1:
      x[noise.Below(vocab)] = kInf;
      break;
    case 2:
      std::fill_n(x, vocab, Flip(noise) ? 0.0f : -0.0f);
      break;
    case 3:
      std::fill_n(x, vocab, -kInf);
      break;
    case 4:
      std::fill_n(x, vocab, kNan);
      if (Flip(noise)) x[noise.Below(vocab)] = -kInf;
      break;
    default:
      break;
  }
}

void MakeLogits(TestNoise& noise, float* x, int64_t vocab) {
  const int64_t kind = noise.Below(12);
  const float stretch = std::ldexp(1.0f, static_cast<int>(noise.Below(250)) - 125);
  for (int64_t i = 0; i < vocab; ++i) {
    x[i] = Bell(noise);
    if (kind == 1) x[i] *= 6.0f;                                // wide
    if (kind == 2) x[i] *= 0.01f;                               // flat
    if (kind == 3) x[i] = std::round(2.0f * x[i]);              // many ties
    if (kind == 4) x[i] = 1.5f;                                 // nothing else
    if (kind == 5 && noise.Below(3) == 0) x[i] = -kInf;         // holes
    if (kind == 6) x[i] *= stretch;                             // of any size
    if (kind == 7) x[i] = std::min(0.0f, std::round(x[i]));     // zeros above the rest
    if (kind == 8) x[i] = noise.Below(20) == 0 ? 3.0f : -kInf;  // equal ones and holes
    if (kind == 9 && noise.Below(50) == 0) x[i] = -1e30f;       // far below
  }
  if (kind >= 9) {  // peaked
    for (int i = 0; i < 9; ++i) x[noise.Below(vocab)] = 6.0f + 3.0f * Bell(noise);
  }
  MakeOdd(noise, x, vocab);
}

SampleRow MakeRow(TestNoise& noise, int64_t vocab) {
  SampleRow row;
  row.draw = noise.Below(8) != 0;
  row.target = static_cast<int32_t>(noise.Below(vocab));
  row.temperature = Pick(noise, {0.0f, 1e-40f, 0.05f, 0.3f, 0.8f, 1.0f, 1.0f, 1.7f, 100.0f});
  row.top_k = Pick(noise, {0, 0, 0, 1, 2, 5, 40, 100, 700, 3000, -4});
  row.top_p = Pick(noise, {1.0f, 1.0f, 0.9f, 0.9f, 0.5f, 0.9999999f, 0.01f, 0.0f});
  row.min_p = Pick(noise, {0.0f, 0.0f, 0.05f, 0.5f, 1.0f, 1e-30f});
  row.seed = noise.Next();
  row.choice = static_cast<int32_t>(noise.Below(3));
  row.position = noise.Below(100000);
  row.top_logprobs = Pick(noise, {-1, -1, 0, 1, 5, 20});
  return row;
}

// The words of a sequence: few for a long vocabulary, many for a short one.
std::vector<int32_t> MakeCounts(TestNoise& noise, int64_t vocab) {
  std::vector<int32_t> counts(static_cast<size_t>(vocab));
  const int64_t tokens = Pick<int64_t>(noise, {0, 1, 20, 500});
  for (int64_t i = 0; i < tokens; ++i) {
    const uint32_t in_prompt = Flip(noise) ? kInPrompt : 0;
    const uint32_t in_answer = static_cast<uint32_t>(noise.Below(in_prompt != 0 ? 3 : 40));
    counts[noise.Below(vocab)] = static_cast<int32_t>(in_prompt | in_answer);
  }
  return counts;
}

// Rows without counts have penalties too, which nobody may heed.
void AddPenalties(TestNoise& noise, int64_t vocab, int64_t at, SampleRow& row,
                  std::vector<int32_t>& counts) {
  row.repetition_penalty = Pick(noise, {1.0f, 1.3f, 0.7f});
  row.presence_penalty = Pick(noise, {0.0f, 0.9f, -2.0f});
  row.frequency_penalty = Pick(noise, {0.0f, 0.1f, 1.7f});
  if (noise.Below(3) != 0) return;
  const std::vector<int32_t> mine = MakeCounts(noise, vocab);
  row.counts_row = static_cast<int32_t>(counts.size() / mine.size());
  row.drafts = static_cast<int32_t>(noise.Below(std::min<int64_t>(at, 4) + 1));
  counts.insert(counts.end(), mine.begin(), mine.end());
}

// Ids ascend; some lie outside the vocabulary.
void AddEdits(TestNoise& noise, int64_t vocab, SampleRow& row, std::vector<LogitEdit>& edits) {
  row.edit_begin = static_cast<int32_t>(edits.size());
  row.edit_count = noise.Below(3) == 0 ? static_cast<int32_t>(noise.Below(40)) : 0;
  int64_t id = noise.Below(4) - 2;
  for (int e = 0; e < row.edit_count; ++e) {
    LogitEdit edit;
    edit.id = static_cast<int32_t>(id);
    edit.bias = Pick(noise, {0.0f, 0.0f, 0.0f, 2.0f, -100.0f});
    if (noise.Below(100) == 0) edit.bias = kInf;
    edit.repetition = Pick(noise, {1.0f, 1.3f});
    edit.subtract = Pick(noise, {0.0f, 0.7f});
    edit.banned = noise.Below(4) == 0;
    edits.push_back(edit);
    id += 1 + noise.Below(1 + vocab / 30);
  }
}

void AddMask(TestNoise& noise, int64_t vocab, SampleRow& row, std::vector<int32_t>& masks) {
  if (noise.Below(4) != 0) return;
  const int64_t words = (vocab + 31) / 32;
  row.mask_row = static_cast<int32_t>(static_cast<int64_t>(masks.size()) / words);
  const int64_t kind = noise.Below(5);
  for (int64_t w = 0; w < words; ++w) {
    const uint64_t any = noise.Next(), few = any & noise.Next() & noise.Next() & noise.Next();
    const uint64_t word = kind == 0 ? 0 : kind == 1 ? few : kind == 2 ? 1u << any % 32 : any;
    masks.push_back(static_cast<int32_t>(static_cast<uint32_t>(word)));
  }
}

}  // namespace

namespace {

// What drafts were drawn from: of the whole vocabulary, or of a part of it.
struct DraftLogits {
  DraftLogits(TestNoise& noise, int64_t of_rows, int64_t vocab) : rows(of_rows), count(vocab) {
    if (Flip(noise)) {
      count = 1 + noise.Below(vocab + 2);
      for (int64_t id = 0; id < vocab; ++id)
        guess_of.push_back(static_cast<int32_t>(noise.Below(count + 1)) - (Flip(noise) ? 1 : 0));
    }
    for (int64_t r = 0; r < rows; ++r) {
      logits.resize(logits.size() + static_cast<size_t>(count));
      MakeLogits(noise, logits.data() + r * count, count);
    }
  }
  Array Logits() const {
    Array array(DType::kF32, {rows, count});
    std::copy(logits.begin(), logits.end(), array.tensor().ptr<float>());
    return array;
  }
  int64_t rows, count;
  std::vector<float> logits;
  std::vector<int32_t> guess_of;  // empty: as the whole
};

}  // namespace

ConformanceCase<Sample> MakeCase(const Sample&, int number, TestNoise& noise) {
  ConformanceCase<Sample> c;
  const int64_t vocab = noise.Below(20) == 0
                            ? Pick<int64_t>(noise, {49152, 151936})
                            : Pick<int64_t>(noise, {1, 2, 3, 17, 32, 33, 300, 513, 1000, 4103});
  const int top_max = Pick(noise, {0, 5, 20, 20, 300});
  c.desc = {vocab, top_max};
  const int64_t count = IsEmpty(number) ? 0 : vocab > 10000 ? 3 : 1 + noise.Below(8);
  Array logits(DType::kF32, {count, vocab + noise.Below(3)});
  std::vector<SampleRow> rows;
  std::vector<LogitEdit> edits;
  std::vector<int32_t> counts, masks;
  int64_t distributions = 0;
  const DraftLogits drafts(noise, logits.tensor().dims[0], vocab);
  for (int64_t r = 0; r < count; ++r) {
    MakeLogits(noise, logits.tensor().ptr<float>() + r * logits.tensor().strides[0], vocab);
    SampleRow row = MakeRow(noise, vocab);
    row.guess_row =
        Pick(noise, {kCompared, kSure, static_cast<int32_t>(r), static_cast<int32_t>(r)});
    AddEdits(noise, vocab, row, edits);
    AddPenalties(noise, vocab, r, row, counts);
    AddMask(noise, vocab, row, masks);
    row.top_allowed = Flip(noise);
    if (noise.Below(8) == 0) {
      row.distribution_row = static_cast<int32_t>(distributions++);
      row.filtered = number % 2 == 1 && Flip(noise);
      c.desc.filtered |= row.filtered;
    }
    rows.push_back(row);
  }
  const int64_t words = (vocab + 31) / 32, mask_rows = static_cast<int64_t>(masks.size()) / words;
  const size_t x = c.Add(std::move(logits));
  const size_t row = c.Add(Bytes(rows));
  const size_t edit = c.Add(Bytes(edits));
  const int64_t count_rows = static_cast<int64_t>(counts.size()) / vocab;
  const size_t count_words = c.Add(Array::Ints({count_rows, vocab}, counts));
  const size_t mask = c.Add(Array::Ints({mask_rows, words}, masks));
  const Allowance logs(0.0, 0.0, kLogLimit);
  const size_t output = c.Add(Bytes(std::vector<SampleOutput>(rows.size())), logs);
  c.comparers[output] = &CompareOutputs;
  const size_t top = static_cast<size_t>(count * (top_max + 1));
  const size_t ids = c.Add(Array::Ints({count, top_max + 1}, std::vector<int32_t>(top, -7)));
  const size_t logprobs = c.Add(Untouched(DType::kF32, {count, top_max + 1}), logs);
  const size_t all = c.Add(Untouched(DType::kF32, {distributions, vocab}), logs);
  const size_t guesses = c.Add(drafts.Logits()), guess_of = c.Add(Array::Ints(drafts.guess_of));
  c.comparers[logprobs] = c.comparers[all] = &CompareLogs;
  c.args = [=, any_edits = !edits.empty()](ConformanceTarget&,
                                           std::span<const Tensor> t) -> Result<Sample::Args> {
    Sample::Args args;
    args.logits = Columns(t[x], vocab);
    args.rows = t[row];
    if (any_edits) args.edits = t[edit];
    if (count_rows > 0) args.counts = t[count_words];
    if (mask_rows > 0) args.masks = t[mask];
    args.outputs = t[output];
    args.top_ids = t[ids];
    args.top_logprobs = t[logprobs];
    if (distributions > 0) args.distributions = t[all];
    args.guesses = t[guesses];
    if (t[guess_of].dims[0] > 0) args.guess_of = t[guess_of];
    return args;
  };
  return c;
}

namespace {

int64_t AnyVocab(TestNoise& noise) {
  return noise.Below(20) == 0 ? 151936 : Pick<int64_t>(noise, {1, 2, 33, 300, 1000, 4103});
}

Array AnyCounts(TestNoise& noise, int64_t rows, int64_t vocab) {
  std::vector<int32_t> counts;
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<int32_t> row = MakeCounts(noise, vocab);
    counts.insert(counts.end(), row.begin(), row.end());
  }
  return Array::Ints({rows, vocab}, counts);
}

// What is known of some slots; a token of each was drawn, the others are guesses.
struct Known {
  Known(TestNoise& noise, int64_t slots) : width(Pick<int64_t>(noise, {1, 4, 9})) {
    for (int64_t i = 0; i < slots; ++i) lengths.push_back(static_cast<int32_t>(noise.Below(5000)));
    for (int64_t i = 0; i < slots * width; ++i)
      tokens.push_back(static_cast<int32_t>(noise.Below(5000)));
  }
  Array LengthArray() const { return Array::Ints(lengths); }
  Array TokenArray() const {
    return Array::Ints({static_cast<int64_t>(lengths.size()), width}, tokens);
  }
  int64_t width;
  std::vector<int32_t> lengths, tokens;
};

// A sequence's rows: what most of them draw is the draft that follows.
void AddDrawn(TestNoise& noise, int64_t vocab, int32_t slot, std::vector<SampleRow>& rows,
              std::vector<SampleOutput>& outputs) {
  const int64_t count = 1 + noise.Below(4);
  const bool draws = noise.Below(8) != 0, counted = Flip(noise);
  const int64_t position = noise.Below(5000);
  for (int32_t i = 0; i < count; ++i) {
    SampleOutput output;
    output.token = static_cast<int32_t>(noise.Below(vocab));
    output.degenerate = noise.Below(10) == 0;
    SampleRow row = {.draw = draws, .position = position + i, .drafts = i, .slot = slot};
    if (counted) row.counts_row = slot;
    const bool accepted = noise.Below(4) != 0;
    if (i + 1 < count)
      row.target = accepted ? output.token : static_cast<int32_t>(noise.Below(vocab));
    rows.push_back(row);
    outputs.push_back(output);
  }
}

}  // namespace

ConformanceCase<SetCounts> MakeCase(const SetCounts&, int number, TestNoise& noise) {
  ConformanceCase<SetCounts> c;
  const int64_t vocab = AnyVocab(noise), count_rows = 1 + noise.Below(5);
  c.desc.vocab = vocab;
  std::vector<int32_t> rows, words;
  for (int64_t r = 0; r < count_rows && !IsEmpty(number); ++r) {
    if (noise.Below(3) == 0) continue;
    const auto begin = static_cast<int32_t>(words.size() / 2);
    const std::vector<int32_t> counts = MakeCounts(noise, vocab);
    for (size_t id = 0; id < counts.size(); ++id) {
      if (counts[id] != 0) words.insert(words.end(), {static_cast<int32_t>(id), counts[id]});
    }
    rows.insert(rows.end(),
                {static_cast<int32_t>(r), begin, static_cast<int32_t>(words.size() / 2)});
  }
  const size_t row = c.Add(Array::Ints({static_cast<int64_t>(rows.size() / 3), 3}, rows));
  const size_t word = c.Add(Array::Ints({static_cast<int64_t>(words.size() / 2), 2}, words));
  const size_t counts = c.Add(AnyCounts(noise, count_rows, vocab));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<SetCounts::Args> {
    return SetCounts::Args{.rows = t[row], .words = t[word], .counts = t[counts]};
  };
  return c;
}

ConformanceCase<KeepDrawn> MakeCase(const KeepDrawn&, int number, TestNoise& noise) {
  ConformanceCase<KeepDrawn> c;
  const int64_t vocab = AnyVocab(noise);
  c.desc.vocab = vocab;
  const int64_t sequences = IsEmpty(number) ? 0
                            : vocab > 10000 ? 3
                                            : Pick<int64_t>(noise, {1, 3, 9, 200});
  std::vector<SampleRow> rows;
  std::vector<SampleOutput> outputs;
  for (int32_t s = 0; s < sequences; ++s)
    AddDrawn(noise, vocab, noise.Below(5) != 0 ? s : -1, rows, outputs);
  const Known known(noise, 1 + sequences);
  const bool counted = std::any_of(rows.begin(), rows.end(),
                                   [](const SampleRow& row) { return row.counts_row >= 0; });
  const size_t row = c.Add(Bytes(rows));
  const size_t output = c.Add(Bytes(outputs));
  c.comparers[output] = &CompareOutputs;
  const size_t counts = c.Add(AnyCounts(noise, 1 + sequences, vocab));
  const size_t length = c.Add(known.LengthArray()), token = c.Add(known.TokenArray());
  const double taken = Pick(noise, {0.0, 0.0, 0.4, 1.0});
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<KeepDrawn::Args> {
    return KeepDrawn::Args{.rows = t[row],
                           .outputs = t[output],
                           .counts = counted ? t[counts] : Tensor(),
                           .lengths = t[length],
                           .tokens = t[token],
                           .taken = taken};
  };
  return c;
}

ConformanceCase<ResolveRows> MakeCase(const ResolveRows&, int number, TestNoise& noise) {
  ConformanceCase<ResolveRows> c;
  const int64_t slots = Pick<int64_t>(noise, {1, 3, 200});
  const Known known(noise, slots);
  std::vector<SampleRow> rows(static_cast<size_t>(AnyTokens(number, noise)));
  for (SampleRow& row : rows) {
    if (noise.Below(4) == 0) row = PaddingRow();
    if (noise.Below(4) == 0) continue;
    row.slot = static_cast<int32_t>(noise.Below(slots));
    row.position = noise.Below(3) == 0 ? noise.Below(5000) : -noise.Below(9);
    row.target =
        static_cast<int32_t>(Flip(noise) ? noise.Below(5000) : -1 - noise.Below(known.width));
  }
  const size_t row = c.Add(Bytes(rows));
  const size_t length = c.Add(known.LengthArray()), token = c.Add(known.TokenArray());
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<ResolveRows::Args> {
    return ResolveRows::Args{.rows = t[row], .lengths = t[length], .tokens = t[token]};
  };
  return c;
}

}  // namespace sluice::ops
