// What holds for proposers of every kind.
#include "speculate/proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/allocation_fixture.h"
#include "speculate/ngram_proposer.h"
#include "speculate/suffix_proposer.h"

namespace sluice::speculate {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<int32_t>;

// Texts that pass the proposer's memory, in which some things repeat.
int64_t AllocationsOfProposing(Proposer* proposer) {
  Tokens text, drafts(8);
  for (int32_t i = 0; i < 3000; ++i) text.push_back(i % 300 < 100 ? i % 100 : i * i % 1009);
  return AllocationsOf([&] {
    for (uint64_t key = 0; key < 4; ++key) {
      proposer->Start(1, {.tokens_max = 3000, .key = key});
      for (size_t size = 10; size < text.size(); size += 7) {
        proposer->Propose(1, std::span(text).first(size), drafts);
      }
      while (!proposer->End(1, text)) continue;
    }
  });
}

TEST(Proposer, AllocatesNothing) {
  const ProposerLimits limits = {.slots = 2, .tokens_max = 4000};
  NgramProposer ngram(limits, 2 * 4096 * sizeof(uint32_t));
  EXPECT_EQ(AllocationsOfProposing(&ngram), 0);
  SuffixProposer suffix(
      limits, {.own_bytes = 100'000, .part_bytes = 50'000, .parts = 3, .parts_of_key = 2});
  EXPECT_EQ(AllocationsOfProposing(&suffix), 0);
}

TEST(Proposer, NamesAreThoseOfTheOption) {
  EXPECT_TRUE(CheckProposer("none").ok());
  EXPECT_TRUE(CheckProposer("ngram").ok());
  EXPECT_TRUE(CheckProposer("suffix").ok());
  EXPECT_EQ(MakeProposer("none", {.slots = 1, .tokens_max = 10}), nullptr);
  for (const char* name : {"ngram", "suffix"}) {
    EXPECT_NE(MakeProposer(name, {.slots = 1, .tokens_max = 10}), nullptr);
  }
  const Status status = CheckProposer("medusa");
  EXPECT_EQ(status.field(), "speculate");
  EXPECT_THAT(status.message(),
              HasSubstr("choose auto, none, ngram, suffix, mtp, model, eagle, eagle3 or block"));
}

TEST(Proposer, VerificationIsExactOrByRejection) {
  EXPECT_TRUE(CheckVerification("exact").ok());
  EXPECT_TRUE(CheckVerification("rejection").ok());
  const Status status = CheckVerification("typical");
  EXPECT_EQ(status.field(), "speculate-verify");
  EXPECT_THAT(status.message(), HasSubstr("choose exact or rejection"));
}

}  // namespace
}  // namespace sluice::speculate
