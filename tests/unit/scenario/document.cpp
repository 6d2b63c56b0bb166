// The document tree: places, aliases, what a parser accepts, and hostile texts.
#include "scenario/document.hpp"

#include "helpers.hpp"

using namespace rehearsal;
using namespace rehearsal::scenario;

namespace {

struct Parsed {
  Diagnostics problems;
  Documents documents{problems};
  const Node* root = nullptr;
  explicit Parsed(const std::string& text) { root = documents.read_text(text, "t"); }
  std::string first() const { return problems.count() ? format({problems.errors()[0]}) : ""; }
};

std::string repeat(const std::string& piece, int times) {
  std::string text;
  while (times-- > 0) text += piece;
  return text;
}

}  // namespace

TEST_CASE("every node knows its place; a block stands where its key stands") {
  const Parsed p("a: 1\nb:\n  c: \"8\"\n  d:\nl: [1, ~]\n");
  REQUIRE(p.root);
  CHECK(p.root->entries.size() == 3);
  const Node* b = p.root->find("b");
  CHECK(b->line == 2);
  CHECK(b->column == 1);
  CHECK(b->find("c")->line == 3);
  CHECK(b->find("c")->column == 6);
  CHECK(b->find("c")->quoted);
  CHECK_FALSE(p.root->find("a")->quoted);
  CHECK(b->find("d")->kind == Node::Kind::null);
  CHECK(b->find("d")->line == 4);
  CHECK(p.root->find("l")->items[1]->kind == Node::Kind::null);
  // The root, the values a, b, c, d, l, the two items of l, and the five keys.
  CHECK(p.root->size == 1 + 5 + 2 + 5);
}

TEST_CASE("an alias shares its node and counts as often as it is reached") {
  const Parsed p("a: &x [1, 2]\nb: *x\n");
  REQUIRE(p.root);
  CHECK(p.root->find("a") == p.root->find("b"));
  CHECK(p.root->size == 1 + 2 * 3 + 2);  // the map, twice a list of two, two keys
}

TEST_CASE("errors of the text, by place") {
  const struct {
    const char *text, *error;
  } cases[] = {
      {"", "t:1:1: error: is empty"},
      {"# only a comment\n", "t:1:1: error: is empty"},
      {"---\n", "t:1:1: error: is empty"},
      {"a: 1\nb: 2\na: 3\n", "t:3:1: error: duplicate key 'a'; it is already given on line 1"},
      {"{a: {b: 1, 'b': 2}}", "t:1:12: error: duplicate key 'b'; it is already given on line 1"},
      {"a: 1\n---\nb: 2\n", "t:2:1: error: a second document begins here"},
      {"a: &a {b: *a}\n", "t:1:11: error: an alias inside its own anchor"},
      {"a: &a [1, [*a]]\n", "t:1:12: error: an alias inside its own anchor"},
      {"a: *b\n", "t:1:4: error: not valid YAML: an alias '*name' without its anchor"},
      {"a:\n\tb: 1\n", "t:2:1: error: not valid YAML: a tab in the indentation"},
      {"a:\n  b: 1\n \tc: 1\n", "t:3:2: error: not valid YAML: a tab in the indentation"},
      {"a: |\n  b\n  \tc\nd: @\n", "t:4:4: error: not valid YAML: a character that no value may begin with"},
      {"a: 1\nfoo\nb: 2\n", "t:2:1: error: not valid YAML: a line without 'key: value'"},
      {"a: \"\\ud83", "t:1:7: error: not valid YAML"},
      {"a: [1, 2\n", "t:1:4: error: not valid YAML: a '[' that is not closed"},
      {"a: b: c\n", "t:1:5: error: not valid YAML: a ':' is not allowed here"},
      {"a: [1, 2\nb: 3\n", "error: not valid YAML: a '[' that is not closed"},
      {"a: 'open\n", "t:1:4: error: not valid YAML: a quote that is not closed"},
      {"a: \"open \\\" \n", "t:1:4: error: not valid YAML: a quote that is not closed"},
      {"a: 'it''s\n", "t:1:4: error: not valid YAML: a quote that is not closed"},
      {"a: @x\n", "t:1:4: error: not valid YAML: a character that no value may begin with"},
      {"? [a]\n: b\n", "t:1:3: error: a key must be a plain word"},
      {"a: 'x\n---\nb'\n", "t:2:1: error: not valid YAML: a quote that is not closed"},
      {"a: *.txt\n", "t:1:5: error: not valid YAML: a '*' or '&' without the name of an anchor"},
      {"a: | b\n", "t:1:6: error: not valid YAML: text after a '|' or '>'"},
      {"a: \"C:\\models\"\n", "t:1:7: error: not valid YAML: an escape that YAML does not have"},
      {"a: \"\\xZZ\"\n", "error: not valid YAML: an escape without its hexadecimal digits"},
      {"%FOO bar\n---\na: 1\n", "t:1:5: error: not valid YAML: a line that begins with % is a directive, and this one"},
      {"% \na: 1\n", "t:1:2: error: not valid YAML: a line that begins with % is a directive, and this one"},
      {"%YAML 1.3\n---\na: 1\n", "t:1:1: error: not valid YAML: '%YAML' asks for another version"},
      {"a: !x!y 1\n", "t:1:4: error: not valid YAML: a tag '!name!' that no '%TAG' line defines"},
      {"a: !!binary eA==\n", "t:1:4: error: the tag '!!binary' has no effect here; leave it out"},
      {"a: !mine x\n", "t:1:4: error: the tag '!mine' has no effect here; leave it out"},
      {"a: !mine {b: 1}\n", "t:1:4: error: the tag '!mine' has no effect here; leave it out"},
      {"a: !!map [1]\n", "t:1:4: error: the tag '!!map' has no effect here; leave it out"},
      {"b: &b {c: 1}\na: {<<: *b}\n", "t:2:5: error: merge keys ('<<', of YAML 1.1) are not supported"},
  };
  for (const auto& [text, error] : cases) {
    const Parsed p(text);
    INFO(text);
    INFO(p.first());
    CHECK(p.problems.count() == 1);
    CHECK(p.first().find(error) != std::string::npos);
  }
}

TEST_CASE("the ':' of a key comes within 1024 characters, which libyaml wants, and the message says so") {
  const std::string long_key(1100, 'k'), error = "a key of more than 1024 characters";
  for (const std::string& text : {long_key + ": 1\n", "a: 1\n" + long_key + ": 1\n", "{'a': 2, '" + long_key + "': 1}",
                                  "{a: {\"\xC3\xA4" + long_key + "\": 1}}"}) {
    const Parsed p(text);
    INFO(p.first());
    CHECK(p.problems.count() == 1);
    CHECK(p.first().find(error) != std::string::npos);
  }
  CHECK(Parsed(std::string(1000, 'k') + ": 1\n").problems.count() == 0);
  CHECK(Parsed("a: b: " + long_key).first().find("a ':' is not allowed here") != std::string::npos);
}

TEST_CASE("tags of the core schema say what a value is") {
  const Parsed p("a: !!int \"8\"\nb: !!str 8\nc: !!null ''\nd: ! 8\ne: !!float 1.5\nf: !!map {g: !!bool true}\n");
  INFO(p.first());
  REQUIRE(p.problems.count() == 0);
  CHECK(p.root->find("a")->text == "8");
  CHECK_FALSE(p.root->find("a")->quoted);
  CHECK(p.root->find("b")->quoted);
  CHECK(p.root->find("c")->kind == Node::Kind::null);
  CHECK(p.root->find("d")->quoted);
  CHECK_FALSE(p.root->find("e")->quoted);
  CHECK_FALSE(p.root->find("f")->find("g")->quoted);
}

TEST_CASE("lines end where JSON and editors end them, and not at U+0085, U+2028 or U+2029") {
  const std::string next = "\xC2\x85", line = "\xE2\x80\xA8", paragraph = "\xE2\x80\xA9";
  const Parsed p("# note" + line + "hidden: 1\na: \"x " + line + " y\"\nb: x" + next + "z\nc: 'x" + paragraph + "'\nd" +
                 line + "e: \"\\u2028\"\n");
  INFO(p.first());
  REQUIRE(p.problems.count() == 0);
  CHECK(p.root->entries.size() == 4);
  CHECK(p.root->find("a")->text == "x " + line + " y");
  CHECK(p.root->find("b")->text == "x" + next + "z");
  CHECK(p.root->find("b")->line == 3);
  CHECK(p.root->find("c")->text == "x" + paragraph);
  REQUIRE(p.root->find("d" + line + "e"));
  CHECK(p.root->find("d" + line + "e")->text == line);
}

TEST_CASE("quotes that are closed pass") {
  const Parsed p("a: 'it''s'\nb: \"x \\\" y\"\nc: |\n  'text\nd: >-\n  \"folded\n");
  CHECK(p.problems.count() == 0);
  CHECK(p.root->find("a")->text == "it's");
  CHECK(p.root->find("c")->text == "'text\n");
}

TEST_CASE("alias bombs, huge lists and deep nests are refused") {
  // Ten lists of ten aliases each: 10^9 values in 200 bytes.
  std::string bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 9; i++)
    bomb += fmt::format("a{}: &a{} [{}]\n", i, i, repeat(fmt::format("*a{}, ", i - 1), 9) + fmt::format("*a{}", i - 1));
  const struct {
    const char* what;
    std::string text, error;
  } cases[] = {
      {"alias bomb", bomb, "aliases expand to more than 100000 values"},
      {"long list", "[" + repeat("1,", 200'000) + "1]", "the file has more than 100000 values"},
      {"deep list", repeat("[", 20'000) + repeat("]", 20'000), "nested more than 64 levels deep"},
      {"deep open list", repeat("[", 20'000), "nested more than 64 levels deep"},
      {"deep map", repeat("{a: ", 20'000), "nested more than 64 levels deep"},
      {"deep block list", repeat("- ", 20'000), "nested more than 64 levels deep"},
      {"deep keys", repeat("? ", 20'000), "nested more than 64 levels deep"},
  };
  for (const auto& [what, text, error] : cases) {
    const Parsed p(text);
    INFO(what);
    INFO(p.first());
    CHECK(p.root == nullptr);
    CHECK(p.first().find(error) != std::string::npos);
  }
}

TEST_CASE("an alias bomb within the bound costs its own size only") {
  const Parsed p("a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b]\n");
  REQUIRE(p.root);
  // a: 1 + 10 = 11; b: 1 + 10 a = 111; c: 1 + 5 b = 556; the map itself and three keys
  CHECK(p.root->size == 11 + 111 + 556 + 1 + 3);
}

TEST_CASE("unreadable files say why") {
  const Folder folder;
  const struct {
    std::string path, error;
  } cases[] = {
      {folder.path() + "/missing.yaml", "cannot be opened: No such file or directory"},
      {folder.path(), "is a directory, not a file"},
      {folder.write("zero.yaml", std::string("a: 1\nb: \0 2", 11)), "zero.yaml:2:4: error: not a text file: byte 0x00"},
      {folder.write("latin.yaml", "name: caf\xe9\n"), "latin.yaml:1:10: error: not a text file: byte 0xe9"},
      {folder.write("elf.yaml",
                    "\x7f"
                    "ELF\x02\x01\x01" +
                        std::string(64, '\0')),
       "not a text file: byte 0x00"},
      {folder.write("overlong.yaml", "a: \xc0\xaf\n"), "byte 0xc0"},
      {folder.write("surrogate.yaml", "a: \xed\xa0\x80\n"), "byte 0xed"},
      {folder.write("utf16.yaml", std::string("\xff\xfe"
                                              "a\0",
                                              4)),
       "byte 0xff"},
      {folder.write("large.yaml", std::string((4 << 20) + 1, '#')), "is larger than 4 MiB"},
  };
  for (const auto& [path, error] : cases) {
    Diagnostics problems;
    Documents documents(problems);
    INFO(path);
    CHECK(documents.read_file(path) == nullptr);
    REQUIRE(problems.count() == 1);
    INFO(format(problems.errors()));
    CHECK(format(problems.errors()).find(error) != std::string::npos);
  }
}

TEST_CASE("UTF-8 in names is text") {
  Parsed p(
      "name: Gr\xc3\xb6\xc3\x9f"
      "e \xe2\x82\xac \xf0\x9f\x98\x80\n");
  CHECK(p.problems.count() == 0);
}

TEST_CASE("--set copies its path and leaves shared nodes alone") {
  Parsed p("a: &x {k: 1}\nb: *x\nl: [1, 2]\nschedule: 1f1b\n");
  const Node* root = p.documents.set(p.root, "b.k=2");
  CHECK(root->find("b")->find("k")->text == "2");
  CHECK(root->find("a")->find("k")->text == "1");
  root = p.documents.set(root, "new.deep.key={x: [1, 2]}");
  CHECK(root->find("new")->find("deep")->find("key")->find("x")->items.size() == 2);
  root = p.documents.set(root, "l.1=7");
  CHECK(root->find("l")->items[1]->text == "7");
  root = p.documents.set(root, "schedule.group=4");
  CHECK(root->find("schedule")->find("name")->text == "1f1b");
  CHECK(root->find("schedule")->find("group")->text == "4");
  CHECK(p.problems.count() == 0);
  CHECK(p.root->find("schedule")->text == "1f1b");
}

TEST_CASE("--set KEY=null leaves a key out, but beside `use` it stands against what is used") {
  Parsed p("a: {k: 1, l: 2}\nb: {use: x, k: 1}\n");
  const Node* root = p.documents.set(p.root, "a.k=null");
  CHECK(root->find("a")->find("k") == nullptr);
  CHECK(root->find("a")->find("l")->text == "2");
  root = p.documents.set(root, "b.k=null");
  CHECK(root->find("b")->find("k")->kind == Node::Kind::null);
  root = p.documents.set(root, "a=null");
  CHECK(root->find("a") == nullptr);
  CHECK(p.root->find("a")->find("k")->text == "1");
}

TEST_CASE("wrong --set options are named") {
  const struct {
    const char *set, *error;
  } cases[] = {
      {"batch", "--set batch: error: write KEY=VALUE"},  {"=1", "--set =1: error: write KEY=VALUE"},
      {"a=", "--set a=: error: has no value after '='"}, {"a=[1", "--set a=[1: error: not valid YAML: a '['"},
      {"a..b=1", "'a..b' is not a path of keys"},        {"a={x: 1, x: 2}", "duplicate key 'x'"},
      {"l.5=1", "'5' is not an entry of this list of 2"},
  };
  for (const auto& [set, error] : cases) {
    Parsed p("l: [1, 2]\n");
    p.documents.set(p.root, set);
    INFO(p.first());
    CHECK(p.problems.count() == 1);
    CHECK(p.first().find(error) != std::string::npos);
  }
}

TEST_CASE("what is shown of a user's text cannot write to the terminal") {
  CHECK(in_quotes("a\x1b[31m\n") == "'a\\x1b[31m\\x0a'");
  CHECK(in_quotes(std::string(100, 'x')).size() == 64 + 5);
  // 63 letters and a two-byte character across the cut: the character goes.
  CHECK(in_quotes(std::string(63, 'x') + "\xc3\xb6" + std::string(40, 'y')) == "'" + std::string(63, 'x') + "...'");
}
