// The timeline of an episode: return so far, rewards, exact matches and random actions, and a slider over them.

const BANDS = {
  // from and to, in pixels from the top
  whole: { line: [5, 38], rewards: [42, 56], matches: [61, 71], random: [75, 81], height: 84 },
  unmatched: { line: [5, 38], rewards: [42, 56], matches: null, random: [61, 67], height: 70 },
  small: { line: [4, 26], rewards: [30, 42], matches: null, random: null, height: 46 },
};

class Timeline {
  // seek(step) is called while the pointer is down; name says what the slider moves through. Without `matches` the
  // memory has no exact ones to show.
  constructor(element, { name, small = false, matches = true, seek }) {
    this.element = element;
    this.bands = small ? BANDS.small : matches ? BANDS.whole : BANDS.unmatched;
    this.episode = null;
    this.canvas = make("canvas", { role: "img", "aria-label": `${name}: nothing yet` });
    this.cursor = make("div", { class: "cursor" });
    this.mark = make("div", { class: "mark" });
    this.mark.hidden = true;
    this.slider = make(
      "div",
      { class: "slider", role: "slider", tabindex: "0", "aria-label": name, "aria-valuemin": "0", "aria-valuenow": "0" },
      this.canvas,
      this.mark,
      this.cursor,
    );
    this.canvas.style.height = `${this.bands.height}px`;
    this.name = name;
    element.append(this.slider);
    this.#listen(seek);
    new ResizeObserver(() => this.#draw()).observe(this.slider);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  // Rewards and, where they are known, exact and explored flags of all steps; marked is the step of a memory.
  show(episode, { marked = null } = {}) {
    this.episode = episode;
    this.marked = marked;
    this.mark.hidden = marked === null;
    set(this.slider, "aria-valuemax", Math.max(episode.rewards.length - 1, 0));
    set(this.canvas, "aria-label", `${this.name}: ${summary(episode)}`);
    if (marked !== null) this.mark.style.left = this.#percent(marked);
    this.#draw();
  }

  place(step, words) {
    set(this.slider, "aria-valuenow", step);
    set(this.slider, "aria-valuetext", words);
    this.cursor.style.left = this.#percent(step);
  }

  #percent(step) {
    return `${(100 * (step + 0.5)) / Math.max(this.episode ? this.episode.rewards.length : 0, 1)}%`;
  }

  #listen(seek) {
    const at = (event) => {
      const box = this.slider.getBoundingClientRect();
      const steps = this.episode ? this.episode.rewards.length : 0;
      const step = Math.floor(((event.clientX - box.left) / box.width) * steps);
      if (steps > 0) seek(Math.max(0, Math.min(steps - 1, step)));
    };
    this.slider.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.slider.setPointerCapture(event.pointerId);
      this.slider.focus();
      event.preventDefault();
      at(event);
    });
    this.slider.addEventListener("pointermove", (event) => {
      if (this.slider.hasPointerCapture(event.pointerId)) at(event);
    });
  }

  #draw() {
    const width = this.slider.clientWidth;
    if (!this.episode || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(this.bands.height * ratio) });
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    const style = getComputedStyle(this.slider);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    drawReturn(context, width, this.bands.line, this.episode.rewards, colour);
    drawRewards(context, width, this.bands.rewards, this.episode.rewards, colour);
    const { exact, explored } = this.episode;
    if (this.bands.matches && exact) drawMatches(context, width, this.bands.matches, exact, colour);
    if (this.bands.random && explored) drawRandom(context, width, this.bands.random, explored, colour);
  }
}

function summary(episode) {
  const rewarded = episode.rewards.filter((reward) => reward !== 0).length;
  const sum = episode.rewards.reduce((before, reward) => before + reward, 0);
  const parts = [count(episode.rewards.length, "step"), `${count(rewarded, "reward")}, ${number(sum)} in all`];
  if (episode.exact) {
    parts.push(`${percent(episode.exact.reduce((a, b) => a + b, 0) / Math.max(episode.exact.length, 1))} exact matches`);
  }
  if (episode.explored) {
    parts.push(count(episode.explored.reduce((a, b) => a + b, 0), "random action"));
  }
  return parts.join(", ");
}

function drawReturn(context, width, [top, bottom], rewards, colour) {
  const returns = [0];
  for (const reward of rewards) returns.push(returns.at(-1) + reward);
  const low = returns.reduce((a, b) => Math.min(a, b), 0);
  const high = returns.reduce((a, b) => Math.max(a, b), 0);
  const y = (value) => bottom - ((value - low) / (high - low || 1)) * (bottom - top);
  const x = (step) => (step / rewards.length) * width;
  context.beginPath();
  context.moveTo(0, y(0));
  // What is had by a step, it keeps until the next: stairs, not slopes.
  for (let step = 1; step < returns.length; step++) {
    if (returns[step] !== returns[step - 1]) {
      context.lineTo(x(step), y(returns[step - 1]));
      context.lineTo(x(step), y(returns[step]));
    }
  }
  context.lineTo(width, y(returns.at(-1)));
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.strokeStyle = colour("quiet");
  context.stroke();
  context.lineTo(width, y(0));
  context.lineTo(0, y(0));
  context.globalAlpha = 0.14;
  context.fillStyle = colour("quiet");
  context.fill();
  context.globalAlpha = 1;
}

function drawRewards(context, width, [top, bottom], rewards, colour) {
  const largest = rewards.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  const base = rewards.some((reward) => reward < 0) ? (top + bottom) / 2 : bottom;
  const room = base - top;
  context.fillStyle = colour("rule");
  context.fillRect(0, base - 0.5, width, 1);
  context.fillStyle = colour("text");
  const wide = Math.max(1.25, Math.min(width / rewards.length, 3));
  // A reward at every step would be a black band.
  if (rewards.filter((reward) => reward !== 0).length > rewards.length / 2) context.globalAlpha = 0.35;
  rewards.forEach((reward, step) => {
    if (reward === 0) return;
    // The square root keeps small rewards visible beside large ones.
    const high = Math.max(2.5, room * Math.sqrt(Math.abs(reward) / largest)) * Math.sign(reward);
    context.fillRect(((step + 0.5) / rewards.length) * width - wide / 2, base, wide, -high);
  });
  context.globalAlpha = 1;
}

// Above the middle exact matches, below it averages: told apart without colours, too. A column that stands for several
// steps is as high as their share.
function drawMatches(context, width, [top, bottom], exact, colour) {
  const columns = Math.min(exact.length, Math.floor(width));
  const middle = (top + bottom) / 2;
  const room = middle - top - 0.5;
  for (let column = 0; column < columns; column++) {
    const from = Math.floor((column * exact.length) / columns);
    const to = Math.max(from + 1, Math.floor(((column + 1) * exact.length) / columns));
    let matched = 0;
    for (let step = from; step < to; step++) matched += exact[step];
    const share = matched / (to - from);
    const left = (column / columns) * width;
    const wide = width / columns;
    context.fillStyle = colour("exact");
    if (share > 0) context.fillRect(left, middle - 0.5 - room * share, wide + 0.3, room * share);
    context.fillStyle = colour("average");
    if (share < 1) context.fillRect(left, middle + 0.5, wide + 0.3, room * (1 - share));
  }
}

function drawRandom(context, width, [top, bottom], explored, colour) {
  context.fillStyle = colour("text");
  explored.forEach((random, step) => {
    if (!random) return;
    const x = ((step + 0.5) / explored.length) * width;
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x + 3.5, bottom);
    context.lineTo(x - 3.5, bottom);
    context.fill();
  });
}
