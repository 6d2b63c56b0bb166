// Elements in one call: element("p", {class: "note"}, "text", child).
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined || value === null) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
}

// A picture that the program drew. It is its own markup; it may be wider than the page, so it scrolls by itself, also by
// keys. What a shape says under the pointer is kept beside the picture, not in an element of each of thousands of shapes:
// half as many are read and styled.
export function picture(svg, title) {
  const frame = element("div", {class: "picture", tabindex: 0, role: "group", "aria-label": title});
  const tips = [];
  frame.innerHTML = svg.replace(/<(rect|circle|path)([^>]*)><title>([^<]*)<\/title><\/\1>/g,
                                (_, shape, rest, tip) => `<${shape}${rest} data-tip="${tips.push(tip) - 1}"/>`);
  frame.addEventListener("pointerover", ({target}) => {
    const words = element("span");
    words.innerHTML = tips[target.dataset?.tip] ?? "";  // as markup has it: &lt; and the like
    frame.title = words.textContent;
  });
  return element("figure", {}, element("figcaption", {}, title), frame);
}

// {caption, columns: [text], rows: [{cells: [text or {text, value}], current, pick}]}: `value` is the number as the program
// gave it; `pick` makes a button of the first cell.
export function table({caption, columns, rows}) {
  const head = element("tr", {}, columns.map(name => element("th", {scope: "col"}, name)));
  const body = rows.map(row => {
    const cells = row.cells.map((cell, i) => {
      const {text, value} = typeof cell === "object" ? cell : {text: cell};
      if (i > 0) return element("td", {"data-value": value, class: value === undefined ? "word" : null}, text);
      const name = row.pick ? element("button", {type: "button", onclick: row.pick}, text) : text;
      return element("th", {scope: "row"}, name);
    });
    return element("tr", {"aria-current": row.current ? "true" : null}, cells);
  });
  return element("div", {class: "table", tabindex: 0, role: "group", "aria-label": caption},
                 element("table", {}, element("caption", {}, caption), element("thead", {}, head),
                         element("tbody", {}, body)));
}

export function note(text) {
  return element("p", {class: "note"}, text);
}
