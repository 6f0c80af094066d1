// What the agent sees where that is numbers and no picture: a cell for each, made once and filled anew for each step, with
// the number of a memory beneath.

const FEW_NUMBERS = 8; // on a card

class Numbers {
  #cells = [];

  constructor(root, { numbers: total, numbers_kept: kept }) {
    this.root = root;
    this.total = total;
    this.list = find(".table", root);
    root.classList.toggle("kept", kept);
    root.classList.toggle("few", total !== null && total <= FEW_NUMBERS);
  }

  show(values) {
    this.root.hidden = values === null;
    if (values === null) return;
    while (this.#cells.length < values.length) this.#add();
    this.#cells.forEach((cell, place) => {
      cell.item.hidden = place >= values.length;
      if (place >= values.length) return;
      say(cell.now, figure(values[place], 4));
      cell.item.classList.toggle("nothing", values[place] === 0);
    });
  }

  // Those of a memory, beneath; null: of none.
  beside(values) {
    this.#cells.forEach((cell, place) => {
      const there = values !== null && place < values.length;
      say(cell.then, there ? figure(values[place], 4) : "");
    });
  }

  #add() {
    const place = this.#cells.length;
    const now = make("span", { class: "now" });
    const then = make("span", { class: "then" });
    const name = this.total === 1 ? [] : [make("span", { class: "index", text: String(place) })];
    const item = make("li", {}, ...name, now, then);
    this.list.append(item);
    this.#cells.push({ item, now, then });
  }
}

// On a card: the first of them, and how many more there are.
function cardNumbers(element, values, total) {
  const shown = values.slice(0, total > FEW_NUMBERS ? FEW_NUMBERS - 1 : FEW_NUMBERS).map((value) => figure(value, 2));
  const more = total - shown.length;
  const texts = more > 0 ? [...shown, `+ ${short(more)}`] : shown;
  while (element.children.length > texts.length) element.lastChild.remove();
  while (element.children.length < texts.length) element.append(make("span"));
  texts.forEach((text, place) => say(element.children[place], text));
  element.lastChild.classList.toggle("more", more > 0);
  element.classList.toggle("double", texts.length > FEW_NUMBERS / 2);
}

// To so many digits, but a whole number as it is: it may be the number of a state.
function figure(value, digits) {
  if (Number.isInteger(value)) return number(value);
  if (digits <= 2 && Math.abs(value) < 0.0005) return number(0);
  return number(Number(value.toPrecision(digits)));
}
