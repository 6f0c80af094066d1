// The decision of a step: a bar for each action, and below the bars the memories behind them. The bars stay where they
// are from step to step; the strip of the action taken comes first, so that it does, too.

class Decision {
  #strips = [];
  #chosen = new Map(); // action to whether the reader folded it open or shut
  #all = false;
  #round = 0;

  // open(action, neighbour) watches a memory; pointed(action, neighbour) tells which one the reader is at.
  constructor(run, thumbnails, { open, pointed, failed, isPlaying }) {
    this.run = run;
    this.isPlaying = isPlaying;
    this.thumbnails = thumbnails;
    this.failed = failed;
    this.root = find("#decision");
    this.verdict = find("#verdict");
    this.holder = find("#strips");
    this.cardSight = new Sight(150, () => this.#paint());
    this.stripSight = new Sight(400, () => {
      for (const strip of this.#strips) if (strip.inSight && !strip.filled) strip.fill();
      this.#paint();
    });
    this.rows = run.actions.map((name, action) => new Row(name, run.entries[action], () => this.#fold(action)));
    find("#actions").append(...this.rows.map((row) => row.item));
    find("#actions").classList.toggle("many", run.actions.length > 9);
    this.root.classList.toggle("weighted", run.kernel !== "mean");
    const longest = Math.max(...run.actions.map((name) => name.length));
    find("#actions").style.setProperty("--names", `${Math.max(5, Math.min(12, 0.52 * longest))}rem`);
    this.#listen(open, pointed);
  }

  // Resolves once all frames in sight are there, to whether this step is still the one to show.
  async show(step) {
    this.step = step;
    this.root.classList.remove("stale");
    set(this.root, "aria-busy", null);
    say(this.verdict, verdict(step, this.run));
    this.#bars();
    this.#fill();
    const round = ++this.#round;
    // Cards that just came into sight are told so after the next frame.
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    while (round === this.#round && this.#wanting().length > 0) await this.#paint();
    return round === this.#round;
  }

  // Plays no more, or plays on: see #isOpen.
  playerChanged() {
    if (!this.step) return;
    this.#bars();
    this.#fill();
  }

  // What is on the screen is of another step than the frame.
  stale() {
    this.root.classList.add("stale");
    set(this.root, "aria-busy", "true");
    this.#round++;
  }

  // Thumbnails that a step would show first, to be fetched ahead of it.
  ahead(step) {
    const taken = this.run.cards === "numbers" ? [] : step.actions[step.action].neighbours.slice(0, 9);
    return taken.filter((each) => each.episode !== null).map((each) => `${each.episode}:${each.frame}`);
  }

  // The card of a memory, if it is shown.
  card(action, id) {
    const strip = this.#strips.find((each) => each.action === action);
    return strip ? strip.cards.slice(0, strip.shown).find((card) => card.neighbour.id === id) : undefined;
  }

  focusCard(action, id) {
    if (!this.#isOpen(action)) this.#fold(action);
    const strip = this.#strips.find((each) => each.action === action);
    if (strip && !strip.filled) strip.fill();
    const card = this.card(action, id);
    if (!card) return;
    strip.reach(card);
    card.button.focus();
  }

  focusFirst() {
    const strip = this.#strips.find((each) => each.shown > 0);
    if (strip) strip.reached.button.focus();
  }

  stepCard(button, by) {
    const strip = this.#strips.find((each) => each.list.contains(button));
    const card = strip && strip.cards.find((each) => each.button === button);
    if (card) strip.step(card, by);
  }

  #bars() {
    const values = this.step.actions.map((estimate) => estimate.value).filter((value) => value !== null);
    const scale = { low: Math.min(0, ...values), high: Math.max(0, ...values) };
    const random = this.step.explored;
    this.rows.forEach((row, action) => {
      row.show(this.step.actions[action], scale, {
        taken: this.step.action === action,
        highest: this.step.highest.includes(action),
        random,
        open: this.#isOpen(action),
      });
    });
  }

  #isOpen(action) {
    if (this.#chosen.has(action)) return this.#chosen.get(action);
    if (this.#all || this.step.action === action) return true;
    // What it would have done otherwise. Not while it plays: what is below would jump for a fraction of a second.
    return this.step.explored && this.step.highest[0] === action && !this.isPlaying();
  }

  #fold(action) {
    this.#chosen.set(action, !this.#isOpen(action));
    this.#bars();
    this.#fill();
  }

  #fill() {
    const { action: taken, highest } = this.step;
    const others = this.run.actions.map((_, action) => action).filter((each) => each !== taken && each !== highest[0]);
    const order = [taken, ...(highest[0] === taken ? [] : [highest[0]]), ...others];
    const open = order.filter((action) => this.#isOpen(action));
    while (this.#strips.length < open.length) {
      const strip = new Strip(this.run, this.cardSight, this.#strips.length < 3);
      this.#strips.push(strip);
      this.holder.append(strip.element);
      this.stripSight.watch(strip.element, strip);
    }
    this.#strips.forEach((strip, place) => {
      const action = open[place];
      if (action === undefined) strip.hide();
      else {
        const { actions, numbers } = this.step;
        strip.show(action, this.run.actions[action], actions[action], this.run.entries[action], place === 0, numbers);
      }
    });
    this.#paint();
  }

  #wanting() {
    const cards = this.#strips.flatMap((strip) => strip.cards.slice(0, strip.shown));
    return cards.filter((card) => card.inSight && card.wanting);
  }

  // Paints the cards in sight, and asks for what is missing in one request. While one is under way the next waits, and
  // is then made for what is in sight by that time.
  async #paint() {
    this.painting ??= this.#paintAll().finally(() => {
      this.painting = null;
    });
    return this.painting;
  }

  async #paintAll() {
    for (;;) {
      const missing = [];
      for (const card of this.#wanting()) {
        const thumbnail = this.thumbnails.peek(card.place);
        if (thumbnail === undefined) missing.push(card.place);
        else card.paint(thumbnail);
      }
      if (missing.length === 0) return;
      try {
        await this.thumbnails.load(missing);
        await sleep(0);
      } catch (error) {
        for (const card of this.#wanting()) if (missing.includes(card.place)) card.paint({ note: error.message });
        this.failed(error);
      }
    }
  }

  #listen(open, pointed) {
    const cardOf = (target) => {
      const button = target.closest(".card");
      const strip = button && this.#strips.find((each) => each.list.contains(button));
      const card = strip && strip.cards.find((each) => each.button === button);
      return card && card.neighbour ? { strip, card } : null;
    };
    this.holder.addEventListener("click", (event) => {
      const found = cardOf(event.target);
      if (!found) return;
      found.strip.reach(found.card);
      open(found.strip.action, found.card.neighbour);
    });
    const point = (event) => {
      const found = cardOf(event.target);
      pointed(found ? found.strip.action : null, found ? found.card.neighbour : null);
    };
    this.holder.addEventListener("pointerover", point);
    this.holder.addEventListener("focusin", point);
    this.holder.addEventListener("pointerleave", () => pointed(null, null));
    this.holder.addEventListener("focusout", () => pointed(null, null));
    const choice = find("#opened");
    choice.addEventListener("click", (event) => {
      const chosen = event.target.dataset.opened;
      if (!chosen) return;
      this.#all = chosen === "all";
      this.#chosen.clear();
      for (const button of choice.children) set(button, "aria-pressed", String(button.dataset.opened === chosen));
      this.#bars();
      this.#fill();
    });
  }
}

// One action: a button that folds its memories open, with its bar and its value.
class Row {
  constructor(name, entries, fold) {
    this.label = name;
    this.fill = make("i", { class: "fill" });
    this.zero = make("i", { class: "zero" });
    this.tag = make("span", { class: "tag" });
    this.value = make("span", { class: "value" });
    this.kind = make("span", { class: "kind" });
    this.button = make(
      "button",
      { type: "button", class: "row", "aria-expanded": "false", "aria-controls": "strips" },
      make("span", { class: "name", text: name }),
      this.tag,
      make("span", { class: "bar", "aria-hidden": "true" }, this.fill, this.zero),
      this.value,
      this.kind,
      make("span", { class: "entries" }, number(entries), make("span", { text: entries === 1 ? " memory" : " memories" })),
    );
    this.button.addEventListener("click", fold);
    this.item = make("li", {}, this.button);
  }

  show(estimate, scale, { taken, highest, random, open }) {
    const value = estimate.value;
    const span = scale.high - scale.low || 1;
    const zero = (100 * -scale.low) / span;
    const end = value === null ? 100 : (100 * (value - scale.low)) / span;
    set(this.button, "data-source", estimate.source);
    set(this.button, "data-value", value);
    set(this.button, "aria-expanded", String(open));
    this.button.classList.toggle("taken", taken);
    this.button.classList.toggle("highest", highest);
    this.fill.style.left = `${Math.min(zero, end)}%`;
    this.fill.style.width = `${Math.abs(end - zero)}%`;
    this.zero.style.left = `${zero}%`;
    say(this.tag, taken ? (random ? "random" : "taken") : highest ? "highest" : "");
    set(this.tag, "data-tag", taken ? "taken" : null);
    say(this.value, value === null ? "untried" : number(value));
    say(this.kind, inShort(estimate));
  }
}

function inShort(estimate) {
  if (estimate.source === "infinity") return "counts as most";
  if (estimate.source === "zero") return "too few, so 0";
  if (estimate.source === "exact") return "exact match";
  return `${estimate.source === "weighted_mean" ? "weighted," : "average"} of ${estimate.neighbours.length}`;
}

function verdict(step, run) {
  const name = run.actions[step.action];
  const best = step.highest.map((action) => run.actions[action]);
  const untried = step.actions[step.action].value === null;
  if (step.explored) {
    if (step.highest.includes(step.action)) return `Random action: ${name}, which has the highest value as well.`;
    const others = best.length > 2 ? `${best.length} others` : best.join(" and ");
    return `Random action: ${name}. ${others} ${best.length > 1 ? "have" : "has"} the highest value.`;
  }
  if (untried) return `Takes ${name}, of which too little is known here: it counts as the highest.`;
  if (step.highest.length > 1) return `Takes ${name}, one of ${step.highest.length} actions with the highest value.`;
  return `Takes ${name}, which has the highest value.`;
}
