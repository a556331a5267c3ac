// Models without a tokenizer: token ids in, token ids out.
#include <filesystem>
#include <fstream>

#include "base/source_dir_fixture.h"
#include "engine/engine_fixture.h"
#include "files/test_files.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class IdsAlone : public ::testing::Test {
 protected:
  IdsAlone() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(fs::path(SourceDir()) / "tests/golden/models/llama" / name,
                    fs::path(folder_.path()) / name);
    }
    EngineOptions options = TinyOptions();
    options.model = fs::path(folder_.path()).string();
    engine_ = OpenTiny(options);
  }
  std::string Refusal(const Request& request) { return Ask(*engine_, request)->error.message(); }

  files::testing::TempFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(IdsAlone, AnswersAreTheIdsOfTheModelWithItsTokenizer) {
  const auto with = Ask(*OpenTiny(TinyOptions()), TinyRequest(kPrompt, 12));
  const auto without = Ask(*engine_, TinyRequest(kPrompt, 12));
  ASSERT_TRUE(without->error.ok()) << without->error.message();
  EXPECT_EQ(without->choices.at(0).ids, with->choices.at(0).ids);
  EXPECT_EQ(without->choices.at(0).text, "");
  EXPECT_NE(with->choices.at(0).text, "");
  EXPECT_TRUE(engine_->Info().ids_alone);
  EXPECT_FALSE(OpenTiny(TinyOptions())->Info().ids_alone);
}

TEST_F(IdsAlone, AnIncompleteCopyIsNoSuchModel) {
  std::ofstream(fs::path(folder_.path()) / "tokenizer_config.json") << "{}";
  EngineOptions options = TinyOptions();
  options.model = folder_.path();
  const auto opened = Engine::Open(options, {});
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.status().message(), HasSubstr("tokenizer.json"));
}

TEST_F(IdsAlone, TextsAreRefusedInASentence) {
  Request text;
  text.prompt = std::string("a");
  EXPECT_THAT(Refusal(text), HasSubstr("no tokenizer"));
  Request chat;
  chat.prompt = ChatPrompt{.messages_json = R"([{"role":"user","content":"a"}])"};
  const Status refused = Ask(*engine_, chat)->error;
  EXPECT_THAT(refused.message(), HasSubstr("no tokenizer"));
  EXPECT_THAT(refused.message(), HasSubstr("/v1/completions takes token ids"));
  EXPECT_EQ(refused.field(), "");  // which field had the texts depends on the API
  EXPECT_THAT(
      engine_->RenderChat(std::get<ChatPrompt>(chat.prompt), "", nullptr).status().message(),
      HasSubstr("no tokenizer"));
  Request stops = TinyRequest(kPrompt, 4);
  stops.stop = {"a"};
  EXPECT_THAT(Refusal(stops), HasSubstr("stop is about text"));
  Request held = TinyRequest(kPrompt, 4);
  held.grammar = {Grammar::Kind::kRegex, "a"};
  EXPECT_THAT(Refusal(held), HasSubstr("grammar is about text"));
  EXPECT_THAT(engine_->Tokenize("a", true, true, nullptr).status().message(),
              HasSubstr("no tokenizer"));
  EXPECT_THAT(engine_->Detokenize({1}, true, nullptr).status().message(),
              HasSubstr("no tokenizer"));
}

}  // namespace
}  // namespace sluice::engine
