#include "scenario/recorder.hpp"

#include <algorithm>

namespace rehearsal::scenario {

Field* Object::find(std::string_view key) const {
  const auto same = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f->key == key; });
  return same == fields.end() ? nullptr : same->get();
}

Field& Object::field(std::string_view key) {
  if (Field* known = find(key)) return *known;
  fields.push_back(std::make_unique<Field>());
  fields.back()->key = key;
  return *fields.back();
}

Object* Recorder::open(const Node* node) {
  if (!node || node->kind != Node::Kind::map) return nullptr;
  if (node == top_) return &root_;
  const auto known = values_.find(node);
  if (known == values_.end()) return nullptr;
  Field& field = *known->second;
  if (!field.object) {
    field.object = std::make_unique<Object>();
    const auto& parent = paths_.at(&field);
    field.object->path = parent.empty() ? field.key : parent + "." + field.key;
  }
  return field.object.get();
}

void Recorder::asked(Object& object, std::string_view key, const Node* value) {
  Field& field = object.field(key);
  paths_[&field] = object.path;
  if (!value) return;
  values_[value] = &field;
  for (const Node* item : value->items) items_[item] = &field;
}

void Recorder::close(Object& object, const std::vector<std::string>& asked, const std::vector<std::string>& required) {
  ++object.readings;
  for (const auto& field : object.fields) {
    const auto has = [&](const auto& keys) { return std::find(keys.begin(), keys.end(), field->key) != keys.end(); };
    if (has(asked)) ++field->asked;
    if (has(required)) ++field->required;
  }
}

void Recorder::read(const Node& value, const Form& form) {
  if (const auto known = values_.find(&value); known != values_.end()) add(known->second->forms, form);
  if (const auto known = items_.find(&value); known != items_.end()) add(known->second->items, form);
}

// Forms of one kind become one: the widest range, all the names.
void Recorder::add(std::vector<Form>& forms, const Form& form) {
  const auto same = std::find_if(forms.begin(), forms.end(), [&](const Form& f) { return f.kind == form.kind; });
  if (same == forms.end()) {
    forms.push_back(form);
    return;
  }
  same->above = form.low < same->low ? form.above : form.low > same->low ? same->above : same->above && form.above;
  same->low = std::min(same->low, form.low);
  same->high = std::max(same->high, form.high);
  for (const auto& name : form.names)
    if (std::find(same->names.begin(), same->names.end(), name) == same->names.end()) same->names.push_back(name);
}

}  // namespace rehearsal::scenario
