// A memory beside this game: what happened next then, and what happens now. Both move in step; `at` counts the steps
// since the memory then, and since the step that it was asked for now.

const ROWS = 13; // of the table, a few before the present one
const BEFORE = 3;
const LONG = 10; // letters of an action that the table has no room for in one line

class Comparison {
  settled = true;
  #round = 0;

  constructor(run, source, frames, answers, player, { moved, failed }) {
    Object.assign(this, { run, source, frames, answers, moved, failed });
    this.root = find("#comparison");
    this.now = this.#side("#side-now", "This game", ["Step", "Action", "Reward", "Return since"], (step) =>
      player.moveTo(Math.max(this.first, Math.min(this.last, step - this.base))),
    );
    this.then = this.#side("#side-then", "The past episode", ["Step", "Action", "Reward", "Return since"], (step) =>
      player.moveTo(step - this.anchor),
    );
    this.note = find("#side-then .note");
    this.title = find("#comparison-title");
    this.about = find("#comparison-about");
    this.rows = Array.from({ length: ROWS }, () => {
      const cells = [make("th", { scope: "row", class: "number" })];
      for (let i = 0; i < 4; i++) cells.push(make("td", { class: i % 2 ? "number" : "" }));
      const row = make("tr", {}, ...cells);
      return { row, cells };
    });
    find("#comparison tbody").append(...this.rows.map((each) => each.row));
    find("#comparison .sides").classList.toggle("long", run.actions.some((name) => name.length > LONG));
    this.transport = new Transport(find("#comparison-transport"), player);
  }

  #side(selector, name, figures, seek) {
    const root = find(selector);
    return {
      title: find("h3", root),
      picture: new Picture(find(".stage", root)),
      numbers: new Numbers(find(".numbers", root), this.run),
      timeline: new Timeline(find(".timeline", root), { name, small: true, seek }),
      figures: new Figures(find("dl", root), figures),
    };
  }

  get open() {
    return !this.root.hidden;
  }

  get first() {
    return this.past ? -this.anchor : -this.base;
  }

  get last() {
    return (this.past ? this.past.steps - this.anchor : this.game.steps - this.base) - 1;
  }

  async show(game, step, action, neighbour) {
    const round = ++this.#round;
    Object.assign(this, { game, base: step.step, neighbour, at: 0, past: null, settled: true });
    this.anchor = Math.floor(neighbour.frame / this.run.frame_skip);
    say(find("#back span"), `Back to step ${number(this.base)}`);
    say(this.title, `Now, and episode ${number(neighbour.episode)} then`);
    const worth = `A memory of ${this.run.actions[action]} worth ${number(neighbour.value)}`;
    const far = neighbour.distance === 0 ? "the very same state" : `distance ${distance(neighbour.distance)}`;
    const counts = weight(neighbour, this.run);
    say(this.about, `${worth}, ${far}${counts}, from frame ${number(neighbour.frame)} of episode ${number(neighbour.episode)}.`);
    say(this.then.title, `Then: episode ${number(neighbour.episode)}`);
    say(this.note, "Asking for the episode…");
    say(find("#followed-note"), "");
    this.root.hidden = false;
    this.now.timeline.show(game, { marked: this.base });
    this.then.timeline.show({ rewards: [] });
    this.then.picture.tell("…");
    this.#drawAll();
    try {
      const past = await this.source.json(`/api/past/${neighbour.episode}`);
      if (round !== this.#round) return;
      if (this.anchor >= past.steps) throw new Refusal("The record of this episode ends before this memory.");
      this.past = past;
    } catch (error) {
      if (round !== this.#round) return;
      say(this.note, error.message);
      this.then.picture.tell("No frames");
      this.failed(error);
      return;
    }
    this.#opened();
  }

  #opened() {
    const { past, anchor } = this;
    const begun = `It began at frame ${number(past.begun)} of the run${past.ended ? "" : "; its end is not recorded"}.`;
    say(this.note, `${past.note} ${begun}`);
    this.then.timeline.show({ rewards: past.rewards }, { marked: anchor });
    say(find("#followed-note"), this.#followed());
    this.#drawAll();
  }

  // What came of the memory. Where a life counts as an episode, `ends` has the last steps of the lives. With `n_step`
  // only so many rewards are in a return, before a value that the memory itself gave.
  #followed() {
    const { past, anchor } = this;
    const { gamma, n_step: most } = this.run;
    const told = (past.ends ?? []).find((step) => step >= anchor);
    const whole = told ?? past.steps - 1;
    const cut = most !== null && anchor + most <= whole;
    const end = cut ? anchor + most - 1 : whole;
    let value = 0;
    for (let step = end; step >= anchor; step--) value = past.rewards[step] + gamma * value;
    const discount = gamma === 1 ? "" : `, discounted by ${gamma} a step`;
    const last = past.ended ? "the end of the episode" : "where its record ends";
    const until = end < past.steps - 1 ? "the end of that life" : last;
    const steps = count(end - anchor + 1, "step");
    const followed = `Then, ${number(value)} followed ${cut ? "" : `to ${until}, `}in ${steps}${discount}.`;
    const kept = this.neighbour.value;
    if (Math.abs(kept - value) <= 1e-5 * Math.max(1, Math.abs(kept))) return `${followed} This is what the memory keeps.`;
    if (!cut && told === undefined && !past.ended) return `${followed} The memory keeps ${number(kept)}.`;
    if (most !== null) {
      const began = cut ? " began as that and what the state after them was worth, and" : "";
      return `${followed} The memory keeps ${number(kept)}: a value${began} moves with every visit and all that is learned.`;
    }
    const why = "A memory keeps the return of one life where lives count as episodes, and the best of several visits.";
    return `${followed} The memory keeps ${number(kept)}. ${why}`;
  }

  close() {
    this.#round++;
    this.root.hidden = true;
  }

  waits() {
    return false;
  }

  nextReward(direction) {
    if (!this.past) return null;
    const step = rewardFrom(this.past.rewards, this.anchor + this.at, direction);
    return step === null ? null : step - this.anchor;
  }

  moveTo(at) {
    this.at = Math.max(this.first, Math.min(this.last, at));
    this.#drawAll();
    this.moved();
  }

  // For ears: where both are.
  get words() {
    const step = this.anchor + this.at;
    const then = this.past ? `, then ${this.#action(this.past, step)}` : "";
    return `${this.#since()}: now ${this.#action(this.game, this.base + this.at)}${then}`;
  }

  #since() {
    if (this.at === 0) return "At the memory";
    return this.at > 0 ? `${count(this.at, "step")} on` : `${count(-this.at, "step")} before`;
  }

  #action(episode, step) {
    return step >= 0 && step < episode.actions.length ? this.run.actions[episode.actions[step]] : "–";
  }

  async #drawAll() {
    const round = this.#round;
    const at = this.at;
    say(this.transport.place, this.#since());
    this.#figures(this.now, this.game, this.base);
    if (this.past) this.#figures(this.then, this.past, this.anchor);
    else this.then.figures.show("–", "–", "–", "–");
    this.#table();
    this.settled = false;
    this.#tellThen(at);
    await Promise.all([this.#drawNow(round, at), this.#drawThen(round, at), this.#tellNow(round, at)]);
    if (round === this.#round && at === this.at) this.settled = true;
  }

  #figures(side, episode, base) {
    const step = base + this.at;
    const there = step >= 0 && step < episode.rewards.length;
    const [from, to] = this.at >= 0 ? [base, step] : [step, base];
    let since = 0;
    for (let i = Math.max(from, 0); i < Math.min(to, episode.rewards.length); i++) since += episode.rewards[i];
    const shown = Math.max(0, Math.min(episode.rewards.length - 1, step));
    side.figures.show(
      there ? `${number(step)} (frame ${number(step * this.run.frame_skip)})` : "–",
      this.#action(episode, step),
      there ? number(episode.rewards[step]) : "–",
      number(this.at >= 0 ? since : -since),
    );
    side.timeline.place(shown, `step ${shown}`);
  }

  #table() {
    const from = Math.max(this.first, Math.min(this.at - BEFORE, this.last - ROWS + 1));
    this.rows.forEach(({ row, cells }, place) => {
      const at = from + place;
      row.hidden = at > this.last;
      if (row.hidden) return;
      const episodes = [[this.game, this.base + at], [this.past, this.anchor + at]];
      say(cells[0], at === 0 ? "memory" : number(at));
      const done = episodes.map(([episode, step], side) => {
        const there = episode !== null && step >= 0 && step < episode.rewards.length;
        const reward = there ? episode.rewards[step] : 0;
        say(cells[1 + 2 * side], there ? this.#action(episode, step) : "");
        say(cells[2 + 2 * side], reward === 0 ? "" : number(reward));
        return there ? episode.actions[step] : null;
      });
      row.classList.toggle("differs", done[0] !== null && done[1] !== null && done[0] !== done[1]);
      set(row, "aria-current", at === this.at ? "step" : null);
    });
  }

  // What was seen as numbers. Of an episode that was not played again, only the memory's own are known.
  #tellThen(at) {
    if (this.run.numbers === null) return;
    const own = at === 0 ? this.neighbour.numbers : null;
    const known = this.past && this.past.numbers ? (this.past.numbers[this.anchor + at] ?? null) : own;
    this.then.numbers.show(known);
    find(".stage", this.#root(this.then)).hidden = known !== null && this.past !== null && !this.past.picture;
  }

  async #tellNow(round, at) {
    if (this.run.numbers === null) return;
    const step = this.base + at;
    const there = step >= 0 && step < this.game.steps;
    let numbers = null;
    try {
      if (there) numbers = (await this.answers.get(`/api/games/${this.game.game}/steps/${step}`)).numbers;
    } catch (error) {
      if (!isLate(error)) this.failed(error);
    }
    if (round !== this.#round || at !== this.at) return;
    this.now.numbers.show(numbers);
    find(".stage", this.#root(this.now)).hidden = numbers !== null && !this.#ownFrames()[1];
  }

  #root(side) {
    return side.numbers.root.parentElement;
  }

  async #drawNow(round, at) {
    const step = this.base + at;
    if (step < 0) this.now.picture.tell("This game had not begun.");
    else if (step >= this.game.steps) this.now.picture.tell(this.game.done ? "This game was over." : "Not played yet.");
    else {
      const [path, spec] = this.#ownFrames();
      if (!spec) this.now.picture.tell("This environment draws no picture.");
      else await this.#draw(this.now.picture, path, spec, step, `Frame ${step * this.run.frame_skip} of this game`, round, at);
    }
  }

  // Frames like those of then, where there are such: the same kind of picture is easier to compare.
  #ownFrames() {
    const { game } = this;
    const alike = this.past && this.past.picture && game.observation;
    const seen = alike && String(this.past.picture.shape) === String(game.observation.shape);
    const kind = seen || !game.picture ? "observation" : "picture";
    return [`/api/games/${game.game}/${kind}s`, game[kind]];
  }

  async #drawThen(round, at) {
    const { past } = this;
    if (!past) return;
    const step = this.anchor + at;
    const there = past.picture && past.available.some(([from, to]) => step >= from && step < to);
    if (!there) {
      const missing = this.source.recorded ? "This frame is not in this file." : "This frame was not kept.";
      this.then.picture.tell(past.picture ? missing : "No frames: see the note below.");
      return;
    }
    const label = `Remembered frame ${step * this.run.frame_skip} of episode ${past.episode}`;
    await this.#draw(this.then.picture, `/api/past/${past.episode}/frames`, past.picture, step, label, round, at);
  }

  async #draw(picture, path, spec, step, label, round, at) {
    try {
      const frame = this.frames.peek(path, spec, step) ?? (await this.#frame(path, spec, step));
      if (frame === null) return;
      if (round === this.#round && at === this.at) picture.show(frame, spec.shape, label);
      const next = step + spec.per_chunk;
      if (this.frames.peek(path, spec, next) === null && !this.source.recorded) this.#ahead(path, spec, next);
    } catch (error) {
      if (round === this.#round && at === this.at) picture.tell(error.message);
    }
  }

  // Both sides ask for the newest only; each waits for none of the other's.
  #frame(path, spec, step) {
    const side = path.startsWith("/api/past") ? this.then : this.now;
    side.newest ??= new Newest();
    return side.newest.run((signal) => this.frames.get(path, spec, step, signal));
  }

  #ahead(path, spec, step) {
    const steps = path.startsWith("/api/past") ? this.past.steps : this.game.steps;
    if (step < steps) this.frames.get(path, spec, step).catch(() => {});
  }
}
