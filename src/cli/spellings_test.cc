#include "cli/spellings.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace sluice::cli {
namespace {

class SpellingsTest : public ::testing::Test {
 protected:
  SpellingsTest() {
    app_.add_option("model", text_);
    app_.add_option("--threads,--temperature,--max-model-len,-p", text_);
    app_.add_flag("--json", flag_);
  }
  using Words = std::vector<std::string>;
  Words Own(const Words& words) { return Translated(words, app_); }

  CLI::App app_;
  std::string text_;
  bool flag_ = false;
};

TEST_F(SpellingsTest, LlamaCppsNamesAreTaken) {
  EXPECT_EQ(Own({"-m", "a.gguf", "-c", "4096", "-t", "8", "--temp", "0.5"}),
            (Words{"a.gguf", "--max-model-len", "4096", "--threads", "8", "--temperature", "0.5"}));
  EXPECT_EQ(Own({"--model=a.gguf", "--ctx-size=4096"}), (Words{"a.gguf", "--max-model-len=4096"}));
}

TEST_F(SpellingsTest, ThoseOfSamplingStandInItsTable) {
  app_.add_option("--repetition-penalty", text_);
  EXPECT_EQ(Own({"--repeat-penalty=1.1"}), (Words{"--repetition-penalty=1.1"}));
  EXPECT_EQ(Own({"--temp=1", "--temp-"}), (Words{"--temperature=1", "--temp-"}));
}

TEST_F(SpellingsTest, SoAreTheNamesOfFilesForTls) {
  app_.add_option("--tls-cert,--tls-key", text_);
  EXPECT_EQ(Own({"--ssl-cert-file", "a", "--ssl-keyfile=b"}),
            (Words{"--tls-cert", "a", "--tls-key=b"}));
}

TEST_F(SpellingsTest, ValuesAndOwnFlagsStay) {
  EXPECT_EQ(Own({"-p", "-m", "--json", "-m", "a"}), (Words{"-p", "-m", "--json", "a"}));
  EXPECT_EQ(Own({"--seed", "1", "--", "-m"}), (Words{"--seed", "1", "--", "-m"}));
  app_.add_option("-c", text_);
  EXPECT_EQ(Own({"-c", "1"}), (Words{"-c", "1"}));
}

TEST_F(SpellingsTest, HintsAtWhatWasMeant) {
  EXPECT_EQ(FlagHint("--hlep", app_), "; did you mean --help?");
  EXPECT_EQ(FlagHint("--thread=3", app_), "; did you mean --threads?");
  EXPECT_EQ(FlagHint("-ngl", app_), "; use --device, which takes all layers");
  EXPECT_EQ(FlagHint("--nothing-like-it", app_), "");
  EXPECT_EQ(FlagHint("-z", app_), "");
}

}  // namespace
}  // namespace sluice::cli
