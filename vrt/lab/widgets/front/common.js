// What the three widgets share: elements, numbers as text, and a picture that follows its width.

const SVG = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return node;
}

function h(tag, attributes = {}, ...children) {
  return put(document.createElement(tag), attributes, children);
}

function s(tag, attributes = {}, ...children) {
  return put(document.createElementNS(SVG, tag), attributes, children);
}

function shown(value, digits = 3) {
  if (value === null || value === undefined) return "−∞";
  return value.toFixed(digits).replace("-", "−");
}

function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ms`;
}

// Lab must not take arrow keys and letters for commands of the notebook while the widget has focus.
function root(el, kind, label) {
  const node = h("section", {
    class: `vrt vrt-${kind}`,
    role: "group",
    "aria-label": label,
    "data-lm-suppress-shortcuts": "true",
  });
  el.replaceChildren(node);
  return node;
}

// `draw(width)` now, and whenever the element's width has changed.
function followWidth(node, draw) {
  let width = 0;
  const watch = new ResizeObserver(() => {
    const now = Math.round(node.clientWidth);
    if (now && now !== width) draw((width = now));
  });
  watch.observe(node);
  return () => watch.disconnect();
}
