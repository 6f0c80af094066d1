// Strips of cards, one card for each memory behind an estimate. Elements are made once and filled anew for each step.

// Tells strips and cards whether they are in sight, so many pixels ahead of it.
class Sight {
  #watched = new Map();

  constructor(margin, changed) {
    const seen = (entries) => {
      for (const entry of entries) this.#watched.get(entry.target).inSight = entry.isIntersecting;
      changed();
    };
    this.observer = new IntersectionObserver(seen, { rootMargin: `${margin}px`, scrollMargin: `${margin}px` });
  }

  watch(element, owner) {
    this.#watched.set(element, owner);
    this.observer.observe(element);
  }
}

class Card {
  inSight = false;
  place = null; // "episode:frame" of the memory on it
  painted = null; // the place whose frame is on its canvas

  constructor(run) {
    this.run = run;
    this.canvas = make("canvas", { role: "img", "aria-label": "", width: "84", height: "84" });
    this.instead = make("span", { class: "instead" });
    this.numbers = make("span", { class: "instead digits", hidden: "" });
    this.value = make("strong");
    this.distance = make("span");
    this.weight = make("span");
    this.episode = make("span");
    this.frame = make("span");
    this.matched = make("span");
    this.button = make(
      "button",
      { type: "button", class: "card", tabindex: "-1" },
      make("span", { class: "thumbnail" }, this.canvas, this.instead, this.numbers),
      this.value,
      this.distance,
      ...(run.kernel === "mean" ? [] : [this.weight]),
      this.episode,
      this.frame,
      ...(run.exact_matches ? [this.matched] : []),
    );
    this.item = make("li", {}, this.button);
  }

  show(neighbour, rank, of) {
    this.neighbour = neighbour;
    const recorded = neighbour.episode !== null && neighbour.frame !== null;
    const numbers = this.run.cards === "numbers" ? neighbour.numbers : null;
    const place = recorded && !numbers ? `${neighbour.episode}:${neighbour.frame}` : null;
    say(this.value, number(neighbour.value));
    set(this.button, "data-value", neighbour.value);
    set(this.button, "data-id", neighbour.id);
    say(this.distance, neighbour.distance === 0 ? "the same state" : `distance ${distance(neighbour.distance)}`);
    say(this.weight, `weight ${number(neighbour.weight)}`);
    say(this.episode, recorded ? `episode ${number(neighbour.episode)}` : "not recorded");
    say(this.frame, recorded ? `frame ${number(neighbour.frame)}` : "when it was");
    say(this.matched, `matched ${short(neighbour.matched)}×`);
    const when = recorded ? `episode ${neighbour.episode}, frame ${neighbour.frame}` : "not recorded when it was";
    const words = `Memory ${rank} of ${of}: value ${number(neighbour.value)}, distance ${distance(neighbour.distance)}`;
    const counts = weight(neighbour, this.run);
    const matched = this.run.exact_matches ? `, matched ${count(neighbour.matched, "time")}` : "";
    set(this.button, "aria-label", `${words}${counts}, ${when}${matched}`);
    set(this.button, "aria-disabled", recorded ? null : "true");
    set(this.canvas, "aria-label", recorded ? `Remembered frame ${neighbour.frame} of episode ${neighbour.episode}` : "");
    if (place !== this.place || place === null) {
      // An old frame beside new numbers would be untrue: rather none until the right one is there.
      if (this.painted !== null) blank(this.canvas);
      this.painted = null;
      this.place = place;
      this.canvas.hidden = place === null;
      this.#instead(numbers || recorded ? "" : "no frame");
    }
    this.numbers.hidden = !numbers;
    if (numbers) cardNumbers(this.numbers, numbers, this.run.numbers);
    this.item.hidden = false;
  }

  hide() {
    this.item.hidden = true;
    this.place = null;
    this.painted = null;
    this.neighbour = null;
  }

  // Whether a frame is still to come.
  get wanting() {
    return this.place !== null && this.painted !== this.place;
  }

  paint(thumbnail) {
    this.painted = this.place;
    this.canvas.hidden = !thumbnail.frame;
    if (thumbnail.frame) draw(this.canvas, thumbnail.frame, thumbnail.shape);
    this.#instead(thumbnail.frame ? "" : "no frame");
    set(this.button, "title", thumbnail.frame ? null : thumbnail.note);
  }

  #instead(text) {
    say(this.instead, text);
    this.instead.hidden = text === "";
    if (text === "") set(this.button, "title", null);
  }
}

const AT_FIRST = 14; // cards of a strip that are filled at once: more than any but a very wide window shows
const SOON = 80; // milliseconds until the others are
const FEW = 3; // cards beside which there is room for a hint
const HINT = "Click on a memory, or press Enter on it, to watch what happened next then, beside what happens now.";

// The memories of one action: a heading and its cards. Eighteen actions with fifty memories each would take half a
// second to fill: a strip out of sight has its heading only, and is filled when it comes near.
class Strip {
  constructor(run, sight, inSight) {
    this.run = run;
    this.sight = sight;
    this.inSight = inSight;
    this.cards = [];
    this.shown = 0;
    this.name = make("b");
    this.about = make("span");
    this.hint = make("li", { class: "hint", text: HINT });
    this.digits = make("span", { class: "instead digits" });
    const present = make("div", {}, make("span", { class: "thumbnail" }, this.digits), make("strong", { text: "now" }));
    this.present = make("li", { class: "present", hidden: "" }, present);
    this.list = make("ul", { class: "cards" }, this.present, this.hint);
    this.list.addEventListener("scroll", () => (this.scrolled = this.list.scrollLeft > 0), { passive: true });
    this.element = make("section", { class: "strip" }, make("h3", {}, this.name, " ", this.about), this.list);
  }

  // The hint is told once: beside the first of all strips. Where memories are numbers, those of now come before them.
  show(action, name, estimate, entries, first, numbers) {
    this.action = action;
    this.present.hidden = this.run.cards !== "numbers" || estimate.neighbours.length === 0;
    if (!this.present.hidden) cardNumbers(this.digits, numbers, this.run.numbers);
    this.first = first;
    this.neighbours = estimate.neighbours;
    set(this.element, "data-action", action);
    set(this.element, "data-source", estimate.source);
    set(this.list, "aria-label", `Memories behind ${name}`);
    say(this.name, name);
    say(this.about, behind(estimate, entries, this.run));
    this.element.hidden = false;
    this.filled = false;
    this.list.hidden = !this.inSight;
    if (this.inSight) this.fill();
    else this.#empty();
  }

  // The first cards at once, those beyond the edge when there is time, unless the reader has gone there.
  fill() {
    const all = this.neighbours.length;
    const gone = this.scrolled || this.list.contains(document.activeElement);
    this.filled = true;
    this.list.hidden = false;
    clearTimeout(this.rest);
    this.#fillTo(gone ? all : Math.min(all, AT_FIRST));
    if (this.shown < all) this.rest = setTimeout(() => this.#fillTo(all), SOON);
  }

  #fillTo(to) {
    const { neighbours } = this;
    while (this.cards.length < to) {
      const card = new Card(this.run);
      this.cards.push(card);
      this.hint.before(card.item);
      this.sight.watch(card.item, card);
    }
    for (let place = 0; place < to; place++) this.cards[place].show(neighbours[place], place + 1, neighbours.length);
    const focused = this.list.contains(document.activeElement);
    for (let place = to; place < this.shown; place++) this.cards[place].hide();
    this.shown = to;
    this.hint.hidden = !this.first || to === 0 || to > FEW;
    this.#reachable(this.cards.findIndex((card) => card.button.tabIndex === 0));
    if (focused && document.activeElement.closest("li").hidden && to > 0) this.reached.button.focus();
  }

  #empty() {
    clearTimeout(this.rest);
    for (let place = 0; place < this.shown; place++) this.cards[place].hide();
    this.shown = 0;
  }

  hide() {
    this.#empty();
    this.action = null;
    this.filled = true;
    this.element.hidden = true;
  }

  // One card of a strip is reached by Tab, the others from it: fifty stops would be too many.
  get reached() {
    return this.cards.find((card) => card.button.tabIndex === 0);
  }

  step(card, by) {
    const place = Math.max(0, Math.min(this.shown - 1, this.cards.indexOf(card) + by));
    this.#reachable(place);
    this.cards[place].button.focus();
  }

  reach(card) {
    this.#reachable(this.cards.indexOf(card));
  }

  #reachable(place) {
    const reached = place >= 0 && place < this.shown ? place : 0;
    this.cards.forEach((card, other) => set(card.button, "tabindex", other === reached ? 0 : -1));
  }
}

function behind(estimate, entries, run) {
  const some = estimate.neighbours.length;
  if (estimate.source === "infinity") {
    return entries === 0 ? "was never tried: it counts as more than any value" : "has too few memories to tell";
  }
  if (estimate.source === "zero") {
    return entries === 0 ? "was never tried: it counts as 0" : "has too few memories for an average: it counts as 0";
  }
  if (estimate.source === "exact") return "was taken in this very state before: its value is the best return that followed";
  const weighed = estimate.source === "weighted_mean" && some > 1 ? ", where nearer ones count more" : "";
  const worth = run.exact_matches ? "is new here: its value is" : "is worth";
  return `${worth} the average of ${some === 1 ? "the nearest" : `the ${some} nearest`} of ${count(entries, "memory", "memories")}${weighed}`;
}
