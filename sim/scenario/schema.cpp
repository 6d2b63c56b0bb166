#include "scenario/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

using nlohmann::ordered_json;

// Together they open every mapping and take every branch of the loaders; a key that some reading does not ask for is
// not required. What stands in a mapping of its own, and lists, must be given; other keys are seen when they are
// absent.
constexpr const char* kExamples[] = {
    R"(version: 1
name: everything inline
model: {family: llama, layers: 4, hidden: 64, heads: 4}
cluster:
  nodes: 1
  gpus_per_node: 8
  gpu:
    peak: {fp32: 1TFLOP/s, tf32: 1TFLOP/s, fp16: 1TFLOP/s, bf16: 1TFLOP/s, fp8: 2TFLOP/s}
    sms: 1
    memory: 80GB
    memory_bandwidth: 1TB/s
    sustained_memory_bandwidth: 1TB/s
    gemm_efficiency: 1
    sustained_clock: 1
    gemm_overhead: 0
    tile_overhead: 0
    fused_attention_rate: 1TFLOP/s
    kernel_gap: 0
  links: {nvlink: {bandwidth: 300GB/s}, nic: {bandwidth: 200Gb/s}}
  collectives:
    measured: {}
    fitted:
      ranks: 8
      all_reduce: {fixed: 1us, rate: 1GB/s}
      reduce_scatter: {fixed: 1us, rate: 1GB/s}
      all_gather: {fixed: 1us, rate: 1GB/s}
parallelism: {pipeline: 2}
batch: {global: 16}
schedule: {name: zb-auto, memory_limit: 60GB, time_limit: 1s}
training: {recompute: {mode: full}, overlap: {}, offload: {}}
software: {dropout: false}
partition: {layers: [2, 2]}
simulate: {}
)",
    R"(version: 1
model: {family: gpt, layers: 4, hidden: 128, heads: 8}
cluster:
  gpus_per_node: 4
  gpu:
    peak: {fp16: 1TFLOP/s}
    sms: 1
    memory: 80GB
    memory_bandwidth: 1TB/s
    sustained_memory_bandwidth: 1TB/s
    gemm_efficiency: 1
    sustained_clock: 1
    gemm_overhead: 0
    tile_overhead: 0
    fused_attention_rate: 1TFLOP/s
    kernel_gap: 0
  links: {nvlink: {bandwidth: 300GB/s}, nic: {bandwidth: 200Gb/s}}
parallelism: {pipeline: 2}
batch: {global: 16}
schedule: 1f1b
training: {precision: fp16}
partition: [2, 2]
)",
    R"(version: 1
model: {family: mlp, layers: 4, hidden: 64}
cluster:
  gpus_per_node: 4
  gpu:
    peak: {fp32: 1TFLOP/s}
    sms: 1
    memory: 80GB
    memory_bandwidth: 1TB/s
    sustained_memory_bandwidth: 1TB/s
    gemm_efficiency: 1
    sustained_clock: 1
    gemm_overhead: 0
    tile_overhead: 0
    fused_attention_rate: 1TFLOP/s
    kernel_gap: 0
  links: {nvlink: {bandwidth: 300GB/s}}
parallelism: {}
batch: {global: 16}
training: {precision: fp32}
software: rehearsal
partition: uniform
)",
    R"(version: 1
parallelism: {pipeline: 2}
batch: {microbatches: 4}
schedule: {name: zb-auto, memory_limit: 4}
training: {optimizer_sync: post-validation}
costs: {forward: [5ms, 5ms], backward: [5ms, 5ms], weight: [5ms, 5ms]}
memory: {activation: [1, 1], weight_hold: [0.5, 0.5]}
)",
    R"(version: 1
parallelism: {pipeline: 2}
batch: {microbatches: 4}
costs: {forward: 5ms, backward: 5ms, weight: 5ms}
memory: {activation: 100MB, weight_hold: [50MB, 50MB], limit: 800MB}
)",
    R"(version: 1
parallelism: {pipeline: 2}
batch: {microbatches: 4}
costs: {forward: 5ms, backward: 5ms, weight: 5ms}
memory: {activation: [100MB, 100MB], weight_hold: 50MB, limit: 800MB}
)",
    R"(version: 1
parallelism: {pipeline: 2}
batch: {microbatches: 4}
costs: {forward: 5ms, backward: 5ms, weight: 5ms}
memory: {activation: 1, weight_hold: 0.5, limit: 8}
)",
    R"(version: 1
parallelism: {pipeline: 2}
batch: {microbatches: 4}
schedule: {file: no-such-order.csv}
costs: {forward: 5ms, backward: 5ms, weight: 5ms}
)",
    R"(version: 1
model: gpt-1.7b
cluster: dgx-a100-80g
parallelism: {data: 8, zero: 3}
batch: {global: 8}
training: {optimizer: sgd, fsdp: {}}
)"};

// Reads the examples and visits what they taught.
template <class Visit>
auto recorded(Visit&& visit) {
  Recorder recorder;
  std::vector<std::unique_ptr<Context>> contexts;  // nodes are known by address: all stay until the end
  for (const char* text : kExamples) {
    Context& context = *contexts.emplace_back(std::make_unique<Context>());
    context.home = home();
    context.problems.recorder = &recorder;
    const Node* root = context.documents.read_text(text, "example of the schema");
    INVARIANT(root, "an example of the schema is not YAML");
    recorder.begin(*root);
    read_scenario(context, fmt::format("example-{}.yaml", contexts.size()), *root);
    // An order from a file is asked for, and need not be there.
    for (const auto& e : context.problems.errors())
      INVARIANT(e.message.find("no-such-order.csv") != std::string::npos, "example of the schema: " + e.message);
  }
  return visit(recorder.root());
}

bool is_about(const Field& f) { return f.key == "name" || f.key == "summary" || f.key == "source"; }
bool has(const std::vector<Form>& forms, Form::Kind kind) {
  return std::any_of(forms.begin(), forms.end(), [&](const Form& f) { return f.kind == kind; });
}

// A text that may only be some names is no other text.
std::vector<Form> narrowed(std::vector<Form> forms) {
  if (has(forms, Form::Kind::name) || has(forms, Form::Kind::choice))
    std::erase_if(forms, [](const Form& f) { return f.kind == Form::Kind::text; });
  return forms;
}

constexpr double kExact = 9e15;  // whole numbers beyond 2^53 have no exact place in JSON

ordered_json limited(const Form& form) {
  const bool whole = form.kind == Form::Kind::integer;
  const auto number = [&](double x) { return whole ? ordered_json(static_cast<std::int64_t>(x)) : ordered_json(x); };
  ordered_json json{{"type", whole ? "integer" : "number"}};
  json[form.above ? "exclusiveMinimum" : "minimum"] = number(form.low);
  if (form.high < kExact) json["maximum"] = number(form.high);
  return json;
}

ordered_json quantity(const char* example) {
  return {
      {"description", example},
      {"anyOf",
       {{{"type", "string"}, {"pattern", "^ *\\+?[0-9.]+([eE][+-]?[0-9]+)? *[A-Za-z][A-Za-z/]* *$"}}, {{"const", 0}}}}};
}

ordered_json to_json(const Form& form) {
  switch (form.kind) {
    case Form::Kind::integer:
    case Form::Kind::number:
      return limited(form);
    case Form::Kind::boolean:
      return {{"type", "boolean"}};
    case Form::Kind::time:
      return quantity("a time such as 18.5ms");
    case Form::Kind::bytes:
      return quantity("a size such as 80GiB");
    case Form::Kind::bandwidth:
      return quantity("a bandwidth such as 400Gb/s");
    case Form::Kind::flop_rate:
      return quantity("a rate such as 312TFLOP/s");
    case Form::Kind::choice:
    case Form::Kind::name:
      return {{"enum", form.names}};
    case Form::Kind::text:
      break;
  }
  return {{"type", "string"}};
}

ordered_json one_of(std::vector<ordered_json> alternatives) {
  if (alternatives.empty()) return ordered_json::object();
  if (alternatives.size() == 1) return alternatives.front();
  return {{"anyOf", alternatives}};
}

ordered_json to_json(const std::vector<Form>& forms) {
  std::vector<ordered_json> alternatives;
  for (const auto& form : narrowed(forms)) alternatives.push_back(to_json(form));
  return one_of(alternatives);
}

// A word as YAML understands it.
ordered_json typed(const std::string& text) {
  const auto json = ordered_json::parse(text, nullptr, false);
  return json.is_number() || json.is_boolean() ? json : ordered_json(text);
}

ordered_json to_json(const Object& object, const std::vector<Form>& own_names, bool overlaid);

// `overlaid`: the mapping may lie on a named file, which holds what is missing here.
ordered_json to_json(const Field& field, const Object& parent, const std::vector<Form>& parent_names, bool overlaid) {
  std::vector<ordered_json> alternatives;
  for (const auto& form : narrowed(field.forms)) alternatives.push_back(to_json(form));
  if (!field.items.empty()) alternatives.push_back({{"type", "array"}, {"items", to_json(field.items)}});
  if (field.object) alternatives.push_back(to_json(*field.object, field.forms, overlaid));
  if (field.null) alternatives.push_back({{"type", "null"}});
  if (!field.built && alternatives.empty()) alternatives.push_back({{"const", typed(field.as_if_absent)}});
  if (alternatives.empty() && field.key == "use") alternatives.push_back(to_json(parent_names));
  if (alternatives.empty() && is_about(field)) alternatives.push_back({{"type", "string"}});
  ordered_json json = one_of(alternatives);
  if (parent.cited && !alternatives.empty() && field.key != "use" && !is_about(field)) {
    const ordered_json number = json;
    json = {
        {"anyOf",
         {number,
          {{"type", "object"},
           {"properties", {{"value", number}, {"source", {{"type", "string"}}}, {"assumed", {{"type", "boolean"}}}}},
           {"required", {"value"}},
           {"additionalProperties", false}}}}};
  }
  if (field.defaults.size() == 1) json["default"] = typed(*field.defaults.begin());
  return json;
}

bool hidden(const Field& field) { return !field.built && field.forms.empty() && field.as_if_absent.empty(); }

ordered_json to_json(const Object& object, const std::vector<Form>& own_names, bool overlaid) {
  const bool may_use = object.find("use") != nullptr;
  auto properties = ordered_json::object();
  auto required = ordered_json::array();
  for (const auto& field : object.fields) {
    if (hidden(*field)) continue;
    properties[field->key] = to_json(*field, object, own_names, overlaid || may_use);
    if (object.requires_key(*field)) required.push_back(field->key);
  }
  ordered_json json{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (required.empty() || overlaid) return json;
  if (may_use)
    json["anyOf"] = {{{"required", {"use"}}}, {{"required", required}}};
  else
    json["required"] = required;
  return json;
}

std::string say(const Form& form) {
  switch (form.kind) {
    case Form::Kind::integer:
      return form.high < kExact ? fmt::format("whole number, {:.0f} to {:.0f}", form.low, form.high)
                                : fmt::format("whole number from {:.0f}", form.low);
    case Form::Kind::number:
      return form.high < kExact ? fmt::format("number {} {}{} {}", form.above ? "above" : "from", form.low,
                                              form.above ? ", at most" : " to", form.high)
                                : fmt::format("number {} {}", form.above ? "above" : "from", form.low);
    case Form::Kind::boolean:
      return "true, false";
    case Form::Kind::time:
      return "time";
    case Form::Kind::bytes:
      return "size";
    case Form::Kind::bandwidth:
      return "bandwidth";
    case Form::Kind::flop_rate:
      return "FLOP rate";
    case Form::Kind::choice:
      return fmt::format("{}", fmt::join(form.names, ", "));
    case Form::Kind::name:
      return "name of a " + form.what;
    case Form::Kind::text:
      break;
  }
  return "text";
}

std::string say(const std::vector<Form>& forms) {
  std::string text;
  for (const auto& form : narrowed(forms)) text += (text.empty() ? "" : "; ") + say(form);
  return text;
}

std::string say(const Field& field) {
  std::string text = say(field.forms);
  const auto join = [&](const std::string& more) { text += (text.empty() ? "" : "; or ") + more; };
  if (!field.items.empty()) join("list of " + say(field.items));
  if (field.object) join("mapping");
  if (field.null) join("null");
  if (!field.built && field.forms.empty())
    return field.as_if_absent.empty() ? "not built yet"
                                      : fmt::format("{}; others are not built yet", field.as_if_absent);
  auto planned = field.planned;  // elsewhere; what one branch has is built
  for (const auto& form : field.forms)
    for (const auto& name : form.names) planned.erase(name);
  if (!planned.empty()) text += fmt::format(" (not built yet: {})", fmt::join(planned, ", "));
  if (text.empty())
    return field.key == "use" || field.key == "profile" ? "a name" : is_about(field) ? "text" : "see above";
  return text;
}

void list(const Object& object, std::vector<FieldRow>& rows) {
  for (const auto& field : object.fields) {
    const auto path = object.path.empty() ? field->key : object.path + "." + field->key;
    std::string fallback;
    if (object.requires_key(*field))
      fallback = object.find("use") ? "required without `use`" : "required";
    else if (field->defaults.size() == 1)
      fallback = *field->defaults.begin();
    else if (field->defaults.size() > 1)  // a choice that follows from another, or a size that follows from others
      fallback = has(field->forms, Form::Kind::choice) || has(field->forms, Form::Kind::boolean)
                     ? fmt::format("{}", fmt::join(field->defaults, " or "))
                     : "depends on other keys";
    rows.push_back({path, say(*field), fallback});
    if (field->object) list(*field->object, rows);
  }
}

}  // namespace

std::string json_schema() {
  return recorded([](const Object& root) {
    ordered_json json{
        {"$schema", "https://json-schema.org/draft/2020-12/schema"},
        {"title", "Rehearsal scenario"},
        {"description", "Keys and kinds of values. What must divide or fit is checked by 'rehearse check'."}};
    json.update(to_json(root, {}, false));
    return json.dump(2) + "\n";
  });
}

std::vector<FieldRow> fields() {
  return recorded([](const Object& root) {
    std::vector<FieldRow> rows;
    list(root, rows);
    return rows;
  });
}

std::string field_table() {
  std::string text = "| key | value | default |\n|---|---|---|\n";
  for (const auto& row : fields()) text += fmt::format("| `{}` | {} | {} |\n", row.path, row.value, row.fallback);
  return text;
}

}  // namespace rehearsal::scenario
