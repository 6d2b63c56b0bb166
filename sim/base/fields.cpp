#include "base/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity_text.hpp"

namespace rehearsal::fields {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // which Clang finds by itself since version 17

template <class Item>
const Item* named(const std::vector<Item>& items, std::string_view key) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.key == key; });
  return found == items.end() ? nullptr : &*found;
}

template <class One>
std::string joined(const std::vector<Value>& values, One one) {
  std::string text;
  for (const auto& v : values) text += (text.empty() ? "" : ", ") + one(v);
  return "[" + text + "]";
}

const auto& variant(const Value& value) { return static_cast<const Value::variant&>(value); }

// Some value for a field that was absent.
Value some(const Form& form) {
  switch (form.kind) {
    case Form::Kind::boolean:
      return true;
    case Form::Kind::integer:
      return std::llround(std::max(1., form.low));
    case Form::Kind::number:
    case Form::Kind::share:
      return std::min(1., form.high);
    case Form::Kind::time:
      return Time(1'000'000);
    case Form::Kind::bytes:
      return Bytes(1 << 20);
    case Form::Kind::bandwidth:
      return Bandwidth(1e9);
    case Form::Kind::flop_rate:
      return FlopRate(1e12);
    case Form::Kind::duration:
      return Duration(3600);
    case Form::Kind::power:
      return Power(1000);
    case Form::Kind::carbon:
      return CarbonIntensity(.4);
    case Form::Kind::count:
      return Count(1e6);
    case Form::Kind::version:
      return Version{1, 0};
    case Form::Kind::choice:
      return form.names.front();
    case Form::Kind::name:
    case Form::Kind::text:
    case Form::Kind::entry:
    case Form::Kind::table:
      break;
  }
  return std::string("x");
}

// The name of an enumerator, by its number, and back; of each, where there are several.
struct Choice {
  std::vector<detail::NamedValue> names;

  Value name(const Value& value) const {
    if (value.absent()) return value;
    if (const auto* list = std::get_if<std::vector<Value>>(&value)) {
      std::vector<Value> all;
      for (const auto& one : *list) all.push_back(name(one));
      return all;
    }
    for (const auto& n : names)
      if (n.value == value) return n.name;
    return names.front().name;
  }
  Value value(const Value& name) const {
    if (const auto* list = std::get_if<std::vector<Value>>(&name)) {
      std::vector<Value> all;
      for (const auto& one : *list) all.push_back(value(one));
      return all;
    }
    for (const auto& n : names)
      if (Value(n.name) == name) return n.value;
    return {};
  }
};

template <class Read>
void set_default(Field& field, const Read& read, const detail::Otherwise& otherwise) {
  using Kind = detail::Otherwise::Kind;
  field.required = otherwise.kind == Kind::required;
  field.otherwise_said = otherwise.said;
  if (otherwise.kind == Kind::usual)
    field.otherwise = [usual = field.get(otherwise.usual())](const void*) { return usual; };
  else if (otherwise.kind == Kind::absent)
    field.otherwise = [](const void*) { return Value(); };
  else if (otherwise.kind == Kind::follows)
    field.otherwise = [read, otherwise](const void* s) { return read(s, otherwise); };
}

}  // namespace

std::string written(const Value& value) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("null"); }, [](const std::string& x) { return x; },
                 [](Time x) { return fmt::format("{}ps", x.count()); },
                 [](Bytes x) { return fmt::format("{}B", x.count()); },
                 [](Bandwidth x) { return fmt::format("{}B/s", x.value()); },
                 [](FlopRate x) { return fmt::format("{}FLOP/s", x.value()); },
                 [](Duration x) { return fmt::format("{}s", x.value()); },
                 [](Power x) { return fmt::format("{}W", x.value()); },
                 [](CarbonIntensity x) { return fmt::format("{}kg/kWh", x.value()); },
                 [](Count x) { return fmt::format("{}", x.value()); }, [](Version x) { return show(x); },
                 [](const std::vector<Value>& x) { return joined(x, written); },
                 [](const auto& x) { return fmt::format("{}", x); }},
      variant(value));
}

std::string shown(const Value& value) {
  return std::visit(Overloaded{[&](Time x) { return x == Time{} ? "0" : show(x); },
                               [&](Bytes x) { return x == Bytes{} ? "0" : show(x); },
                               [](Bandwidth x) { return fmt::format("{:.4g} GB/s", x.value() / 1e9); },
                               [](FlopRate x) { return fmt::format("{:.4g} TFLOP/s", x.value() / 1e12); },
                               [](Duration x) { return x == Duration{} ? "0" : show(x); },
                               [](Power x) { return fmt::format("{:.4g} W", x.value()); },
                               [](Count x) { return show(x); }, [](double x) { return fmt::format("{:.4g}", x); },
                               [](const std::vector<Value>& x) { return joined(x, shown); },
                               [&](const auto&) { return written(value); }},
                    variant(value));
}

std::optional<Value> scaled(const Form& form, const Value& value, double factor) {
  Value moved;
  if (const auto* x = std::get_if<std::int64_t>(&value)) {
    auto to = std::llround(double(*x) * factor);
    if (to == *x) to += factor > 1 ? 1 : -1;
    moved = std::clamp<std::int64_t>(to, std::llround(form.low), std::llround(std::min(form.high, 9e18)));
  } else if (const auto* number = std::get_if<double>(&value)) {
    const double to = *number == 0 ? factor - 1 : *number * factor;
    moved = form.kind == Form::Kind::number ? std::clamp(to, form.above ? to : form.low, form.high) : to;
  } else if (const auto* time = std::get_if<Time>(&value)) {
    moved = *time == Time{} ? Time(1'000'000) : Time(std::llround(double(time->count()) * factor));
  } else if (const auto* size = std::get_if<Bytes>(&value)) {
    moved = *size == Bytes{} ? Bytes(1 << 20) : bytes(double(size->count()) * factor);
  } else if (const auto* bandwidth = std::get_if<Bandwidth>(&value)) {
    moved = *bandwidth == Bandwidth{} ? Bandwidth(1e9) : *bandwidth * factor;
  } else if (const auto* rate = std::get_if<FlopRate>(&value)) {
    moved = *rate == FlopRate{} ? FlopRate(1e12) : *rate * factor;
  } else if (const auto* duration = std::get_if<Duration>(&value)) {
    moved = *duration == Duration{} ? Duration(3600) : *duration * factor;
  } else if (const auto* power = std::get_if<Power>(&value)) {
    moved = *power * factor;
  } else if (const auto* carbon = std::get_if<CarbonIntensity>(&value)) {
    moved = *carbon * factor;
  } else if (const auto* count = std::get_if<Count>(&value)) {
    moved = *count * factor;
  }
  if (moved.absent() || moved == value) return std::nullopt;
  return moved;
}

std::vector<Value> others(const Field& field, const Value& value) {
  std::vector<Value> all;
  const auto* list = std::get_if<std::vector<Value>>(&value);
  if (list && field.form.each_once) {
    all.emplace_back(std::vector<Value>(list->rbegin(), list->rend()));
    for (std::size_t i = 0; i + 1 < list->size(); i++) {
      auto swapped = *list;
      std::swap(swapped[i], swapped[i + 1]);
      all.emplace_back(std::move(swapped));
    }
  } else if (list && field.form.set && field.form.kind == Form::Kind::choice) {
    for (const auto& name : field.form.names) {
      auto changed = *list;
      if (std::erase(changed, Value(name)) == 0) changed.emplace_back(name);
      all.emplace_back(std::move(changed));
    }
  } else if (list) {
    auto longer = *list;
    const auto more = list->empty() ? std::nullopt : scaled(field.form, list->front(), 1.1);
    if (more)
      longer.front() = *more;
    else
      longer.push_back(some(field.form));
    all.emplace_back(std::move(longer));
  } else if (value.absent()) {
    const Value one = some(field.form);
    const Value now = one == field.when_absent ? field.when_absent : Value();
    if (now.absent())
      all.push_back(one);
    else
      return others(field, now);
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    all.push_back(!*truth);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    if (field.form.kind != Form::Kind::choice) all.push_back(*text + "x");
    for (const auto& name : field.form.names)
      if (name != *text) all.push_back(name);
  } else if (const auto* version = std::get_if<Version>(&value)) {
    all.push_back(Version{version->major, version->minor / 2});
    all.push_back(Version{version->major, version->minor + 1});
  } else {
    for (const double factor : {1.1, 1 / 1.1})
      if (auto moved = scaled(field.form, value, factor)) all.push_back(std::move(*moved));
  }
  return all;
}

Form boolean() { return {Form::Kind::boolean}; }
Form whole(double low, double high) { return {Form::Kind::integer, low, high}; }
Form number(double low, double high) { return {Form::Kind::number, low, high}; }
Form number_above(double low, double high) { return {Form::Kind::number, low, high, true}; }
Form fraction() { return number_above(0, 1); }
Form share() { return {Form::Kind::share, 0, 1, true}; }
Form share_or_none() { return {Form::Kind::share, 0, 1}; }
Form positive() { return number_above(0, 1e18); }
Form time() { return {Form::Kind::time}; }
Form size() { return {Form::Kind::bytes, 0, 0, true}; }
Form bandwidth() { return {Form::Kind::bandwidth, 0, 0, true}; }
Form bandwidth_or_none() { return {Form::Kind::bandwidth}; }
Form flop_rate() { return {Form::Kind::flop_rate, 0, 0, true}; }
Form flop_rate_or_none() { return {Form::Kind::flop_rate}; }
Form duration() { return {Form::Kind::duration, 0, 0, true}; }
Form duration_or_none() { return {Form::Kind::duration}; }
Form power() { return {Form::Kind::power}; }
Form carbon() { return {Form::Kind::carbon, 0, 0, true}; }
Form count() { return {Form::Kind::count, 0, 0, true}; }
Form version() { return {Form::Kind::version}; }
Form text() { return {}; }
Form name_of(std::string what) { return {Form::Kind::name, 0, 0, false, {}, {}, std::move(what)}; }
Form table(std::string what) { return {Form::Kind::table, 0, 0, false, {}, {}, std::move(what)}; }
Form list_of(Form form, std::string what) {
  form.list = true;
  if (!what.empty()) form.what = std::move(what);
  return form;
}

Part::Part() = default;
Part::Part(Description all) : adds(std::move(all)) {}
Part::Part(Field field) { adds.fields.push_back(std::move(field)); }
Part::Part(Part&&) noexcept = default;
Part& Part::operator=(Part&&) noexcept = default;
Part::~Part() = default;

namespace detail {

Part field(const char* key, Form form, Access member, const Otherwise& otherwise, const char* help) {
  const bool as_time = form.kind == Form::Kind::time;
  Field f{.key = key, .form = std::move(form), .help = help};
  f.get = [get = member.get, as_time](const void* s) { return get(s, as_time); };
  f.set = member.set;
  set_default(
      f, [as_time](const void* s, const Otherwise& o) { return o.call(o.from, s, as_time); }, otherwise);
  return Part(std::move(f));
}

Part choice(const char* key, std::vector<NamedValue> names, Access member, const Otherwise& otherwise, const char* help,
            std::initializer_list<const char*> planned) {
  Field f{.key = key, .form = {Form::Kind::choice}, .help = help};
  for (const auto& n : names) f.form.names.push_back(n.name);
  f.form.planned.assign(planned.begin(), planned.end());
  const Choice choice{std::move(names)};
  f.get = [choice, get = member.get](const void* s) { return choice.name(get(s, false)); };
  f.set = [choice, set = member.set](void* s, const Value& v) { set(s, choice.value(v)); };
  set_default(
      f, [choice](const void* s, const Otherwise& o) { return choice.name(o.call(o.from, s, false)); }, otherwise);
  return Part(std::move(f));
}

Part nested(const char* prefix, const Description& inner, const void* (*in)(const void*)) {
  return Part(inside(inner, prefix, in, [in](void* s) { return const_cast<void*>(in(s)); }));
}

Description together(Description also, std::initializer_list<Part*> parts) {
  const auto add = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  Description all;
  for (Part* part : parts) {
    add(all.fields, part->adds.fields), add(all.groups, part->adds.groups);
    add(all.rules, part->adds.rules), add(all.misplaced, part->adds.misplaced);
  }
  add(all.groups, also.groups), add(all.rules, also.rules), add(all.misplaced, also.misplaced);
  return all;
}

}  // namespace detail

const Field* Description::find(std::string_view key) const { return named(fields, key); }
const Group* Description::group(std::string_view key) const { return named(groups, key); }
const Field& Description::at(std::string_view key) const {
  const Field* field = find(key);
  INVARIANT(field, fmt::format("no field '{}' is described", key));
  return *field;
}

Description inside(const Description& inner, const std::string& prefix, std::function<const void*(const void*)> in,
                   std::function<void*(void*)> out) {
  Description all = inner;
  const auto longer = [&](std::string& key) {
    if (!prefix.empty()) key = prefix + "." + key;
  };
  for (auto& f : all.fields) {
    longer(f.key);
    f.get = [in, get = std::move(f.get)](const void* s) {
      const void* at = in(s);
      return at ? get(at) : Value();
    };
    if (f.set)
      f.set = [out, set = std::move(f.set)](void* s, const Value& v) {
        if (void* at = out(s)) set(at, v);
      };
    if (f.append)
      f.append = [out, append = std::move(f.append)](void* s) {
        void* at = out(s);
        INVARIANT(at, "a list is filled where the mapping that has it is there");
        return append(at);
      };
    if (f.otherwise)
      f.otherwise = [in, otherwise = std::move(f.otherwise)](const void* s) {
        const void* at = in(s);
        return at ? otherwise(at) : Value();
      };
  }
  for (auto& g : all.groups) {
    longer(g.key);
    if (g.begin)
      g.begin = [out, begin = std::move(g.begin)](void* s) {
        if (void* at = out(s)) begin(at);
      };
  }
  for (auto& rule : all.rules) {
    if (rule.key.empty())
      rule.key = prefix;
    else
      longer(rule.key);
    rule.check = [in, check = std::move(rule.check)](const void* s, Keys& keys) {
      if (const void* at = in(s)) check(at, keys);
    };
  }
  for (auto& m : all.misplaced) longer(m.key);
  return all;
}

std::string line_of(const Description& entry, const void* s) {
  const auto smallest = [](const Value& value) {
    if (const auto* time = std::get_if<Time>(&value)) return fmt::format("{}", time->count());
    if (const auto* size = std::get_if<Bytes>(&value)) return fmt::format("{}", size->count());
    if (const auto* rate = std::get_if<Bandwidth>(&value)) return fmt::format("{}", rate->value());
    return value.absent() ? std::string() : written(value);
  };
  std::string line;
  const auto add = [&](const Value& value) { line += " " + smallest(value); };
  for (const auto& field : entry.fields) {
    const auto value = field.get(s);
    if (const auto* list = std::get_if<std::vector<Value>>(&value))
      for (const auto& one : *list) add(one);
    else
      add(value);
  }
  return line.substr(1) + ";";
}

}  // namespace rehearsal::fields
