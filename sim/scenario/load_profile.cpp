// Profiles of measured machines (configs/profiles, and what `rehearse calibrate` wrote).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/spelling.hpp"
#include "scenario/load.hpp"
#include "scenario/profile.hpp"
#include "scenario/profile_parts.hpp"

namespace rehearsal::scenario {

using cost::Quantiles;

const Node* measured_section(MapReader& map, std::string_view key) {
  const Node* node = map.find(key);
  if (!node || node->kind != Node::Kind::map || !node->find("source")) return node;
  MapReader section(map.problems(), *node, std::string(key));
  const auto source = section.text("source");
  section.finish();
  if (source != "assumed")
    map.problems().error(
        section.at("source"),
        fmt::format("'source' of '{}' can only be 'assumed'; a measured section gives its times instead", key));
  return nullptr;
}

std::vector<Time> read_times(Diagnostics& problems, const Node& node, std::size_t from, std::size_t count,
                             const std::string& what) {
  std::vector<Time> times;
  for (std::size_t i = from; i < from + count; i++) {
    const auto time = read_time(problems, *node.items[i], what);
    if (time && *time <= Time()) problems.error(node.items[i]->where(), what + ": times must be above zero");
    times.push_back(std::max(time.value_or(Time(1)), Time(1)));
  }
  return times;
}

bool is_list(Diagnostics& problems, const Node& node, std::size_t count, const std::string& what,
             std::string_view example) {
  if (node.kind == Node::Kind::sequence && (count == 0 || node.items.size() == count)) return true;
  problems.error(node.where(), fmt::format("{} must be {}; found {}", what, example, describe(node)));
  return false;
}

std::optional<Quantiles> read_quantiles(Diagnostics& problems, const Node& node, const std::string& what) {
  if (!is_list(problems, node, 3, what, "[p10, p50, p90]")) return std::nullopt;
  const auto t = read_times(problems, node, 0, 3, what);
  if (t[0] > t[1] || t[1] > t[2]) problems.error(node.where(), what + ": p10, p50 and p90 must be in ascending order");
  return Quantiles{t[0], t[1], t[2]};
}

std::optional<std::vector<std::int64_t>> read_dims(Diagnostics& problems, const Node& node, std::size_t count,
                                                   std::int64_t low, const std::string& what) {
  if (!is_list(problems, node, count, what, fmt::format("{} dims", count))) return std::nullopt;
  std::vector<std::int64_t> dims;
  for (const Node* item : node.items)
    dims.push_back(read_integer(problems, *item, what, {low, INT64_MAX}).value_or(low));
  return dims;
}

namespace {

namespace fs = std::filesystem;
using cost::KernelSample;
using cost::Profile;

void read_kernel(Diagnostics& problems, const Node& node, KernelKind kind, Precision precision,
                 cost::KernelTimes& times) {
  const std::string what = fmt::format("'{}'", name(kind));
  MapReader map(problems, node, name(kind));
  if (const Node* fit = map.require("fit", "seconds for each term")) {
    MapReader terms(problems, *fit, "fit");
    const auto names = cost::terms(kind);
    for (std::size_t i = 0; i < names.size(); i++) times.fit.seconds[i] = terms.number(names[i], {0, 1e6});
    terms.finish();
  }
  if (cost::has_knee(kind)) times.fit.knee = map.given("knee") ? map.bytes("knee") : Bytes();
  if (const Node* error = map.find("error")) {
    MapReader errors(problems, *error, "error");
    constexpr NumberRange kError{0, 1e9};
    times.fit.error = errors.number("median", kError), times.fit.worst = errors.number("worst", kError);
    times.fit.left_out = errors.number("left_out_median", kError);
    times.fit.left_out_worst = errors.number("left_out_worst", kError);
    errors.finish();
  }
  const Node* samples = map.require("samples", "a list of [[dims], [p10, p50, p90]]");
  map.finish();
  if (!samples || !is_list(problems, *samples, 0, "'samples'", "a list of [[dims], [p10, p50, p90]]")) return;
  for (const Node* item : samples->items) {
    if (!is_list(problems, *item, 2, "'samples'", "pairs of [dims] and [p10, p50, p90]")) continue;
    KernelSample sample{{kind, {}, {}, precision}, {}, {}, {}};
    auto& dims = sample.kernel.dims;
    const std::size_t count = std::clamp(item->items[0]->items.size(), kLeastDims, dims.size());
    const auto given = read_dims(problems, *item->items[0], count, 0, what);
    if (!given) continue;
    std::copy(given->begin(), given->end(), dims.begin());
    const auto q = read_quantiles(problems, *item->items[1], what);
    if (!q) continue;
    sample.p10 = q->p10, sample.p50 = q->p50, sample.p90 = q->p90;
    if (!times.samples.empty() && times.samples.back().kernel.dims >= dims)
      problems.error(item->where(), what + ": shapes must be in ascending order, each only once");
    times.samples.push_back(sample);
  }
}

void read_kernels(Diagnostics& problems, const Node& node, const char* key, Precision precision, Profile& profile) {
  MapReader map(problems, node, key);
  for (std::size_t k = 0; k < kKernelKinds; k++) {
    const auto kind = static_cast<KernelKind>(k);
    if (const Node* kernel = map.find(name(kind)))
      read_kernel(problems, *kernel, kind, precision, profile.kernels[{kind, precision}]);
  }
  map.finish();
}

void read_messages(Diagnostics& problems, const Node& node, Profile& profile) {
  MapReader map(problems, node, "messages");
  profile.copy = map.text("copy", "");
  const Node* times = map.require("times", "a list of [size, o_s, o_r, L]");
  map.finish();
  if (!times || !is_list(problems, *times, 0, "'times'", "a list of [size, o_s, o_r, L]")) return;
  if (times->items.empty()) problems.error(times->where(), "'times' is empty; write {source: assumed} for 'messages'");
  auto& m = profile.messages;
  for (const Node* item : times->items) {
    if (!is_list(problems, *item, 4, "'times'", "[size, o_s, o_r, L] in each entry")) continue;
    const auto size = read_bytes(problems, *item->items[0], "'times'");
    const auto t = read_times(problems, *item, 1, 3, "'times'");
    if (!size) continue;
    if (*size <= (m.latency.empty() ? Bytes() : m.latency.back().size))
      problems.error(item->where(), "'times': sizes must be above 0 and in ascending order");
    m.send.push_back({*size, t[0]}), m.receive.push_back({*size, t[1]}), m.latency.push_back({*size, t[2]});
  }
}

void read_origin(MapReader& map, Profile& profile) {
  auto& problems = map.problems();
  profile.backend = map.text("backend");
  profile.ranks = map.integer("ranks", kDegree);
  if (const Node* machine = map.require("machine", "a mapping with cpu, cores and system")) {
    MapReader m(problems, *machine, "machine");
    profile.cpu = m.text("cpu"), profile.system = m.text("system");
    profile.cores = m.integer("cores", kDegree);
    m.finish();
  }
  profile.compiler = map.text("compiler", "");
  if (const Node* libraries = map.find("libraries"); libraries && libraries->kind == Node::Kind::map)
    for (const auto& e : libraries->entries)
      profile.libraries[e.key->text] = read_text(problems, *e.value, "'libraries'").value_or("");
  profile.date = map.text("date", "");
  profile.priority = map.choice<const char*>("priority", {{"raised", "raised"}, {"ordinary", "ordinary"}}, {});
}

std::shared_ptr<const Profile> read_file(Context& context, const std::string& path, const std::string& name) {
  const Node* root = context.documents.read_file(path);
  auto profile = root ? load_profile(context, *root, name) : std::nullopt;
  return profile ? std::make_shared<const Profile>(std::move(*profile)) : nullptr;
}

}  // namespace

std::string profile_file(const std::string& backend, const Files& files) {
  const auto folder = files.profiles();
  return folder.empty() ? "" : fmt::format("{}/this-machine-{}.yaml", folder, backend);
}

std::optional<Profile> load_profile(Context& context, const Node& root, const std::string& name) {
  auto& problems = context.problems;
  const auto before = problems.count();
  MapReader map(problems, root, "");
  if (!map.node()) return std::nullopt;
  Profile profile;
  profile.name = name;
  if (map.integer("version", {0, kCount.high}) != 1)
    problems.error(map.at("version"), "'version' is unknown; this program reads version 1 of profiles");
  profile.summary = map.text("summary", "");
  read_origin(map, profile);
  for (const auto& [key, precision] :
       {std::pair{"kernels", Precision::fp32}, std::pair{"kernels_bf16", Precision::bf16}})
    if (const Node* kernels = measured_section(map, key)) read_kernels(problems, *kernels, key, precision, profile);
  if (const Node* messages = measured_section(map, "messages")) read_messages(problems, *messages, profile);
  profile.own_collectives = map.choice<bool>("collectives_by", {{"own", true}, {"library", false}}, {}, false);
  if (const Node* collectives = measured_section(map, "collectives"))
    if (auto curves = load_curves(context, *collectives, nullptr, true)) {
      profile.collectives = std::move(*curves);
      profile.collectives.name = name, profile.collectives.source = "profile " + name;
    }
  for (const auto& [key, value] :
       {std::pair{"between_tasks", &profile.between_tasks}, std::pair{"timer_overshoot", &profile.timer_overshoot},
        std::pair{"noise", &profile.noise}})
    if (const Node* node = measured_section(map, key))
      *value = read_quantiles(problems, *node, fmt::format("'{}'", key));
  profile.tiers = read_tier_times(map);
  profile.gpu = read_gpu_times(map);
  if (profile.gpu && profile.date.empty())
    problems.error(root.where(), "missing key 'date': when the GPU of this profile was measured");
  const auto digest = map.text("digest", "");
  map.finish();
  if (problems.count() != before) return std::nullopt;
  profile.digest = profile_digest(profile);
  if (digest != profile.digest)
    problems.warn(map.at("digest"), "the profile does not match its digest: it was edited after it was measured");
  return profile;
}

std::shared_ptr<const Profile> find_profile(Context& context, const Node* node, const std::string& cluster) {
  auto& problems = context.problems;
  if (node) {
    const auto text = read_text(problems, *node, "'profile'");
    if (!text) return nullptr;
    const auto shipped = context.home + "/configs/profiles/" + *text + ".yaml";
    if (text->find('/') == std::string::npos && context.files.exists(shipped))
      return read_file(context, shipped, *text);
    // Relative to the file that names it; from the command line, relative to the working directory.
    fs::path path = *text;
    const std::string from = node->where().file;
    if (path.is_relative() && !from.starts_with("--")) path = fs::path(from).parent_path() / path;
    if (context.files.exists(path.string())) return read_file(context, path.string(), path.stem().string());
    problems.error(node->where(),
                   fmt::format("profile {} is neither a file nor a name in configs/profiles{}", in_quotes(*text),
                               suggestion(*text, names_in(context, "configs/profiles"))));
    return nullptr;
  }
  if (cluster != "this-machine") return nullptr;
  for (const char* backend : {"mpi", "loopback"}) {
    if (!context.backend.empty() && context.backend != backend) continue;
    const auto path = profile_file(backend, context.files);
    if (!path.empty() && context.files.exists(path))
      return read_file(context, path, fmt::format("this-machine-{}", backend));
  }
  return nullptr;
}

cost::Profile load_profile_file(const std::string& path, const Files& files) {
  Context context(files);
  const auto profile = read_file(context, path, fs::path(path).stem().string());
  context.problems.throw_if_any();
  return *profile;
}

}  // namespace rehearsal::scenario
