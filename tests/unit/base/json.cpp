#include "base/json.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "base/error.hpp"

namespace rehearsal {

TEST_CASE("braces are objects where they hold pairs that begin with a text, else arrays") {
  CHECK(Json{{"a", 1}, {"b", {1, 2}}}.dump() == R"({"a":1,"b":[1,2]})");
  CHECK(Json{{"a", {{"b", nullptr}}}}.dump() == R"({"a":{"b":null}})");
  CHECK(Json{{"of", {"one"}}, {"none", {}}}.dump() == R"({"of":["one"],"none":{}})");
  CHECK(Json{{1, 2}, {3, 4}}.dump() == "[[1,2],[3,4]]");
  CHECK(Json{{"a", 1}, 2}.dump() == R"([["a",1],2])");
}

TEST_CASE("members stay in their order, whatever is added") {
  Json json{{"z", 1}};
  json["a"] = true, json["z"] = 2;
  json.update({{"m", 1}, {"a", false}});
  CHECK(json.dump() == R"({"z":2,"a":false,"m":1})");
  REQUIRE(json.find("m"));
  CHECK_FALSE(json.find("n"));
  Json list;
  list.push_back(1), list.push_back({{"x", 1}});
  list.back()["y"] = 2;
  CHECK(list.dump() == R"([1,{"x":1,"y":2}])");
}

TEST_CASE("numbers are the shortest that read back, and what is none is null") {
  CHECK(Json(0.1).dump() == "0.1");
  CHECK(Json(1.0).dump() == "1.0");
  CHECK(Json(1e300).dump() == "1e+300");
  CHECK(Json(-0.0).dump() == "-0.0");
  CHECK(Json(std::numeric_limits<double>::infinity()).dump() == "null");
  CHECK(Json(std::numeric_limits<std::uint64_t>::max()).dump() == "18446744073709551615");
  CHECK(Json(std::numeric_limits<std::int64_t>::min()).dump() == "-9223372036854775808");
  CHECK(Json(std::optional<double>()).dump() == "null");
  CHECK(Json(std::vector<float>{1.5F}).dump() == "[1.5]");
}

TEST_CASE("text is escaped, and mended where it is no UTF-8") {
  CHECK(Json("a\"\\\n\x01").dump() == R"("a\"\\\n\u0001")");
  CHECK(Json("\xc3\xa9").dump() == "\"\xc3\xa9\"");
  CHECK(Json("\xff").dump() == "\"\xef\xbf\xbd\"");
}

TEST_CASE("lines are indented by level, and what is empty has none") {
  CHECK(Json{{"a", {1, {{"b", Json::array()}}}}, {"c", Json::object()}}.dump(2) == R"({
  "a": [
    1,
    {
      "b": []
    }
  ],
  "c": {}
})");
}

TEST_CASE("what is read is written again, equal keys too") {
  for (const char* text : {R"({"b":[1,-2,0.5,"x",null,true],"a":{},"b":18446744073709551615})", "[]", "1", "\"\""})
    CHECK(Json::parse(text).dump() == text);
  CHECK_THROWS_AS(Json::parse("{\"a\""), UserError);
  CHECK_THROWS_AS(Json::parse(std::string(100'000, '[')), UserError);
  CHECK_FALSE(Json::read("nul"));
  CHECK(std::string(Json::parse("[1]").items()[0].type_name()) == "number");
}

}  // namespace rehearsal
