// Words, numbers and elements. All text from the run goes through textContent or an attribute: markup in it stays text.

const grouped = [0, 1, 2].map((digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits }));
const small = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const shortened = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size > 0 && size < 0.001) return value.toExponential(1).replaceAll("-", "\u2212");
  let format = small;
  if (size === 0 || Number.isInteger(value) || size >= 1000) format = grouped[0];
  else if (size >= 100) format = grouped[1];
  else if (size >= 1) format = grouped[2];
  return format.format(size === 0 ? 0 : value).replace("-", "\u2212");
}

// Short enough for a card: 12.3K.
function short(n) {
  return n < 10_000 ? number(n) : shortened.format(n);
}

// To three places: cards are narrow.
function distance(value) {
  return number(value >= 0.001 && value < 1 ? Number(value.toFixed(3)) : value);
}

// What a memory counts in a value, to follow other words about it; nothing where all count the same.
function weight(neighbour, run) {
  return run.kernel === "mean" ? "" : `, weight ${number(neighbour.weight)}`;
}

function percent(share) {
  return share === null || share === undefined ? "–" : `${Math.round(100 * share)}%`;
}

function count(n, word, plural = `${word}s`) {
  return `${number(n)} ${n === 1 ? word : plural}`;
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function find(selector, within = document) {
  return within.querySelector(selector);
}

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") element.textContent = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// Writing the same again would still cost a layout: a step changes little of what is on the screen.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function set(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// A list of names and figures, the same elements for every step.
class Figures {
  constructor(list, names) {
    this.cells = names.map((name) => {
      const cell = make("dd");
      list.append(make("div", {}, make("dt", { text: name }), cell));
      return cell;
    });
  }

  show(...texts) {
    texts.forEach((text, place) => say(this.cells[place], text));
  }
}
