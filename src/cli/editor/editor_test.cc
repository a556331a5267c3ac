#include "cli/editor/editor.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace sluice::cli {
namespace {

std::vector<Key> KeysOf(const std::string& bytes, bool quiet = true) {
  KeyReader reader;
  std::vector<Key> keys;
  for (const char c : bytes) reader.Add({&c, 1});
  while (auto key = reader.Next(quiet)) keys.push_back(*key);
  return keys;
}

TEST(KeyReaderTest, KnowsKeysOfSeveralTerminals) {
  for (const char* bytes : {"\x1b[H", "\x1bOH", "\x1b[1~", "\x01"}) {
    const auto keys = KeysOf(bytes);
    ASSERT_EQ(keys.size(), 1u) << bytes;
    EXPECT_EQ(keys[0].kind, KeyKind::kHome) << bytes;
  }
  EXPECT_EQ(KeysOf("\x1b\r")[0].kind, KeyKind::kNewline);
  EXPECT_EQ(KeysOf("\x1b")[0].kind, KeyKind::kEscape);
  // One that nobody asked for, and Alt with a letter, are no text.
  EXPECT_TRUE(KeysOf("\x1b[1;2P").empty());
  EXPECT_TRUE(KeysOf("\x1b[200").empty());
  EXPECT_TRUE(KeysOf("\x1bx").empty());
}

TEST(KeyReaderTest, WaitsForTheRestOfAKey) {
  KeyReader reader;
  reader.Add("\x1b[");
  EXPECT_FALSE(reader.Next(false).has_value());
  reader.Add("A");
  EXPECT_EQ(reader.Next(false)->kind, KeyKind::kUp);
  reader.Add("\xe4\xb8");
  EXPECT_FALSE(reader.Next(false).has_value());
  reader.Add("\x96");
  EXPECT_EQ(reader.Next(false)->text, "\xe4\xb8\x96");
}

TEST(KeyReaderTest, APasteIsOneTextWhateverIsInIt) {
  const std::string paste = "\x1b[200~one\r\ntwo\rthree\x03\x1b[A\tend\x1b[201~\r";
  const auto keys = KeysOf(paste);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].kind, KeyKind::kPaste);
  EXPECT_EQ(keys[0].text, "one\ntwo\nthree[A\tend");
  EXPECT_EQ(keys[1].kind, KeyKind::kEnter);
  // Its end has not come.
  EXPECT_TRUE(KeysOf("\x1b[200~" + std::string(10'000, 'a')).empty());
}

TEST(LineTest, CharactersAreWhatAReaderTakesForOne) {
  // An accent of its own, a family of three, a flag, a wide character.
  for (const std::string one : {"e\xcc\x81", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
                                "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", "\xe4\xb8\x96"}) {
    Line line;
    line.Set("a" + one);
    line.Left();
    EXPECT_EQ(line.cursor(), 1u) << one;
    line.Right();
    line.Backspace();
    EXPECT_EQ(line.text(), "a") << one;
  }
  EXPECT_EQ(WidthOf("a\xe4\xb8\x96"
                    "e\xcc\x81"),
            4);
}

TEST(LineTest, MovesByWordsAndLines) {
  Line line;
  line.Set("one two\nthe longest\nx");
  line.WordLeft();
  line.WordLeft();
  EXPECT_EQ(line.cursor(), std::string("one two\nthe ").size());
  EXPECT_TRUE(line.Up());
  EXPECT_EQ(line.cursor(), 4u);
  line.End();
  EXPECT_EQ(line.cursor(), 7u);
  EXPECT_FALSE(line.Up());
  EXPECT_TRUE(line.Down());
  EXPECT_EQ(line.cursor(), 15u);
  EXPECT_TRUE(line.Down());
  EXPECT_FALSE(line.Down());
  line.KillStart();
  EXPECT_EQ(line.text(), "one two\nthe longest\n");
  line.Set("one two");
  line.KillWord();
  EXPECT_EQ(line.text(), "one ");
  line.Home();
  line.KillEnd();
  EXPECT_EQ(line.text(), "");
}

TEST(LayOutTest, RowsThatATerminalBreaksAgain) {
  EXPECT_EQ(LastRow("", 5), 0u);
  EXPECT_EQ(LastRow("abcde", 5), 0u);
  EXPECT_EQ(LastRow("abcdef", 5), 1u);
  // A wide character that does not fit leaves a column free.
  EXPECT_EQ(LastRow("abcd\xe4\xb8\x96\xe4\xb8\x96", 5), 1u);
  EXPECT_EQ(LastRow("abcd\xe4\xb8\x96\xe4\xb8\x96\xe4\xb8\x96", 5), 2u);
  EXPECT_EQ(Through("abc", 0), "a");
  EXPECT_EQ(Through("abc", 3), "abc");
  EXPECT_EQ(Through("a\xe4\xb8\x96z", 1), "a\xe4\xb8\x96");
  EXPECT_EQ(Through("", 0), "");
}

TEST(LayOutTest, BreaksRowsBeforeTheLastColumn) {
  const ScreenRows screen = LayOut("> ", "abcdefgh\nxy", 11, 8);
  EXPECT_EQ(screen.rows, (std::vector<std::string>{"> abcde", "  fgh", "  xy"}));
  EXPECT_EQ(screen.cursor_row, 2u);
  EXPECT_EQ(screen.cursor_column, 4);
  // A wide character does not hang over.
  EXPECT_EQ(LayOut("> ", "abcd\xe4\xb8\x96", 0, 8).rows,
            (std::vector<std::string>{"> abcd", "  \xe4\xb8\x96"}));
  // The cursor stands where the next character would.
  EXPECT_EQ(LayOut("> ", "abcdef", 5, 8).cursor_row, 1u);
}

class EditorTest : public ::testing::Test {
 protected:
  EditorTest() { editor_.Begin(""); }
  Editor::Outcome Type(const std::string& bytes) {
    auto outcome = Editor::Outcome::kGoOn;
    for (const Key& key : KeysOf(bytes)) outcome = editor_.Press(key);
    return outcome;
  }
  const std::string& text() const { return editor_.line().text(); }

  History history_{""};
  const std::vector<std::string> commands_ = {"/reset", "/retry", "/stats"};
  Editor editor_{history_, commands_};
};

TEST_F(EditorTest, HistoryKeepsWhatWasBeingWritten) {
  history_.Add("one");
  history_.Add("two");
  history_.Add("two");
  editor_.Begin("");
  Type("draft\x1b[A");
  EXPECT_EQ(text(), "two");
  Type("\x1b[A\x1b[A");
  EXPECT_EQ(text(), "one");
  Type("\x1b[B\x1b[B\x1b[B");
  EXPECT_EQ(text(), "draft");
}

TEST_F(EditorTest, SearchFindsOlderOnes) {
  for (const char* one : {"first apple", "pear", "second apple"}) history_.Add(one);
  editor_.Begin("");
  Type(
      "draft\x12"
      "apple");
  EXPECT_EQ(text(), "second apple");
  EXPECT_EQ(editor_.prompt(), "search \"apple\": ");
  Type("\x12");
  EXPECT_EQ(text(), "first apple");
  EXPECT_EQ(Type("\r"), Editor::Outcome::kSubmitted);
  editor_.Begin("");
  Type("draft\x12pear\x03");
  EXPECT_EQ(text(), "draft");
}

TEST_F(EditorTest, TabCompletesCommands) {
  Type("/re\t");
  EXPECT_EQ(text(), "/re");
  Type("s\t");
  EXPECT_EQ(text(), "/reset");
  editor_.Begin("");
  Type("a/s\t");
  EXPECT_EQ(text(), "a/s");
}

TEST_F(EditorTest, ThreeQuotesHoldLinesTogether) {
  EXPECT_EQ(Type("\"\"\"one\rtwo"), Editor::Outcome::kGoOn);
  EXPECT_EQ(text(), "\"\"\"one\ntwo");
  EXPECT_EQ(Type("\"\"\"\r"), Editor::Outcome::kSubmitted);
  editor_.Begin("");
  EXPECT_EQ(Type("one\x1b\rtwo\r"), Editor::Outcome::kSubmitted);
  EXPECT_EQ(text(), "one\ntwo");
}

TEST_F(EditorTest, ControlCClearsFirst) {
  EXPECT_EQ(Type("abc\x03"), Editor::Outcome::kGoOn);
  EXPECT_EQ(text(), "");
  EXPECT_EQ(Type("\x03"), Editor::Outcome::kInterrupted);
  EXPECT_EQ(Type("\x04"), Editor::Outcome::kEndOfFile);
  Type("ab\x01");
  EXPECT_EQ(Type("\x04"), Editor::Outcome::kGoOn);
  EXPECT_EQ(text(), "b");
}

TEST(HistoryTest, IsKeptForItsOwnerAlone) {
  const std::string folder = ::testing::TempDir() + "/sluice_history_test";
  std::filesystem::remove_all(folder);
  const std::string path = folder + "/deep/history";
  {
    History history(path);
    history.Add("one\ntwo \"three\"");
    history.Add("four");
  }
  EXPECT_EQ(History(path).texts(), (std::vector<std::string>{"one\ntwo \"three\"", "four"}));
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice::cli
