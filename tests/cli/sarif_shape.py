"""Reads a log of SARIF 2.1.0 and holds it to what the standard (OASIS) requires, and to what GitHub's code scanning requires
besides: a place in every result. Prints a line for each: level|file|line|column|message."""
import json
import sys
import urllib.parse

log = json.load(sys.stdin)


def keys(value, needed, more=""):
    assert set(needed.split()) <= set(value) <= set((needed + " " + more).split()), value


keys(log, "$schema version runs")
assert log["version"] == "2.1.0" and len(log["runs"]) == 1
run = log["runs"][0]
keys(run, "tool results", "columnKind")
assert run.get("columnKind") in (None, "utf16CodeUnits", "unicodeCodePoints")
driver = run["tool"]["driver"]
keys(driver, "name version rules")
assert driver["name"] == "rehearse"
ids = [rule["id"] for rule in driver["rules"]]
assert len(set(ids)) == len(ids)
for rule in driver["rules"]:
    keys(rule, "id shortDescription defaultConfiguration")
    assert rule["shortDescription"]["text"].endswith(".")
    assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
for result in run["results"]:
    keys(result, "ruleId ruleIndex level message locations")
    assert ids[result["ruleIndex"]] == result["ruleId"] and result["level"] in ("warning", "error")
    assert result["message"]["text"] and len(result["locations"]) == 1
    place = result["locations"][0]["physicalLocation"]
    keys(place, "artifactLocation", "region")
    uri = place["artifactLocation"]["uri"]
    assert uri == urllib.parse.quote(uri, safe="/%:~") and "\\" not in uri, uri
    for name, number in place.get("region", {}).items():
        assert name in ("startLine", "startColumn") and type(number) is int and number >= 1
    at = place.get("region", {})
    print(result["level"], urllib.parse.unquote(uri).removeprefix("file://"), at.get("startLine"), at.get("startColumn"),
          result["message"]["text"], sep="|")
