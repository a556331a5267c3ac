// What rejection leaves has the distribution of the model, whatever drafts were drawn from. Drafts
// are drawn and verified by the ops that serving uses, two behind one another, by two Markov chains
// of a few tokens; what comes out is counted and held to probabilities that are computed here.
// SLUICE_REJECTION_DRAWS in the environment is how many sequences, or trees, each setting has.
#include "ops/rejection_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "ops/attention.h"
#include "ops/guess_trees.h"
#include "ops/op_fixture.h"
#include "ops/token_counts.h"

namespace sluice::ops {
namespace {

constexpr int kStates = 3, kSequences = 4000, kBatches = 5, kDrafts = 2;

// Batches of a setting.
int Batches() {
  const char* const value = std::getenv("SLUICE_REJECTION_DRAWS");
  return value == nullptr ? kBatches : std::max(1, std::atoi(value) / kSequences);
}

enum class Drafts { kWhole, kPruned, kSure, kFar };

struct Setting {
  int number = 0;
  int vocab = 9;
  float temperature = 1.0f;
  int top_k = 0;
  float top_p = 1.0f, min_p = 0.0f;
  Drafts drafts = Drafts::kWhole;
  bool masked = false, edited = false;
};

// Fifty that mix what may be mixed.
std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (int i = 0; i < 50; ++i) {
    Setting s;
    s.number = i;
    s.vocab = std::array{2, 5, 9, 16, 33}[i % 5];
    s.temperature = std::array{0.3f, 0.7f, 1.0f, 1.6f, 5.0f}[i / 5 % 5];
    s.drafts = std::array{Drafts::kWhole, Drafts::kPruned, Drafts::kSure, Drafts::kFar}[i % 4];
    if (i % 3 == 1) s.top_k = 1 + s.vocab / 2;
    if (i % 4 == 2) s.top_p = 0.8f;
    if (i % 7 == 3) s.min_p = 0.1f;
    s.masked = i % 6 == 5;
    s.edited = i % 5 == 4;
    settings.push_back(s);
  }
  return settings;
}

template <class T>
Tensor TensorOf(std::vector<T>& values, DType dtype, std::initializer_list<int64_t> dims) {
  return Dense({reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T), {}, {}},
               dtype, dims);
}

// The two chains of a setting.
struct Chains {
  explicit Chains(const Setting& s) : setting(s), guesses(s.vocab) {
    std::mt19937 random(static_cast<unsigned>(s.number));
    std::normal_distribution<float> normal;
    if (s.drafts == Drafts::kPruned) {
      // Every second id, in an order of their own.
      for (int id = s.vocab - 1; id >= 0; id -= 2) target_ids.push_back(id);
      guesses = static_cast<int>(target_ids.size());
      guess_of.assign(s.vocab, -1);
      for (int g = 0; g < guesses; ++g) guess_of[target_ids[g]] = g;
    }
    for (int state = 0; state < kStates; ++state) {
      std::vector<float>& p = target.emplace_back();
      for (int id = 0; id < s.vocab; ++id) p.push_back(1.5f * normal(random));
      std::vector<float>& q = draft.emplace_back();
      for (int g = 0; g < guesses; ++g) {
        const float near = p[target_ids.empty() ? g : target_ids[g]];
        q.push_back((s.drafts == Drafts::kFar ? 0.0f : near) + 0.7f * normal(random));
      }
    }
    if (s.edited) edits = {{.id = 0, .bias = 1.0f}, {.id = s.vocab - 1, .subtract = 0.5f}};
    // At least two ids, the last one among them.
    if (s.masked) mask = {0x55555555u << (s.vocab % 2 == 0 ? 1 : 0) | 1u, 1u};
  }

  int IdOf(int guess) const { return target_ids.empty() ? guess : target_ids[guess]; }
  static int StateBehind(int id) { return id % kStates; }

  // The probabilities of a state's tokens, by the definitions of ops/sampling.h.
  std::vector<double> Expected(int state) const {
    std::vector<double> x(target[state].begin(), target[state].end());
    for (const LogitEdit& edit : edits) x[edit.id] += edit.bias - edit.subtract;
    for (int id = 0; id < setting.vocab; ++id) {
      if (!mask.empty() && (mask[id / 32] >> (id % 32) & 1u) == 0) x[id] = -kInfinity;
    }
    const double largest = *std::max_element(x.begin(), x.end());
    for (double& value : x) value = std::exp((value - largest) / setting.temperature);
    std::vector<int> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return x[a] > x[b]; });
    const size_t most = setting.top_k > 0 ? setting.top_k : order.size();
    for (size_t i = most; i < order.size(); ++i) x[order[i]] = 0.0;
    const double total = std::accumulate(x.begin(), x.end(), 0.0);
    double before = 0.0;
    for (const int id : order) {
      const bool keeps = before < setting.top_p * total && x[id] >= setting.min_p;
      before += x[id];
      if (!keeps) x[id] = 0.0;
    }
    const double kept = std::accumulate(x.begin(), x.end(), 0.0);
    for (double& value : x) value /= kept;
    return x;
  }

  Setting setting;
  int guesses;
  std::vector<std::vector<float>> target, draft;  // logits by state
  std::vector<int32_t> target_ids, guess_of;      // empty: the same
  std::vector<LogitEdit> edits;
  std::vector<uint32_t> mask;
};

// The sum over the cells of (seen - expected)^2 / expected, and how many cells are free.
struct ChiSquare {
  double sum = 0.0;
  int freedom = 0;

  void Add(const std::vector<int64_t>& seen, const std::vector<double>& p) {
    const double n = static_cast<double>(std::accumulate(seen.begin(), seen.end(), int64_t{0}));
    double rest_seen = 0.0, rest_expected = 0.0;  // of cells too small for the test
    int cells = 0;
    const auto cell = [&](double got, double expected) {
      sum += (got - expected) * (got - expected) / expected;
      ++cells;
    };
    for (size_t id = 0; id < p.size(); ++id) {
      if (p[id] == 0.0) {
        EXPECT_EQ(seen[id], 0) << "id " << id << " cannot be drawn";
      } else if (n * p[id] < 5.0) {
        rest_seen += static_cast<double>(seen[id]);
        rest_expected += n * p[id];
      } else {
        cell(static_cast<double>(seen[id]), n * p[id]);
      }
    }
    if (rest_expected >= 5.0) cell(rest_seen, rest_expected);
    freedom += std::max(0, cells - 1);
  }
  // How likely a sum of at least this is: the cube root is nearly normal (Wilson and Hilferty).
  double Probability() const {
    if (freedom == 0) return 1.0;
    const double share = 2.0 / (9.0 * freedom);
    const double z = (std::cbrt(sum / freedom) - (1.0 - share)) / std::sqrt(share);
    return 0.5 * std::erfc(z / std::sqrt(2.0));
  }
};

class Rejection : public OpTest {
 protected:
  struct Seen {
    std::map<int, std::vector<int64_t>> behind;  // by the state before: how often each token
    int64_t rows = 0, accepted = 0;              // of first drafts
  };

  // Holds what was seen to the chains' probabilities, and counts the setting in.
  void ExpectDistribution(const Chains& chains, const Seen& seen) {
    ChiSquare all;
    for (const auto& [state, counts] : seen.behind) all.Add(counts, chains.Expected(state));
    probabilities_.push_back(all.Probability());
    draws_ = seen.rows;
    EXPECT_GT(probabilities_.back(), 0.001) << all.sum << " of " << all.freedom;
  }
  void TellProbabilities() const {
    const auto unlikely = std::count_if(probabilities_.begin(), probabilities_.end(),
                                        [](double p) { return p < 0.05; });
    const auto least = std::min_element(probabilities_.begin(), probabilities_.end());
    std::printf(
        "%zu settings of %lld draws: the least p is %.4f, of setting %td; %td are below 0.05\n",
        probabilities_.size(), static_cast<long long>(draws_), *least,
        least - probabilities_.begin(), unlikely);
  }

  // Draws the guesses of number `number` of all sequences, whose states are `states`.
  std::vector<int32_t> Guess(const Chains& chains, const std::vector<int>& states, int64_t first,
                             int number, std::vector<float>* kept) {
    const Setting& s = chains.setting;
    std::vector<float> logits;
    std::vector<SampleRow> rows;
    for (int i = 0; i < kSequences; ++i) {
      const std::vector<float>& q = chains.draft[states[i]];
      logits.insert(logits.end(), q.begin(), q.end());
      const bool sure = s.drafts == Drafts::kSure;
      rows.push_back({.temperature = sure ? 0.0f : s.temperature,
                      .seed = 7,
                      .choice = -1,
                      .position = first + int64_t{i} * (kDrafts + 1) + number});
    }
    kept->insert(kept->end(), logits.begin(), logits.end());
    std::vector<int32_t> ids;
    for (const SampleOutput& output : Sampled(chains.guesses, logits, rows, {}))
      ids.push_back(chains.IdOf(output.token));
    return ids;
  }

  std::vector<SampleOutput> Sampled(int64_t vocab, std::vector<float>& logits,
                                    std::vector<SampleRow>& rows, Sample::Args args) {
    const auto count = static_cast<int64_t>(rows.size());
    std::vector<SampleOutput> outputs(rows.size());
    std::vector<int32_t> top_ids(rows.size());
    std::vector<float> top_logprobs(rows.size());
    args.logits = TensorOf(logits, DType::kF32, {count, vocab});
    args.rows = TensorOf(rows, DType::kU8, {count, int64_t{sizeof(SampleRow)}});
    args.outputs = TensorOf(outputs, DType::kU8, {count, int64_t{sizeof(SampleOutput)}});
    args.top_ids = TensorOf(top_ids, DType::kI32, {count, 1});
    args.top_logprobs = TensorOf(top_logprobs, DType::kF32, {count, 1});
    EXPECT_TRUE(Run<Sample>({vocab, 0}, args).ok());
    std::vector<int32_t> lengths(1), tokens(1);
    EXPECT_TRUE(Run<KeepDrawn>({vocab}, {.rows = args.rows,
                                         .outputs = args.outputs,
                                         .lengths = TensorOf(lengths, DType::kI32, {1}),
                                         .tokens = TensorOf(tokens, DType::kI32, {1, 1})})
                    .ok());
    return outputs;
  }

  // By sequence the rows that its answer went along, as FollowTrees finds them, in a step of trees
  // with these parents and tokens, the root's first.
  std::map<int, std::vector<int>> Went(std::span<const int32_t> parents,
                                       std::span<const int32_t> tree,
                                       std::vector<SampleOutput>* outputs) {
    const auto rows = static_cast<int32_t>(tree.size()), tokens = kSequences * rows;
    std::vector<int32_t> ids, start, positions, paths(tokens * kPathNumbers), all(tokens);
    std::vector<int32_t> slots(kSequences), lengths(kSequences), known(kSequences);
    std::iota(all.begin(), all.end(), 0);
    std::iota(slots.begin(), slots.end(), 0);
    for (int i = 0; i < kSequences; ++i) {
      start.push_back(i * rows);
      ids.insert(ids.end(), tree.begin(), tree.end());
      int32_t* const path = paths.data() + int64_t{i} * rows * kPathNumbers;
      WritePaths(parents, path);
      for (int32_t row = 0; row < rows; ++row) {
        const int32_t* const its = path + row * kPathNumbers;
        positions.push_back(100 + row - (its[0] > 0 ? AsideOf(its) : 0));
      }
    }
    start.push_back(tokens);
    std::vector<int32_t> order(tokens), followed(tokens), places(tokens);
    const auto ints = [](std::vector<int32_t>& values) {
      return TensorOf(values, DType::kI32, {static_cast<int64_t>(values.size())});
    };
    EXPECT_TRUE(Run<FollowTrees>({}, {.token_ids = ints(ids),
                                      .query_start = ints(start),
                                      .positions = ints(positions),
                                      .slots = ints(slots),
                                      .paths = TensorOf(paths, DType::kI32, {tokens, kPathNumbers}),
                                      .logits_rows = ints(all),
                                      .outputs = TensorOf(*outputs, DType::kU8,
                                                          {tokens, int64_t{sizeof(SampleOutput)}}),
                                      .lengths = ints(lengths),
                                      .known = TensorOf(known, DType::kI32, {kSequences, 1}),
                                      .order = ints(order),
                                      .ids = ints(followed),
                                      .places = ints(places)})
                    .ok());
    std::map<int, std::vector<int>> went;
    for (int i = 0; i < kSequences; ++i) {
      const int kept = lengths[i] - 100;  // the root stands at 100
      for (int row = 0; row < kept; ++row) went[i].push_back(order[i * rows + row] - i * rows);
    }
    return went;
  }

  void Verify(Chains& chains, int64_t first, Seen* seen) {
    const Setting& s = chains.setting;
    std::vector<int> states(kSequences);
    std::vector<std::vector<int32_t>> drafts;
    std::vector<std::vector<int>> before = {states};
    std::vector<float> kept;
    for (int number = 0; number < kDrafts; ++number) {
      drafts.push_back(Guess(chains, states, first, number, &kept));
      for (int i = 0; i < kSequences; ++i) states[i] = Chains::StateBehind(drafts.back()[i]);
      before.push_back(states);
    }
    std::vector<float> logits;
    std::vector<SampleRow> rows;
    for (int i = 0; i < kSequences; ++i) {
      for (int number = 0; number <= kDrafts; ++number) {
        const std::vector<float>& p = chains.target[before[number][i]];
        logits.insert(logits.end(), p.begin(), p.end());
        SampleRow row = {.temperature = s.temperature,
                         .top_k = s.top_k,
                         .top_p = s.top_p,
                         .min_p = s.min_p,
                         .seed = 7,
                         .position = first + int64_t{i} * (kDrafts + 1) + number,
                         .edit_count = static_cast<int32_t>(chains.edits.size()),
                         .mask_row = chains.mask.empty() ? -1 : 0,
                         .drafts = number};
        if (number < kDrafts) {
          row.target = drafts[number][i];
          row.guess_row = s.drafts == Drafts::kSure ? kSure : number * kSequences + i;
        }
        rows.push_back(row);
      }
    }
    Sample::Args args;
    args.guesses = TensorOf(kept, DType::kF32, {kDrafts * kSequences, chains.guesses});
    if (!chains.guess_of.empty()) args.guess_of = TensorOf(chains.guess_of, DType::kI32, {s.vocab});
    if (!chains.edits.empty())
      args.edits = TensorOf(chains.edits, DType::kU8,
                            {static_cast<int64_t>(chains.edits.size()), sizeof(LogitEdit)});
    if (!chains.mask.empty())
      args.masks = TensorOf(chains.mask, DType::kI32, {1, (s.vocab + 31) / 32});
    const std::vector<SampleOutput> outputs = Sampled(s.vocab, logits, rows, args);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (!outputs[r].kept) continue;
      const int number = rows[r].drafts, sequence = static_cast<int>(r) / (kDrafts + 1);
      std::vector<int64_t>& counts = seen->behind[before[number][sequence]];
      counts.resize(s.vocab);
      ++counts[outputs[r].token];
      if (number > 0) continue;
      ++seen->rows;
      seen->accepted += outputs[r].token == rows[r].target;
    }
  }

  std::vector<double> probabilities_;  // by setting
  int64_t draws_ = 0;                  // of the last one
};

TEST_P(Rejection, KeepsTheDistributionInEverySetting) {
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.number);
    Chains chains(setting);
    Seen seen;
    for (int batch = 0; batch < Batches(); ++batch)
      Verify(chains, int64_t{batch} * kSequences * (kDrafts + 1), &seen);
    ExpectDistribution(chains, seen);
  }
  TellProbabilities();
}

// Trees of a head hold what it finds likeliest, whatever its distribution is, and which nodes they
// have depends on nothing that is drawn. A row draws by the model's whole distribution, and goes on
// at the draft that this is: the second of two is met as often as where the first one was refused.
TEST_P(Rejection, TreesKeepTheDistributionInEverySetting) {
  constexpr int kRows = 5;  // a root, two behind it, and one behind each of these
  const std::vector<int32_t> parents = {0, 1, 0, 3};
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.number);
    Chains chains(setting);
    const Setting& s = chains.setting;
    const auto likeliest = [&](int state, int place) {
      std::vector<int> order(static_cast<size_t>(chains.guesses));
      std::iota(order.begin(), order.end(), 0);
      const std::vector<float>& q = chains.draft[state];
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return q[a] > q[b]; });
      // A head of one token has that one twice, and its second node is never gone along.
      return chains.IdOf(order[std::min<size_t>(place, order.size() - 1)]);
    };
    std::array<int32_t, kRows> ids = {0, likeliest(0, 0), 0, likeliest(0, 1), 0};
    ids[2] = likeliest(Chains::StateBehind(ids[1]), 0);
    ids[4] = likeliest(Chains::StateBehind(ids[3]), 0);
    std::array<int, kRows> states = {};
    for (int i = 1; i < kRows; ++i) states[i] = Chains::StateBehind(ids[i]);
    Seen seen;
    int64_t aside = 0;
    for (int batch = 0; batch < Batches(); ++batch) {
      std::vector<float> logits;
      std::vector<SampleRow> rows;
      for (int i = 0; i < kSequences; ++i) {
        for (int row = 0; row < kRows; ++row) {
          const std::vector<float>& p = chains.target[states[row]];
          logits.insert(logits.end(), p.begin(), p.end());
          const int depth = row == 0 ? 0 : 1 + (row % 2 == 0 ? 1 : 0);
          rows.push_back({.temperature = s.temperature,
                          .top_k = s.top_k,
                          .top_p = s.top_p,
                          .min_p = s.min_p,
                          .seed = 9,
                          .position = (int64_t{batch} * kSequences + i) * 3 + depth,
                          .edit_count = static_cast<int32_t>(chains.edits.size()),
                          .mask_row = chains.mask.empty() ? -1 : 0});
        }
      }
      Sample::Args args;
      if (!chains.edits.empty())
        args.edits = TensorOf(chains.edits, DType::kU8,
                              {static_cast<int64_t>(chains.edits.size()), sizeof(LogitEdit)});
      if (!chains.mask.empty())
        args.masks = TensorOf(chains.mask, DType::kI32, {1, (s.vocab + 31) / 32});
      std::vector<SampleOutput> outputs = Sampled(s.vocab, logits, rows, args);
      for (const auto& [sequence, went] : Went(parents, ids, &outputs)) {
        for (const int row : went) {
          std::vector<int64_t>& counts = seen.behind[states[row]];
          counts.resize(s.vocab);
          ++counts[outputs[static_cast<size_t>(sequence) * kRows + row].token];
          aside += row >= 3 ? 1 : 0;
        }
        ++seen.rows;
        seen.accepted += went.size() > 1 ? 1 : 0;
      }
    }
    ExpectDistribution(chains, seen);
    if (ids[3] != ids[1] && chains.Expected(0)[ids[3]] > 0.01) {
      EXPECT_GT(aside, 0) << "the test shows nothing";
    }
  }
  TellProbabilities();
}

// That of drafts which were drawn is the sum of min(p, q), the best that there is.
TEST_P(Rejection, AcceptsAsOftenAsPossible) {
  const Setting setting{.number = 3, .vocab = 16};
  Chains chains(setting);
  Seen seen;
  for (int batch = 0; batch < kBatches; ++batch)
    Verify(chains, int64_t{batch} * kSequences * (kDrafts + 1), &seen);
  Chains draft = chains;
  draft.target = chains.draft;
  const std::vector<double> p = chains.Expected(0), q = draft.Expected(0);
  double common = 0.0;
  for (size_t id = 0; id < p.size(); ++id) common += std::min(p[id], q[id]);
  const double rows = static_cast<double>(seen.rows);
  const double deviation = std::sqrt(common * (1.0 - common) / rows);
  EXPECT_NEAR(static_cast<double>(seen.accepted) / rows, common, 4.0 * deviation);
  EXPECT_LT(common, 0.95) << "the two differ";
}

TEST_P(Rejection, GreedyRowsDrawTheLikeliest) {
  std::vector<float> logits = {0.0f, 2.0f, 1.0f, 0.0f, 2.0f, 1.0f}, draft = {5.0f, 0.0f, 0.0f};
  std::vector<SampleRow> rows = {{.target = 0, .temperature = 0.0f, .guess_row = 0},
                                 {.target = 0, .top_k = 1, .guess_row = kSure}};
  Sample::Args args;
  args.guesses = TensorOf(draft, DType::kF32, {1, 3});
  for (const SampleOutput& output : Sampled(3, logits, rows, args)) EXPECT_EQ(output.token, 1);
}

// A draft that nothing else could have been is the token where the model is as sure, and one that
// may not be drawn never is.
TEST_P(Rejection, DraftsOfProbabilityOneAndZero) {
  std::vector<float> logits(40);
  std::vector<SampleRow> rows;
  for (int i = 0; i < 20; ++i) {
    logits[2 * i] = 50.0f;
    rows.push_back({.target = i % 2, .position = i, .guess_row = kSure});
  }
  const std::vector<SampleOutput> outputs = Sampled(2, logits, rows, {});
  for (const SampleOutput& output : outputs) EXPECT_EQ(output.token, 0);
}

// A proposer's logits that are no numbers gave its likeliest token, which was sure.
TEST_P(Rejection, DegenerateDraftsAreSure) {
  std::vector<float> logits, draft = {1.0f, std::numeric_limits<float>::quiet_NaN(), 0.0f};
  std::vector<SampleRow> with, sure;
  for (int i = 0; i < 50; ++i) {
    logits.insert(logits.end(), {1.0f, 0.5f, 0.0f});
    with.push_back({.target = 0, .position = i, .guess_row = 0});
    sure.push_back({.target = 0, .position = i, .guess_row = kSure});
  }
  Sample::Args args;
  args.guesses = TensorOf(draft, DType::kF32, {1, 3});
  const auto got = Sampled(3, logits, with, args), wanted = Sampled(3, logits, sure, {});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].token, wanted[i].token) << i;
}

TEST_P(Rejection, RowsOfGuessesOutsideAreRefused) {
  std::vector<float> logits = {1.0f, 0.0f}, draft = {1.0f, 0.0f};
  std::vector<SampleRow> rows = {{.target = 0, .guess_row = 1}};
  std::vector<SampleOutput> outputs(1);
  std::vector<int32_t> ids(1);
  std::vector<float> logprobs(1);
  Sample::Args args;
  args.logits = TensorOf(logits, DType::kF32, {1, 2});
  args.rows = TensorOf(rows, DType::kU8, {1, int64_t{sizeof(SampleRow)}});
  args.outputs = TensorOf(outputs, DType::kU8, {1, int64_t{sizeof(SampleOutput)}});
  args.top_ids = TensorOf(ids, DType::kI32, {1, 1});
  args.top_logprobs = TensorOf(logprobs, DType::kF32, {1, 1});
  args.guesses = TensorOf(draft, DType::kF32, {1, 2});
  EXPECT_EQ(Run<Sample>({2, 0}, args).message(), "sample: row 0 names guesses 1 of 1");
}

TEST(Shares, AreProbabilitiesRoundedDown) {
  for (const uint64_t total : {uint64_t{1}, uint64_t{3}, (uint64_t{1} << 53) - 1}) {
    const Shares shares(total);
    EXPECT_GE(shares(total), kCertainty - 1) << total;
    EXPECT_LE(shares(total), kCertainty) << total;
    EXPECT_EQ(shares(0), 0u) << total;
  }
  EXPECT_EQ(Shares(4)(1), kCertainty / 4 - 1);
}

// One set: conformance holds all of them to the same bits.
INSTANTIATE_TEST_SUITE_P(Cpu, Rejection, ::testing::Values(UsableInstructionSets().back()),
                         [](const auto& set) { return set.param; });

}  // namespace
}  // namespace sluice::ops
