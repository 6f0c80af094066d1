// The map of the memory: a sample of its states on two principal components, coloured by value, with this state and the
// memories behind one action drawn in.

const VIRIDIS = [
  [68, 1, 84], [72, 26, 108], [71, 47, 125], [65, 68, 135], [57, 86, 140], [49, 104, 142], [42, 120, 142],
  [35, 136, 142], [31, 152, 139], [34, 168, 132], [53, 183, 121], [84, 197, 104], [122, 209, 81], [165, 219, 54],
  [210, 226, 27], [253, 231, 37],
];
const NEAR = 14; // pixels from the pointer within which a point is told

// The end of the scale that is nearest to the ground would be lost on it: yellow on white, violet on black.
function scaleEnds() {
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? [0.22, 1] : [0, 0.9];
}

function viridis(share) {
  const [from, to] = scaleEnds();
  const place = (from + (to - from) * Math.max(0, Math.min(1, share))) * (VIRIDIS.length - 1);
  const below = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const mixed = VIRIDIS[below].map((part, i) => Math.round(part + (VIRIDIS[below + 1][i] - part) * (place - below)));
  return `rgb(${mixed.join(" ")})`;
}

// The range of all numbers but a share of them at either end.
function innerRange(numbers, share) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const last = sorted.length - 1;
  return last < 0 ? [0, 1] : [sorted[Math.floor(share * last)], sorted[Math.ceil((1 - share) * last)]];
}

function range(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(number);
  return low === high ? low : `${low} to ${high}`;
}

class MemoryMap {
  constructor(run) {
    this.run = run;
    this.points = run.map;
    this.canvas = make("canvas", { role: "img", tabindex: "0", "aria-label": "Map of the memory" });
    this.says = find("#map-says");
    this.ground = document.createElement("canvas");
    this.step = null;
    this.pointed = null;
    const plate = find("#memory-map .plate");
    plate.append(this.canvas);
    this.#measure();
    this.#legend();
    const again = () => {
      this.#legend();
      this.#drawGround();
      this.#drawAll();
    };
    new ResizeObserver(again).observe(plate);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    this.canvas.addEventListener("pointermove", (event) => this.#tellNear(event));
    this.canvas.addEventListener("pointerleave", () => say(this.says, this.words));
  }

  // The memories drawn are those behind this action: the one taken, unless the reader is at a card of another.
  show(step, action = step.action) {
    this.step = step;
    this.action = action;
    this.pointed = null;
    const estimate = step.actions[action];
    const name = this.run.actions[action];
    const values = estimate.neighbours.map((neighbour) => neighbour.value);
    this.words =
      values.length === 0
        ? `No memories of ${name} to draw.`
        : estimate.source === "exact"
          ? `This state is in the memory: ${name} is worth ${number(estimate.value)}.`
          : `${count(values.length, "memory", "memories")} of ${name}, worth ${range(values)}.`;
    say(this.says, this.words);
    const sample = count(this.points.value.length, "memory", "memories");
    set(this.canvas, "aria-label", `Map of ${sample}, coloured by value. ${this.words}`);
    this.#drawAll();
  }

  point(action, neighbour) {
    if (!this.step) return;
    if (action !== null && action !== this.action) this.show(this.step, action);
    this.pointed = neighbour;
    const about = (near) =>
      `Value ${number(near.value)}, distance ${distance(near.distance)}${weight(near, this.run)}.`;
    say(this.says, neighbour ? about(neighbour) : this.words);
    this.#drawAll();
  }

  #measure() {
    const { x, y, value, share } = this.points;
    // A few far states would crowd all others, a few extreme values would leave them one colour.
    this.across = innerRange(x, 0.003);
    this.up = innerRange(y, 0.003);
    [this.low, this.high] = innerRange(value, 0.02);
    const all = this.run.entries.reduce((a, b) => a + b, 0);
    const of = `${number(value.length)} of ${count(all, "memory", "memories")}`;
    const shares = share.map(percent).join(" and ");
    const about = `${of}, by two principal components (${shares} of the variance)`;
    const far = (numbers, [low, high]) => numbers.some((number) => number < low || number > high);
    const clipped = far(x, this.across) || far(y, this.up);
    say(find("#map-about"), clipped ? `${about}; the few farthest are at the edge.` : `${about}.`);
    this.beyond = [value.some((each) => each < this.low), value.some((each) => each > this.high)];
  }

  #legend() {
    const [bar, ticks] = find("#memory-map .scale").children;
    const stops = Array.from({ length: 11 }, (_, i) => viridis(i / 10));
    bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    const marks = this.high > this.low ? [this.low, (this.low + this.high) / 2, this.high] : [this.low];
    const texts = marks.map((mark) => number(Number(mark.toPrecision(3))));
    // A few values lie beyond either end, and have its colour.
    if (this.beyond[0]) texts[0] = `\u2264 ${texts[0]}`;
    if (this.beyond[1]) texts.push(`\u2265 ${texts.pop()}`);
    ticks.replaceChildren(...texts.map((text) => make("li", { text })));
  }

  #colour(value) {
    return viridis(this.high > this.low ? (value - this.low) / (this.high - this.low) : 0.5);
  }

  // Where a state is on the canvas; a far one is at the edge.
  #at(x, y) {
    const margin = 10;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const share = (value, [low, high]) => Math.max(0, Math.min(1, (value - low) / (high - low || 1)));
    return [
      margin + share(x, this.across) * (width - 2 * margin),
      height - margin - share(y, this.up) * (height - 2 * margin),
    ];
  }

  #fit(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(this.canvas.clientWidth * ratio);
    const height = Math.round(this.canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
    return [context, ratio];
  }

  #drawGround() {
    const [context, ratio] = this.#fit(this.ground);
    context.scale(ratio, ratio);
    const { x, y, value } = this.points;
    context.globalAlpha = 0.75;
    for (let i = 0; i < value.length; i++) {
      const [left, top] = this.#at(x[i], y[i]);
      context.fillStyle = this.#colour(value[i]);
      context.fillRect(left - 1.25, top - 1.25, 2.5, 2.5);
    }
  }

  #drawAll() {
    if (this.canvas.clientWidth === 0 || this.ground.width === 0) return;
    const [context, ratio] = this.#fit(this.canvas);
    context.drawImage(this.ground, 0, 0);
    if (!this.step) return;
    context.scale(ratio, ratio);
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const here = this.#at(...this.step.position);
    const ring = (at, radius, width, stroke) => {
      context.beginPath();
      context.arc(...at, radius, 0, 2 * Math.PI);
      context.lineWidth = width;
      context.strokeStyle = stroke;
      context.stroke();
    };
    for (const neighbour of this.step.actions[this.action].neighbours) {
      const at = this.#at(...neighbour.position);
      context.beginPath();
      context.moveTo(...here);
      context.lineTo(...at);
      context.lineWidth = 1;
      context.strokeStyle = colour("text");
      context.globalAlpha = 0.55;
      context.stroke();
      context.globalAlpha = 1;
      context.beginPath();
      context.arc(...at, 4, 0, 2 * Math.PI);
      context.fillStyle = this.#colour(neighbour.value);
      context.fill();
      ring(at, 4, 1.25, colour("text"));
      if (neighbour === this.pointed) ring(at, 8, 2, colour("text"));
    }
    // A halo of the ground keeps the ring apart from what is below it.
    ring(here, 7.5, 5, colour("card"));
    ring(here, 7.5, 2.5, colour("taken"));
  }

  #tellNear(event) {
    const box = this.canvas.getBoundingClientRect();
    let nearest = null;
    let best = NEAR ** 2;
    const { x, y, value, action } = this.points;
    for (let i = 0; i < value.length; i++) {
      const [left, top] = this.#at(x[i], y[i]);
      const apart = (left - event.clientX + box.left) ** 2 + (top - event.clientY + box.top) ** 2;
      if (apart < best) [best, nearest] = [apart, i];
    }
    if (nearest === null) say(this.says, this.words ?? "");
    else say(this.says, `Here: ${this.run.actions[action[nearest]]}, value ${number(value[nearest])}.`);
  }
}
