// What a lesson lets one change, and its texts in a link. A control: {key, label, value, ...} with one of
//   {min, max, step, unit}   a slider of numbers
//   {steps: [...], texts}    a slider over a list, shown as in `texts` or as they are
//   {options: [...], texts}  a list to choose from
// States hold strings, which are words of command lines as they are.
import {element} from "./dom.js";

// "12 GB/s" for the word 12GB/s, "65,536" for 65536.
export const readable = word => word.replace(/^(\d+(?:\.\d+)?)([KMGT]?i?B(?:\/s)?|%)$/, "$1 $2")
  .replace(/^\d{4,}$/, digits => Number(digits).toLocaleString("en"));
const shown = (control, value) => control.texts?.[(control.steps ?? control.options)?.indexOf(value)] ?? readable(value);

// A message where `text` is no value of the control, else nothing.
export function mistake(control, text) {
  const name = `'${control.key}' (${control.label.toLowerCase()})`;
  const found = `found '${text.slice(0, 40)}'`;
  const list = control.steps ?? control.options;
  if (list) return list.includes(text) ? null : `${name} must be one of ${list.join(", ")}; ${found}`;
  const number = Number(text), {min, max, step} = control;
  const fits = /^-?\d+(\.\d+)?$/.test(text) && number >= min && number <= max &&
               Math.abs((number - min) / step - Math.round((number - min) / step)) < 1e-9;
  return fits ? null : `${name} must be a number from ${min} to ${max} in steps of ${step}; ${found}`;
}

export function initial(controls) {
  return Object.fromEntries(controls.map(control => [control.key, String(control.value)]));
}

function slider(control, state, changed) {
  const {key, steps} = control;
  const input = element("input", {type: "range", id: `control-${key}`, name: key, min: steps ? 0 : control.min,
                                  max: steps ? steps.length - 1 : control.max, step: steps ? 1 : control.step});
  const output = element("output", {for: input.id});
  const show = () => {
    output.textContent = [shown(control, state[key]), control.unit].filter(Boolean).join(" ");
    input.setAttribute("aria-valuetext", output.textContent);
  };
  const set = () => {
    input.value = steps ? steps.indexOf(state[key]) : state[key];
    show();
  };
  input.addEventListener("input", () => {
    state[key] = steps ? steps[input.valueAsNumber] : String(input.valueAsNumber);
    show();
    changed();
  });
  set();
  return {set, row: element("div", {class: "control"}, element("label", {for: input.id}, control.label), output, input)};
}

function choice(control, state, changed) {
  const {key, options} = control;
  const select = element("select", {id: `control-${key}`, name: key},
                         options.map(value => element("option", {value}, shown(control, value))));
  const set = () => { select.value = state[key]; };
  select.addEventListener("change", () => {
    state[key] = select.value;
    changed();
  });
  set();
  return {set, row: element("div", {class: "control"}, element("label", {for: select.id}, control.label), select)};
}

// All controls as a form; `set()` shows a state that was changed elsewhere.
export function form(controls, state, changed) {
  const made = controls.map(control => (control.options ? choice : slider)(control, state, changed));
  return {set: () => made.forEach(one => one.set()),
          form: element("form", {class: "controls", "aria-label": "Settings", onsubmit: event => event.preventDefault()},
                        made.map(one => one.row))};
}
