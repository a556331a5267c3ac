#include "cli/settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <map>

namespace sluice::cli {
namespace {

class SettingsTest : public ::testing::Test {
 protected:
  struct Values {
    std::string model, host = "127.0.0.1";
    int port = 8000, queue = 1024;
    bool cache = true;
    std::vector<std::string> stop, models;
  };

  ~SettingsTest() override {
    for (const auto& [name, value] : environment_) unsetenv(name.c_str());
  }
  void Set(const std::string& name, const std::string& value) {
    environment_[name] = value;
    setenv(name.c_str(), value.c_str(), 1);
  }
  void Write(const std::string& text) {
    path_ = ::testing::TempDir() + "/sluice_settings_test.toml";
    std::ofstream(path_) << text;
  }

  // What `command` makes of its line, the environment and the file.
  Status Run(std::vector<std::string> line, const std::string& name = "serve") {
    values_ = {};
    CLI::App app("", "sluice");
    for (const char* command : {"serve", "chat"}) {
      CLI::App* sub = app.add_subcommand(command);
      if (std::string(command) == "chat") sub->add_option("model", values_.model);
      if (std::string(command) == "serve") sub->add_option("model", values_.models);
      sub->add_option("--max-queue", values_.queue)
          ->check(CLI::Range(1, 4096))
          ->group(kEngineGroup);
      sub->add_flag("--prefix-cache,!--no-prefix-cache", values_.cache)->group(kEngineGroup);
      sub->add_option("--stop", values_.stop);
    }
    app.get_subcommand("serve")->add_option("--port", values_.port)->check(CLI::Range(0, 65535));
    app.get_subcommand("serve")->add_option("--host", values_.host);
    line.insert(line.begin(), name);
    std::reverse(line.begin(), line.end());
    app.parse(line);
    const std::set<std::string> given = OptionsGiven(*app.get_subcommand(name));
    auto settings = ReadSettings(app, *app.get_subcommand(name), path_);
    if (!settings.ok()) return settings.status();
    auto models = ReadModelTables(app, *app.get_subcommand("serve"), path_, given);
    if (!models.ok()) return models.status();
    models_ = *models;
    unknown_ = UnknownVariables(app);
    Status status = ApplySettings(*app.get_subcommand(name), &*settings);
    settings_ = *settings;
    return status;
  }
  std::string ErrorOf(const std::string& file) {
    Write(file);
    return Run({}).message();
  }

  std::map<std::string, std::string> environment_;
  std::string path_;
  Values values_;
  Settings settings_;
  std::vector<ModelTable> models_;
  std::vector<std::string> unknown_;
};

TEST_F(SettingsTest, TheLineWinsOverTheEnvironmentAndThatOverTheFile) {
  Write("port = 1\nmax-queue = 2\nhost = \"file\"\n");
  Set("SLUICE_PORT", "3");
  Set("SLUICE_MAX_QUEUE", "4");
  ASSERT_TRUE(Run({"--port", "5"}).ok());
  EXPECT_EQ(values_.port, 5);
  EXPECT_EQ(values_.queue, 4);
  EXPECT_EQ(values_.host, "file");
  EXPECT_EQ(settings_.count("port"), 0u);  // which nobody may be told to look up
  EXPECT_EQ(settings_.at("max-queue").source, "the environment variable SLUICE_MAX_QUEUE");
  EXPECT_EQ(settings_.at("host").source, path_ + ", line 3");
}

// As Compose's ${PORT:-} gives it.
TEST_F(SettingsTest, AnEmptyVariableIsNone) {
  Write("port = 1\n");
  Set("SLUICE_PORT", "");
  Set("SLUICE_MAX_QUEUE", "");
  ASSERT_TRUE(Run({}).ok());
  EXPECT_EQ(values_.port, 1);
  EXPECT_EQ(values_.queue, 1024);
}

TEST_F(SettingsTest, OneFileServesEveryCommand) {
  Write(
      "model = \"m.gguf\"\nport = 1\nmax_queue = 7\n[serve]\nmax-queue = 8\n[chat]\nstop = "
      "[\"a\", \"b,c\"]\n");
  ASSERT_TRUE(Run({}).ok());
  EXPECT_EQ(values_.models, (std::vector<std::string>{"m.gguf"}));
  EXPECT_EQ(values_.port, 1);
  EXPECT_EQ(values_.queue, 8);
  ASSERT_TRUE(Run({"other.gguf"}, "chat").ok());
  EXPECT_EQ(values_.model, "other.gguf");
  EXPECT_EQ(values_.queue, 7);
  EXPECT_EQ(values_.stop, (std::vector<std::string>{"a", "b,c"}));
}

TEST_F(SettingsTest, FlagsAreTrueOrFalse) {
  Write("prefix-cache = false\n");
  ASSERT_TRUE(Run({}).ok());
  EXPECT_FALSE(values_.cache);
  Set("SLUICE_PREFIX_CACHE", "true");
  ASSERT_TRUE(Run({}).ok());
  EXPECT_TRUE(values_.cache);
  Set("SLUICE_PREFIX_CACHE", "maybe");
  EXPECT_EQ(Run({}).message(),
            "the environment variable SLUICE_PREFIX_CACHE: prefix-cache is \"maybe\"; it must be "
            "true or false");
}

TEST_F(SettingsTest, ErrorsNameFileAndLine) {
  const auto ends = [this](const std::string& file, const std::string& end) {
    const std::string message = ErrorOf(file);
    EXPECT_TRUE(message.starts_with(path_ + ", line ")) << message;
    EXPECT_NE(message.find(end), std::string::npos) << message;
  };
  ends("port = 1\nthis is garbage\n", "line 2: this is not TOML");
  ends("port = 1\n\nport = 2\n", "line 3: this is not TOML");
  ends("max-queue = 1\nmax_queue = 2\n", "line 2: max-queue stands there twice");
  ends("\nprot = 1\n", "line 2: no command has an option prot");
  ends("[chat]\nport = 1\n", "line 2: sluice chat has no option port");
  ends("[server]\nport = 1\n", "line 1: there is no command \"server\"");
  ends("port = 70000\n", "line 1: port is \"70000\"");
  ends("port = \"http\"\n", "line 1: port is \"http\"; Value http not in range 0 to 65535");
  ends("port = 1979-05-27\n", "line 1: the value of port is neither");
  ends("port = [1, 2]\n", "line 1: port takes one value and is given 2");
  ends("[serve.port]\na = 1\n", "the value of port is neither");
}

// The tables name the models where nothing else does, in the order of the file.
TEST_F(SettingsTest, TablesOfModelsNameThem) {
  const std::string file =
      "[models.small]\nmodel = \"a.gguf\"\nmax_queue = 7\n[models.named]\nmax-queue = 8\n"
      "[models.large]\nmodel = \"b.gguf\"\nprefix-cache = false\n[serve]\nmax-queue = 9\n";
  Write(file);
  ASSERT_TRUE(Run({}).ok());
  EXPECT_EQ(values_.models, (std::vector<std::string>{"small", "large"}));
  EXPECT_EQ(values_.queue, 9);
  ASSERT_EQ(models_.size(), 3u);
  EXPECT_EQ(models_[0].name, "small");
  EXPECT_EQ(models_[0].source, path_ + ", line 1");
  EXPECT_EQ(models_[0].settings.at("max-queue").values, (std::vector<std::string>{"7"}));
  EXPECT_EQ(models_[0].settings.at("max-queue").source, path_ + ", line 3");
  EXPECT_EQ(models_[1].name, "named");
  EXPECT_EQ(models_[2].settings.at("prefix-cache").values, (std::vector<std::string>{"false"}));
  ASSERT_TRUE(Run({"large"}).ok());
  EXPECT_EQ(values_.models, (std::vector<std::string>{"large"}));
  Write("model = \"m.gguf\"\n" + file);
  ASSERT_TRUE(Run({}).ok());
  EXPECT_EQ(values_.models, (std::vector<std::string>{"m.gguf"}));
}

// What is said of all models there wins over what the file says of one.
TEST_F(SettingsTest, TheLineAndTheEnvironmentWinOverTablesOfModels) {
  Write("[models.small]\nmodel = \"a.gguf\"\nmax-queue = 7\nprefix-cache = false\n");
  ASSERT_TRUE(Run({"--max-queue", "5"}).ok());
  EXPECT_FALSE(models_[0].settings.contains("max-queue"));
  EXPECT_TRUE(models_[0].settings.contains("prefix-cache"));
  Set("SLUICE_PREFIX_CACHE", "true");
  ASSERT_TRUE(Run({"other"}).ok());
  EXPECT_TRUE(models_[0].settings.contains("max-queue"));
  EXPECT_FALSE(models_[0].settings.contains("prefix-cache"));
  EXPECT_TRUE(models_[0].settings.contains("model"));
}

TEST_F(SettingsTest, ErrorsOfTablesOfModelsNameFileAndLine) {
  const auto is = [this](const std::string& file, const std::string& end) {
    const std::string message = ErrorOf(file);  // which sets path_
    EXPECT_EQ(message, path_ + end);
  };
  is("[models]\nmax-queue = 1\n",
     ", line 2: max-queue stands in the table of all models, which holds a table [models.NAME] for "
     "each; write it there, or in [serve]");
  is("[models.a]\nport = 1\n",
     ", line 2: a model has no option port of its own; see the engine options of sluice serve "
     "--help");
  is("[models.a]\nmax-queue = 1\nmax_queue = 2\n", ", line 3: max-queue stands there twice");
  is("[models.\"\"]\nmax-queue = 1\n", ", line 1: a model needs a name");
  is("[models.a]\nmodel = {path = \"x\"}\n",
     ", line 2: the value of model is neither a text, a number, true, false, nor a list of those");
}

TEST_F(SettingsTest, ErrorsNameTheVariable) {
  for (const char* value : {"x", "-1", "99999", "1.5", "8000x"}) {
    Set("SLUICE_PORT", value);
    const std::string message = Run({}).message();
    EXPECT_TRUE(message.starts_with("the environment variable SLUICE_PORT: port is \"")) << message;
  }
}

TEST_F(SettingsTest, UnknownVariablesAreTold) {
  Set("SLUICE_PROT", "1");
  Set("SLUICE_PORT", "1");
  Set("SLUICE_CACHE", "/tmp");
  ASSERT_TRUE(Run({}, "chat").ok());  // which has no port, but knows of it
  EXPECT_EQ(unknown_, (std::vector<std::string>{"SLUICE_PROT"}));
}

TEST_F(SettingsTest, AFileThatCannotBeReadIsAnError) {
  path_ = "/no/such/file.toml";
  EXPECT_NE(Run({}).message().find("--config"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
